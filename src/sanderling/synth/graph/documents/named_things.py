"""Which things a line names, by the words of their names: looked up by the rarest word of each name. Knows no facts."""

from collections.abc import Iterable

from sanderling.synth.graph.documents.lines import Lines

_Entry = tuple[frozenset[int], str]


class NamedThings:
    """Things by their words, kind by kind."""

    def __init__(self, lines: Lines, names: Iterable[tuple[str, frozenset[str], str]]) -> None:
        """``names``: kind, words and id of each thing. Of two things of a kind with the same words, the first one stands."""
        self._lines = lines
        self._by_word: dict[str, dict[int, list[_Entry]]] = {}
        """Kind to rarest word to the names that hold it."""
        known: set[tuple[str, frozenset[int]]] = set()
        for kind, words, id in names:
            numbers = lines.numbers(words)
            if not numbers or (kind, numbers) in known:
                continue
            known.add((kind, numbers))
            rarest = min(numbers, key=lambda number: (lines.count(number), number))
            self._by_word.setdefault(kind, {}).setdefault(rarest, []).append((numbers, id))

    def on(self, line: int, kind: str) -> set[str]:
        """The things of a kind whose names a line holds."""
        by_word = self._by_word.get(kind)
        if by_word is None:
            return set()
        words = self._lines.words(line)
        return {id for word in words for name, id in by_word.get(word, ()) if name <= words}
