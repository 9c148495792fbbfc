"""The graph of a world on disk, made ready to ask about: an encyclopedia's from its seed, any other's from its pages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.synth.graph.contract import Uniqueness
from sanderling.synth.graph.documents.evidence import Evidence
from sanderling.synth.graph.documents.graph import documents_graph
from sanderling.synth.graph.documents.lines import Lines
from sanderling.synth.graph.draft import Draft
from sanderling.synth.graph.encyclopedia import encyclopedia_graph, encyclopedia_of
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.making import Verdict
from sanderling.synth.graph.words.documents import DOCUMENTS
from sanderling.synth.graph.words.encyclopedia import ENCYCLOPEDIA
from sanderling.synth.graph.words.registry import RelationBook
from sanderling.world.manifest import read_manifest
from sanderling.world.store import open_pages, open_world

Progress = Callable[[int, int], None]
"""Pages read, of how many."""
_HITS = 10


@dataclass(frozen=True)
class Opened:
    """A world as makers of questions see it."""

    name: str
    fingerprint: str
    ground: Ground
    verdict: Verdict


def open_ground(directory: Path, progress: Progress) -> Opened:
    """Read a world's facts. Raises UserError when there is no world, it cannot be read, or no facts are found in it."""
    info = read_manifest(directory)
    encyclopedia = encyclopedia_of(directory)
    if encyclopedia is not None:
        ground = Ground.of(encyclopedia_graph(encyclopedia), RelationBook(ENCYCLOPEDIA))
        return Opened(info.name, info.fingerprint, ground, proven)
    pages = list(open_pages(directory, info).all())
    graph = documents_graph(pages, lambda done: progress(done, len(pages)))
    if not graph.facts:
        raise UserError(f"No facts were found in {directory}: it needs pages with headings, links, lists or tables.")
    ground = Ground.of(graph, RelationBook(DOCUMENTS))
    world = open_world(directory)

    def search(query: str) -> Sequence[str]:
        return [hit.url for hit in world.search(query, limit=_HITS).hits]

    return Opened(info.name, info.fingerprint, ground, Evidence(ground, Lines.of(pages), search).verdict)


def proven(draft: Draft) -> tuple[Draft, Uniqueness]:
    """The verdict over a graph that is all there is: what is unique there is unique."""
    return draft, Uniqueness.PROVEN
