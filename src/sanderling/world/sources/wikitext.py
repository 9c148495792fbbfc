"""Wikitext as Markdown: headings as ``#`` lines, links by their words; templates, references, files and categories go.

Read by `mwparserfromhell`. Templates are not expanded, so what only a template would say (infobox facts) is lost.
"""

import re

from sanderling.world.sources.contract import world_extra

_HEADING = re.compile(r"^(={1,6})[ \t]*([^=\n]{1,500}?)[ \t]*\1[ \t]*$", re.MULTILINE)
_MARK = "\ue000"
"""Stands for ``#`` until the text is plain: at a line's start that would be a numbered list."""
_BLANK_LINES = re.compile(r"\n{3,}")


def read_wikitext(text: str) -> tuple[str, tuple[str, ...]]:
    """The words of an article, and the titles that it links to, in order, each once.

    Raises what the parser raises for text that it cannot take.
    """
    with world_extra():
        import mwparserfromhell
    marked = _HEADING.sub(lambda found: f"\n{_MARK * len(found[1])} {found[2]}\n", text.replace(_MARK, ""))
    code = mwparserfromhell.parse(marked)
    titles: dict[str, None] = {}
    for link in code.filter_wikilinks():
        title = " ".join(str(link.title).partition("#")[0].replace("_", " ").split())
        if ":" not in title:
            titles.setdefault(title[:1].upper() + title[1:])
        elif not title.startswith(":"):  # a file or category: its words are not the article's
            try:
                code.remove(link)
            except ValueError:  # within a link that went before
                continue
    for tag in code.filter_tags(matches=lambda tag: str(tag.tag).strip().lower() == "ref"):
        try:
            code.remove(tag)
        except ValueError:  # within a tag that went before
            continue
    plain = str(code.strip_code(normalize=True, collapse=True)).replace(_MARK, "#")
    titles.pop("", None)
    return _BLANK_LINES.sub("\n\n", plain).strip(), tuple(titles)
