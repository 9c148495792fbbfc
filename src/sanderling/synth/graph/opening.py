"""The graph of a generated encyclopedia on disk, made ready to ask about."""

from dataclasses import dataclass
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.synth.graph.encyclopedia import encyclopedia_graph, encyclopedia_of
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.words.encyclopedia import ENCYCLOPEDIA
from sanderling.synth.graph.words.registry import RelationBook
from sanderling.world.disk.store import read_manifest


@dataclass(frozen=True)
class Opened:
    """A world as makers of questions see it."""

    name: str
    fingerprint: str
    ground: Ground


def open_ground(directory: Path) -> Opened:
    """The facts of a generated world. Raises UserError when there is no world, or its facts are not known from a seed."""
    info = read_manifest(directory)
    encyclopedia = encyclopedia_of(directory)
    if encyclopedia is None:
        raise UserError(
            f"No facts are known of {directory}, which is no generated encyclopedia: name a --model to read its pages for them."
        )
    return Opened(info.name, info.fingerprint, Ground.of(encyclopedia_graph(encyclopedia), RelationBook(ENCYCLOPEDIA)))
