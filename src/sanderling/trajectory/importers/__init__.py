"""Recorded trajectories of other systems, into the record, without losing a message.

Contract: as many nodes as messages, in order, their text unchanged; what is not understood is a RAW node holding the message.
Ids are stable: the file's folder and name, and the entry's index in it. Token ids are absent, as the files have none.
"""

from sanderling.trajectory.importers.layouts import Layout, detect
from sanderling.trajectory.importers.report import ImportReport, Oddity, merge_reports
from sanderling.trajectory.importers.run import ImportResult, import_file, import_tree

__all__ = ["ImportReport", "ImportResult", "Layout", "Oddity", "detect", "import_file", "import_tree", "merge_reports"]
