"""Which thing a link means: by the page that it leads to and the words that it shows.

Numbered standards are things without a page.
"""

from dataclasses import dataclass, field

from sanderling.synth.graph.documents.blocks import Link
from sanderling.synth.graph.documents.naming import key_of, last_part, standard_in
from sanderling.world.canonical import canonical_url


@dataclass
class NamesIndex:
    """Names of things by page."""

    _of_page: dict[str, dict[str, str | None]] = field(default_factory=dict)
    """Page to key to thing; None: two things have it."""
    _subject: dict[str, str] = field(default_factory=dict)
    _everywhere: dict[str, str | None] = field(default_factory=dict)
    """Key of a whole name to the one thing that has it; None: several have."""
    standards: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Id to name and kind of the standards met."""

    def add(self, url: str, name: str, thing: str) -> None:
        """A thing of a page, by its whole name and by the last part of it."""
        names = self._of_page.setdefault(canonical_url(url), {})
        for key in {key_of(name), key_of(last_part(name))}:
            names[key] = thing if names.get(key, thing) == thing else None

    def define(self, url: str, name: str, thing: str) -> None:
        """Something that a page defines: its whole name is known everywhere, too."""
        self.add(url, name, thing)
        key = key_of(name)
        self._everywhere[key] = thing if self._everywhere.get(key, thing) == thing else None

    def add_subject(self, url: str, name: str, thing: str) -> None:
        """What a page is about; its name wins over a definition's last part."""
        self._of_page.setdefault(canonical_url(url), {})[key_of(name)] = thing
        self._subject[canonical_url(url)] = thing

    def subject(self, url: str) -> str | None:
        """What a page is about."""
        return self._subject.get(canonical_url(url))

    def unlinked(self, url: str, word: str) -> str | None:
        """The thing that a bare name on a page means: one of that page, or the only one of that whole name anywhere.

        None where both are there and differ: "open()" on the page of "gzip.open()".
        """
        names = self._of_page.get(canonical_url(url), {})
        key = key_of(word)
        here, anywhere = names.get(key), self._everywhere.get(key)
        if key in names and key in self._everywhere:
            return here if here == anywhere else None
        return here or anywhere

    def resolve(self, link: Link) -> str | None:
        """The thing that a link means; None where its words name none of its page."""
        if found := standard_in(link.words):
            self.standards.setdefault(found[0], found)
            return found[0]
        names = self._of_page.get(canonical_url(link.url), {})
        return names.get(key_of(link.words))
