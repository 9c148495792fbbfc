"""bm25s: every score computed when the index is built, kept as a sparse matrix; NumPy backend, in memory."""

import importlib.util
from collections.abc import Iterable, Sequence
from pathlib import Path

from engines.contract import TermRanker
from sanderling.world.disk.index import Ranked

_FOLDER = "bm25s"
_K1, _B = 1.2, 0.75


class Bm25s:
    """See `contract.Engine`."""

    note = "holds its whole index in memory"

    def missing(self) -> str:
        return "" if importlib.util.find_spec("bm25s") else "bm25s is not installed: pip install bm25s"

    def build(self, directory: Path, documents: Iterable[str]) -> None:
        import bm25s
        from bm25s.tokenization import Tokenized

        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(term, len(vocabulary)) for term in document.split()] for document in documents]
        index = bm25s.BM25(method="lucene", k1=_K1, b=_B)
        index.index(Tokenized(ids=ids, vocab=vocabulary), show_progress=False)
        index.save(directory / _FOLDER, show_progress=False)

    def open(self, directory: Path) -> "_Bm25sRanker":
        return _Bm25sRanker(directory / _FOLDER)


class _Bm25sRanker(TermRanker):
    name = "bm25s"

    def __init__(self, folder: Path) -> None:
        import bm25s

        self._index = bm25s.BM25.load(folder, show_progress=False)
        self._index.backend = "numpy"
        self._count = int(self._index.scores["num_docs"])

    def best(self, terms: Sequence[str], limit: int) -> Ranked:
        asked = [term for term in terms if term in self._index.vocab_dict]
        if not asked:
            return []
        most = min(limit, self._count)
        numbers, scores = self._index.retrieve([asked], k=most, show_progress=False, backend_selection="numpy")
        return [(int(n), float(s)) for n, s in zip(numbers[0], scores[0], strict=True) if s > 0]
