"""AgentToLeaP's attempts as records: each ``result.json`` through the importer, with the task and number of its folder.

A run that failed (``success`` is false) is an outage: its file does not say whose, so it is unscored. An attempt that has no
whole record was begun and not ended. Where an attempt before it left no readable record, the harness, which numbers what it
could read, gives verdicts to the wrong attempts: such verdicts are left out.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.core.types import Ending
from sanderling.data.importing import Import
from sanderling.evaluate.benchmark_files import sha256_of
from sanderling.evaluate.peers.contract import Found, Left, Lost, Sources
from sanderling.evaluate.peers.folders import Attempt, attempts_in

CONFIG = "meta_config.json"
_ONLY_RIGHT = "the folders hold copies of right attempts alone"
FAILED = "the run failed; its record does not say whether the model, a tool or the harness did"


class LeapFolders:
    """The attempts in folders of one run."""

    def __init__(self, sources: Sequence[Path], tasks: Iterable[str] = ()) -> None:
        """``tasks``: ids that are known to be tasks. Raises UserError where the folders are of several runs."""
        self._sources = list(sources)
        self._found = Left()
        tree = attempts_in(self._sources, tasks, self._found)
        self._attempts = tree.attempts
        self._chosen = _ONLY_RIGHT if tree.only_right else ""
        self.left = self._found

    def sources(self) -> Sources:
        """Where they come from."""
        files = [one.path for one in self._attempts if one.path.exists()]
        return Sources(tuple(source.resolve().name for source in self._sources), sha256_of(files))

    def __iter__(self) -> Iterator[Found | Lost]:
        """Task by task. Raises UserError when no record can be read."""
        self.left = Left(copies=self._found.copies, parts=self._found.parts, contradictions=self._found.contradictions)
        any_read = False
        for _, attempts in groupby(self._attempts, key=lambda one: one.task):
            in_order = True
            for place, one in enumerate(attempts):
                found = _read(one)
                in_order = in_order and one.number == place and isinstance(found, Trajectory)
                any_read = any_read or isinstance(found, Trajectory)
                if isinstance(found, Trajectory):
                    self.left.unsure_verdicts += one.published is not None and not in_order
                    yield Found(
                        found,
                        "agenttoleap",
                        one.task,
                        one.number,
                        one.published if in_order else None,
                        chosen=self._chosen,
                    )
                else:
                    yield Lost(one.task, one.number, found)
        if not any_read:
            raise UserError(f"None of the {len(self._attempts):,} results of AgentToLeaP can be read: check the folder.")


def _read(attempt: Attempt) -> Trajectory | str:
    """The record, or why there is none."""
    if not attempt.path.exists():
        return "begun, and not ended"
    try:
        reading = Import(attempt.path, name=f"{attempt.task}/{attempt.number}")
        records = [one for one in reading if isinstance(one, Trajectory) and one.meta.get("layout") == "agenttoleap"]
    except UserError:
        records = []
    if len(records) != 1:
        return "its record is cut off, or none"
    return _ended(records[0]).model_copy(update={"model": _model(attempt.path.with_name(CONFIG))})


def _model(path: Path) -> str:
    """As the file beside the record says; empty where there is none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    model = found.get("model") if isinstance(found, dict) else None
    return model if isinstance(model, str) else ""


def _ended(found: Trajectory) -> Trajectory:
    """With the ending that a failed run has."""
    fields = found.meta.get("fields")
    if not isinstance(fields, dict) or fields.get("success") is not False:
        return found
    return found.model_copy(update={"ending": Ending.POLICY_OUTAGE, "detail": FAILED})
