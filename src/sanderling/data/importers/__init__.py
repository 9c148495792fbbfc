"""Recorded trajectories and question sets of other systems, into the record, without losing a message.

Contract: every message is in one node, in order; what is not understood is a RAW node holding the message. Files stream: see
``run.py``. Ids are stable: the file's folder and name, and the entry's index in it. Token ids are absent, as the files have
none. A layout is one module with a ``LayoutReader`` (``layouts.py``) and a line in ``registry.py``.
"""

from sanderling.data.importers.layouts import Layout
from sanderling.data.importers.report import ImportReport, LayoutCount, Oddity, merge_reports
from sanderling.data.importers.run import Import, ImportResult, detect, import_file, import_tree, open_import

__all__ = [
    "Import",
    "ImportReport",
    "ImportResult",
    "Layout",
    "LayoutCount",
    "Oddity",
    "detect",
    "import_file",
    "import_tree",
    "merge_reports",
    "open_import",
]
