"""Others' recorded files as records, in any layout that can be imported. Knows no folder structure.

What a layout says beside its messages is read here: a verdict of those who made the record, the benchmark it names, and whether
such files are published because they are right.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside
from sanderling.core.record import Trajectory
from sanderling.data.importing import Import, find_places
from sanderling.evaluate.benchmark_files import sha256_of
from sanderling.evaluate.peers.contract import Found, Left, Lost, Sources

_TRAINING = "these are published as training data, which is chosen for being right"
_VERDICTS = {"CORRECT": True, "INCORRECT": False}


class RecordedFiles:
    """The trajectories of files and folders."""

    def __init__(self, sources: Sequence[Path], layout: str = "") -> None:
        """``layout``: records of another one are left out. Raises UserError for a source that is not there."""
        self._sources = list(sources)
        self._layout = layout
        self._files = [place.path for place in find_places(self._sources).files]
        self.left = Left()

    def sources(self) -> Sources:
        """Where they come from."""
        return Sources(tuple(source.resolve().name for source in self._sources), sha256_of(self._files))

    def __iter__(self) -> Iterator[Found | Lost]:
        """In the order of the files."""
        self.left = Left()
        reading = Import(*self._sources, layout=self._layout if is_outside(self._layout) else "")
        any_read = False
        for one in reading:
            if not isinstance(one, Trajectory):
                self.left.questions += 1
                continue
            layout = reading.layout
            if self._layout and layout != self._layout:
                self.left.other_layouts += 1
                continue
            any_read = True
            yield _found(one, layout)
        self.left.unread = reading.report.unread
        self.left.files = len(reading.left_files)
        if not any_read:
            told = f"no trajectory in the layout {self._layout}" if self._layout else "questions and no trajectory"
            raise UserError(f"{', '.join(map(str, self._sources))} holds {told}: give a file with trajectories.")


def _found(one: Trajectory, layout: str) -> Found:
    inner = one.meta.get("fields")
    fields = inner if isinstance(inner, dict) else {}
    named = fields.get("benchmark")
    return Found(
        one,
        layout,
        # Ours say which attempt they are; one that was tried again is there twice, and refused.
        number=one.seeds.attempt if layout == "sanderling" else None,
        published=_published(fields, layout),
        named_set=named if isinstance(named, str) else "",
        chosen=_chosen(one, fields, layout),
        chosen_if_right=layout == "literesearcher-cases",
    )


def _published(fields: Mapping[str, Any], layout: str) -> bool | None:
    if layout == "literesearcher-cases":
        said = fields.get("judge_verdict")
        correct = fields.get("judge_correct")
        word = _VERDICTS.get(said.strip().upper()) if isinstance(said, str) else None
        return word if word is not None else correct if isinstance(correct, bool) else None
    return True if _is_right_dialogue(fields, layout) else None


def _chosen(one: Trajectory, fields: Mapping[str, Any], layout: str) -> str:
    if layout == "literesearcher-cases":
        return "LiteResearcher's cases are picked by hand among right answers"
    if _is_right_dialogue(fields, layout):
        return "AgentToLeaP's file of dialogues holds right ones alone"
    is_sft = layout in ("webdancer-chatml", "redsearcher-sft") or (
        layout == "dr-venus-sft" and one.ending is None and "prediction" not in fields
    )
    return _TRAINING if is_sft else ""


def _is_right_dialogue(fields: Mapping[str, Any], layout: str) -> bool:
    return layout == "agenttoleap" and "query" not in fields and "success" not in fields
