"""What a browser would make of a page."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """Its elements in order with their attributes, those that are never closed, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data

    def count(self, name: str) -> int:
        return sum(tag == name for tag, _ in self.tags)

    def all(self, attribute: str) -> list[str]:
        """The attribute's values, of all elements that have it."""
        return [found[attribute] or "" for _, found in self.tags if attribute in found]
