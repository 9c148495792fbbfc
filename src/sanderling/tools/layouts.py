"""Replies as the text a model reads: one function for search and one for visit, in three layouts.

The JSON and Markdown layouts have the shapes that the released checkpoints saw in training (checked against recorded
trajectories); the compact one spends as few tokens as can be.
"""

from collections.abc import Sequence

from sanderling.core.observations import ListedPage, SearchBlock
from sanderling.core.profiles import BETWEEN, ResultLayout, one_line, results_text
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import part_address
from sanderling.world.contract import SearchReply, VisitReply
from sanderling.world.cutting import Prices, pieces
from sanderling.world.text import plain, sentences, word_count

_SUMMARY_WORDS = 60
_SENTENCE_WORDS = 120
"""Of a longer sentence, as lists and tables seem to have, a summary shows the beginning."""
_LONGEST_ECHO = 2_000
_NO_SUMMARY = "No information from this page is available."

_MISSES = {
    ToolStatus.EMPTY: ("The search found nothing; try other words.", "No results."),
    ToolStatus.NOT_FOUND: ("No page was found at this address; check the URL or try another page.", "Page not found."),
    ToolStatus.GONE: ("The page no longer exists; try another page.", "Page gone."),
    ToolStatus.TIMEOUT: ("The request timed out; try again or try something else.", "Timed out."),
    ToolStatus.BLOCKED: ("The site refused access; try another page.", "Page blocked."),
    ToolStatus.PAYWALLED: ("The page is behind a paywall; try another page.", "Page paywalled."),
    ToolStatus.NOT_TEXT: ("The page is not readable text; try another page.", "Page not readable."),
    ToolStatus.RATE_LIMITED: ("Too many requests at once; try again later.", "Try later."),
    ToolStatus.OUTAGE: ("The service is unreachable.", "Unreachable."),
}
"""What is said of a part that failed, in a sentence and in the compact layout."""


def status_sentence(status: ToolStatus, layout: ResultLayout) -> str:
    """What the agent reads for a part that failed; a word or two in the compact layout."""
    sentence, short = _MISSES.get(status, ("The call failed.", "The call failed."))
    return short if layout is ResultLayout.COMPACT else sentence


def search_text(replies: Sequence[SearchReply], layout: ResultLayout) -> str:
    """The results of one search call, a block for each query, in order."""
    blocks = []
    for reply in replies:
        error = "" if reply.status in (ToolStatus.OK, ToolStatus.EMPTY) else status_sentence(reply.status, layout)
        hits = tuple(ListedPage(hit.title, hit.url, hit.snippet, hit.date) for hit in reply.hits)
        blocks.append(SearchBlock(_echo(reply.query), hits, error))
    return results_text(blocks, layout, empty=status_sentence(ToolStatus.EMPTY, layout))


def visit_text(replies: Sequence[VisitReply], goal: str, layout: ResultLayout, *, parts: bool = False) -> str:
    """The pages of one visit call, a block for each URL, in order; ``parts``: with a note where a page can be read on."""
    compact = layout is ResultLayout.COMPACT
    blocks = []
    for reply in replies:
        is_read, note = reply.status is ToolStatus.OK, parts_note(reply) if parts else ""
        if compact:
            block = f"{one_line(reply.title)}\n{reply.text}" if is_read else visit_miss(reply, layout)
        else:
            evidence = reply.text if is_read else visit_miss(reply, layout)
            short = (reply.summary or summary(reply.text)) if is_read else _NO_SUMMARY
            head = f"The useful information in {_echo(reply.url)} for user goal {_echo(goal)} as follows: \n\n"
            block = f"{head}Evidence in page: \n{evidence}\n\nSummary: \n{short}"
        blocks.append(f"{block}\n\n{note}" if note else block)
    return ("\n\n" if compact else BETWEEN).join(blocks)


def parts_note(reply: VisitReply) -> str:
    """What of a page is still to be read and by which address, in one sentence; empty when nothing is."""
    if reply.status is not ToolStatus.OK or reply.parts == 1:
        return ""
    if not reply.part:
        return f"(Passages of a long page. The whole page in {reply.parts} parts: {part_address(reply.url, 1)} and on.)"
    if reply.part < reply.parts:
        return f"(Part {reply.part} of {reply.parts}. Next: {part_address(reply.url, reply.part + 1)})"
    return f"(Part {reply.part} of {reply.parts}, the last.)"


def visit_miss(reply: VisitReply, layout: ResultLayout) -> str:
    """What the agent reads for a visit that failed."""
    if reply.status is not ToolStatus.NOT_FOUND or reply.part <= reply.parts:
        return status_sentence(reply.status, layout)
    if layout is ResultLayout.COMPACT:
        return f"No part {reply.part} of {reply.parts}."
    return f"This page has no part {reply.part}; the last is {part_address(reply.url, reply.parts)}."


def summary(text: str, most_words: int = _SUMMARY_WORDS) -> str:
    """The first sentences of an extract, headings left out; at least one, or the beginning of one that does not end."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    kept: list[str] = []
    left = most_words
    for sentence in (s for line in lines for s in sentences(" ".join(plain(line).split()))):
        left -= word_count(sentence)
        if kept and left < 0:
            break
        start, end = pieces(Prices(sentence), 0, len(sentence), _SENTENCE_WORDS)[0]
        kept.append(sentence[start:end] if end == len(sentence) else f"{sentence[start:end]} …")
    return " ".join(kept)


def _echo(text: str) -> str:
    """The caller's own words, which may be of any length, at a length that leaves room for the reply."""
    return text if len(text) <= _LONGEST_ECHO else f"{text[:_LONGEST_ECHO]}…"
