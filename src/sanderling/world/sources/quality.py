"""The main content of an HTML page as `trafilatura` finds it: slower than `resiliparse`, with less of what stands around it.

Gives HTML of the main content alone, with its links as they stand; empty where it finds none, or where the page is too long to
be read in bounded time. Needs the extra ``[quality]``. Does not make Markdown.
"""

import re

from sanderling.errors import UserError

_MOST_CHARS = 1_000_000
"""Of the page's HTML. Typical pages take 10 to 50 ms; the time grows with their length."""
_INLINE_CODE = re.compile(r"<pre>([^\n<]*)</pre>")
"""Code within a sentence is given out as a block."""


def require_trafilatura() -> None:
    """Raises UserError when it is not installed."""
    try:
        import trafilatura  # noqa: F401
    except ModuleNotFoundError as error:
        raise UserError(
            f"--extractor trafilatura needs {error.name}: run pip install '.[quality]' in sanderling's own folder."
        ) from error


def main_content(source: str) -> str:
    """HTML of the main content; empty: none was found."""
    if len(source) > _MOST_CHARS:
        return ""
    import trafilatura

    found = trafilatura.extract(
        source, output_format="html", include_links=True, include_formatting=True, include_tables=True, include_comments=False
    )
    return _INLINE_CODE.sub(r"<code>\1</code>", found or "")
