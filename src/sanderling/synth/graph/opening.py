"""The graph of a world on disk, made ready to ask about: an encyclopedia's from its seed, any other's from its pages."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sanderling.errors import UserError
from sanderling.synth.graph.contract import Uniqueness
from sanderling.synth.graph.draft import Draft
from sanderling.synth.graph.encyclopedia import encyclopedia_graph, encyclopedia_of
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.making import Verdict
from sanderling.synth.graph.words.registry import RelationBook
from sanderling.world.manifest import read_manifest

Progress = Callable[[int, int], None]
"""Pages read, of how many."""


@dataclass(frozen=True)
class Opened:
    """A world as makers of questions see it."""

    name: str
    fingerprint: str
    ground: Ground
    verdict: Verdict


def open_ground(directory: Path, progress: Progress) -> Opened:
    """Read a world's facts. Raises UserError when there is no world, or it cannot be read."""
    info = read_manifest(directory)
    encyclopedia = encyclopedia_of(directory)
    if encyclopedia is not None:
        ground = Ground.of(encyclopedia_graph(encyclopedia), RelationBook())
        return Opened(info.name, info.fingerprint, ground, proven)
    raise UserError(f"{directory} is not just the pages of a generated encyclopedia: its facts are not known.")


def proven(draft: Draft) -> tuple[Draft, Uniqueness]:
    """The verdict over a graph that is all there is: what is unique there is unique."""
    return draft, Uniqueness.PROVEN
