"""Search-result text to structured results, and these in the target's layout.

What is read is what `trajectory.observations` reads: titles with brackets, URLs with parentheses, queries with quotes and
apostrophes, and dates as a field of their own. A list is only rewritten when the new text reads back as the very same results
(in the compact layout, which leaves queries and dates out, no reading back is possible), and stays as it was found otherwise.
Pages and notices stay as they are: they are the same in every layout.
"""

import re
from dataclasses import replace

from pydantic import BaseModel, ConfigDict

from sanderling.core.observations import Reading, SearchBlock, read_observation
from sanderling.core.profiles import ResultLayout
from sanderling.core.prompts import one_line, results_text
from sanderling.core.record import NodeKind, Trajectory
from sanderling.data.cleaning.contract import Note, Outcome, Target
from sanderling.data.cleaning.graph import Kept, rebuild, with_text
from sanderling.data.cleaning.responses import join_blocks, split_blocks
from sanderling.data.cleaning.rounds import Round, join, take_apart

_UNSAFE = frozenset({"unknown_layout", "odd_block", "unread_entry"})
"""Problems of a reading after which something would be lost: such a list stays as it was found."""
_SOURCE = re.compile(r"(?:\n|\\n)[ ]*Source: ")
"""A line that names a result's site, for which no layout has a place."""
_NO_RESULTS = "No results."


class ResultsSettings(BaseModel):
    """How results are laid out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layout: ResultLayout | None = None
    """None: as the target profile does."""


def structured_results(trajectory: Trajectory, settings: ResultsSettings, target: Target) -> Outcome:
    """The trajectory with every list of results in one layout."""
    layout = settings.layout or target.profile.results
    apart = take_apart(trajectory)
    notes: list[Note] = []
    rounds = [
        Round(one.turn, tuple(_reply(kept, layout, notes) if kept is one.observation else kept for kept in one.replies))
        for one in apart.rounds
    ]
    return Outcome(*rebuild(trajectory, join(apart.head, rounds), notes))


def _reply(kept: Kept, layout: ResultLayout, notes: list[Note]) -> Kept:
    index, node = kept
    if node.kind is not NodeKind.OBSERVATION:
        return kept
    blocks = split_blocks(node.text)
    new = [_block(block, layout, notes) for block in blocks]
    return kept if new == blocks else (index, with_text(node, join_blocks(new)))


def _block(block: str, layout: ResultLayout, notes: list[Note]) -> str:
    """One call's result in the layout; itself where it is no list of results or cannot be rewritten safely."""
    if not block.lstrip().startswith(("[", "A Google search for '")):
        return block
    reading = read_observation(block)
    if not reading.blocks:
        return block
    lists = tuple(_plain_titles(found) for found in reading.blocks)
    text = results_text(lists, layout, empty=_NO_RESULTS)
    if text == block:
        return block
    if _UNSAFE & set(reading.problems) or not _reads_back(text, lists, layout):
        notes.append(Note("results_left_as_found", 1, block))
        return block
    notes.append(Note("results_rewritten", 1, block, text))
    notes += _figures(reading, len(_SOURCE.findall(block)) - len(_SOURCE.findall(text)))
    return text


def _plain_titles(found: SearchBlock) -> SearchBlock:
    """The list with each title on one line, as every layout shows it."""
    titles = [one_line(hit.title) for hit in found.hits]
    if all(title == hit.title for title, hit in zip(titles, found.hits, strict=True)):
        return found
    return replace(found, hits=tuple(replace(hit, title=title) for title, hit in zip(titles, found.hits, strict=True)))


def _reads_back(text: str, lists: tuple[SearchBlock, ...], layout: ResultLayout) -> bool:
    if layout is ResultLayout.COMPACT:
        return not text.lstrip().startswith(("[{", "A Google search for '"))
    reading = read_observation(text)
    return reading.blocks == lists and not _UNSAFE & set(reading.problems)


def _figures(reading: Reading, sources: int) -> list[Note]:
    """What was read of a list that was rewritten, and what could not be."""
    hits = [hit for found in reading.blocks for hit in found.hits]
    numbers = {
        "results_read": len(hits),
        "dates_kept": sum(bool(hit.date) for hit in hits),
        "source_lines_left_out": sources,
        "entries_without_address": reading.problems.count("odd_hit"),
        "lists_cut_off": reading.problems.count("truncated_results"),
    }
    return [Note(code, number) for code, number in numbers.items() if number > 0]
