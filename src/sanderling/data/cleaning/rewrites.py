"""Steps that write a trajectory anew in the target's protocol: its prompts, its turns, its calls, its lists of results."""

import datetime
import re
import unicodedata
from dataclasses import replace
from typing import Any

from pydantic import Field

from sanderling.core.chat import wrap_observation
from sanderling.core.config import Frozen
from sanderling.core.observations import ListedPage, SearchBlock, read_observation, tool_role, unwrap
from sanderling.core.parse import ParsedTurn, normalise_arguments
from sanderling.core.profiles import ResultLayout, ToolNames
from sanderling.core.prompts import one_line, render_question, results_text
from sanderling.core.record import Node, NodeKind
from sanderling.core.text import MINUS, SUFFIX, folded
from sanderling.core.types import Role, ToolCall
from sanderling.data.cleaning.draft import (
    Draft,
    Kept,
    Note,
    Round,
    begins_inside,
    call_body,
    canonical,
    is_wrapped,
    join_blocks,
    read_turn,
    split_blocks,
    system_prompt,
    violations,
    with_calls,
    with_text,
    written_out,
)
from sanderling.judge.verdict import verdict_of


def truncate(draft: Draft, settings: None) -> None:
    """Keep nothing of the last turn after its first ``</answer>``, as LiteResearcher does.

    An answer tag within reasoning is a mention and cuts nothing. What else is odd in the turn stays.
    """
    if not draft.rounds:
        return
    last = draft.rounds[-1]
    index, node = last.turn
    start = 0
    if begins_inside(node, draft.profile) or "<think>" in node.text:
        start = node.text.find("</think>")
    opened = node.text.find("<answer>", start) if start >= 0 else -1
    end = node.text.find("</answer>", opened) if opened >= 0 else -1
    rest = node.text[end + len("</answer>") :]
    if end < 0 or not rest.strip():
        return
    whole = written_out(node, draft.profile)
    draft.rounds[-1] = replace(last, turn=(index, with_text(node, whole[: len(whole) - len(rest)], problems=())))
    draft.note("text_after_answer_cut", 1, rest)


class NormaliseSettings(Frozen):
    """How the opening is written."""

    date: datetime.date = datetime.date(2026, 3, 1)
    """The prompt's date where the recorded prompt names none; DR-Venus' own by default."""
    opening: bool = True
    """Write system prompt and question as the target profile does; False: leave them as they are."""


def normalise(draft: Draft, settings: NormaliseSettings) -> None:
    """The target's system prompt and question, canonical turns, and one reply of each kind after a turn.

    Turns that the strict grammar accepts and that have their ids stay as they were sampled. A turn that has no canonical form
    is left to the step ``malformed``; a message of unknown kind to ``validate``.
    """
    if not draft.rounds:
        return
    if settings.opening:
        _write_opening(draft, settings.date)
    draft.rounds = [Round(_canonical_turn(draft, one.turn), _one_of_each(draft, one.replies)) for one in draft.rounds]


def _write_opening(draft: Draft, date: datetime.date) -> None:
    """System prompt and question in the target's words, in this order; what else stands before the first turn stays."""
    draft.profile_name = draft.profile.name
    of_kind = {kind: [kept for kept in draft.head if kept[1].kind is kind] for kind in (NodeKind.SYSTEM, NodeKind.QUESTION)}
    others = [kept for kept in draft.head if kept[1].kind not in of_kind]
    systems, questions = of_kind.values()
    text = draft.trajectory.question.text
    recorded = "\n".join(node.text for _, node in (*systems, *questions))
    prompt = system_prompt(draft.profile, recorded, date)
    asked = render_question(draft.profile, text) if text.strip() else None
    draft.head = [_message(draft, systems, NodeKind.SYSTEM, prompt)]
    if asked is not None or questions:
        draft.head.append(_message(draft, questions, NodeKind.QUESTION, asked))
    draft.head += others


def _message(draft: Draft, found: list[Kept], kind: NodeKind, text: str | None) -> Kept:
    """The first message of this kind with this text (None: its own); a new one where there is none."""
    if not found:
        draft.note(f"{kind.value}_added", after=text or "")
        role = Role.SYSTEM if kind is NodeKind.SYSTEM else Role.USER
        return None, Node(parent=None, role=role, kind=kind, text=text or "")
    index, node = found[0]
    new = with_text(node, node.text if text is None else text)
    if new is not node:
        draft.note(f"{kind.value}_replaced", 1, node.text, new.text)
    if len(found) > 1:
        draft.note(f"{kind.value}_repeated", len(found) - 1, found[1][1].text)
    return index, new


def _canonical_turn(draft: Draft, kept: Kept) -> Kept:
    index, node = kept
    if node.token_ids is not None and not violations(node, draft.profile):
        return kept
    found = canonical(node, read_turn(node, draft.profile))
    if found is None:
        return kept
    if found.node.text != node.text:
        same = "".join(found.node.text.split()) == "".join(node.text.split())
        draft.note("turns_respaced" if same else "turns_rewritten", 1, node.text, found.node.text)
    if found.into_reasoning:
        draft.note("text_into_reasoning", 1, "\n".join(found.into_reasoning))
    if found.cut:
        draft.note("invented_responses_cut", 1, found.cut)
    return index, found.node


def _one_of_each(draft: Draft, replies: tuple[Kept, ...]) -> tuple[Kept, ...]:
    """At most one observation, then at most one hint, each in its tags; then whatever else there is."""
    new: list[Kept] = []
    for kind in (NodeKind.OBSERVATION, NodeKind.HINT):
        found = [kept for kept in replies if kept[1].kind is kind]
        if found:
            new.append(_joined_reply(draft, found))
    return *new, *(kept for kept in replies if kept[1].kind not in (NodeKind.OBSERVATION, NodeKind.HINT))


def _joined_reply(draft: Draft, found: list[Kept]) -> Kept:
    index, node = found[0]
    if len(found) == 1 and node.token_ids is not None:
        return found[0]
    nodes = [one for _, one in found]
    text = "\n".join(one.text if is_wrapped(one.text) else wrap_observation(unwrap(one.text)) for one in nodes)
    new = with_text(node, text, role=Role.USER)
    if len(nodes) > 1:
        draft.note("responses_joined", len(nodes) - 1, node.text, new.text)
        events = tuple(event for one in nodes for event in one.events)
        new = new.model_copy(update={"events": events, "seconds": sum(one.seconds for one in nodes)})
    elif new.text != node.text:
        draft.note("responses_wrapped", 1, node.text, new.text)
    return index, new


_QUERIES = ("query", "queries", "q", "search_query", "search_queries", "keywords", "keyword")
_URLS = ("url", "urls", "link", "links", "page_url", "webpage_url", "uri")
_GOALS = ("goal", "purpose", "objective", "question", "instruction", "query")


class NamesSettings(Frozen):
    """Further names."""

    search: tuple[str, ...] = ()
    visit: tuple[str, ...] = ()
    extra_arguments: bool = False


def canonical_names(draft: Draft, settings: NamesSettings) -> None:
    """Every search and every visit called as the target calls them, however a system names its tools and their arguments.

    ``google_search``, ``web_search``, ``browse``, ``fetch_url`` and their like (`core.roles`), ``queries``, ``q``, ``urls``,
    ``link``, ``purpose`` and their like; a string becomes a list of one; arguments that the target's tools do not have are left
    out and counted. Calls of other tools stay as they are.
    """
    draft.rounds = [_renamed_round(draft, one, settings) for one in draft.rounds]


def _renamed_round(draft: Draft, one: Round, settings: NamesSettings) -> Round:
    index, node = one.turn
    names = draft.profile.tools
    if not node.calls or (node.token_ids is None and _are_canonical(node.calls, settings, names)):
        return one
    parsed = read_turn(node, draft.profile)  # with ids the record's own calls may be tidier than what was sampled
    calls = tuple(_canonical_call(call, settings, names) for call in parsed.calls)
    turn = None if _are_canonical(parsed.calls, settings, names) else with_calls(node, parsed, calls)
    if turn is None:
        return one
    for old, new in zip(parsed.calls, calls, strict=True):
        if old.name != new.name:
            draft.note("tools_renamed", 1, old.name, new.name)
        if list(old.arguments.items()) != list(new.arguments.items()):
            draft.note("arguments_changed", 1, call_body(old), call_body(new))
        if len(new.arguments) < len(old.arguments):
            draft.note("arguments_left_out", len(old.arguments) - len(new.arguments), call_body(old), call_body(new))
    if [call.name for call in parsed.calls] == [call.name for call in calls]:
        return replace(one, turn=(index, turn))
    return Round((index, turn), tuple(_renamed_events(kept, calls) for kept in one.replies))


def _canonical_call(call: ToolCall, settings: NamesSettings, names: ToolNames) -> ToolCall:
    """A call under the target's names; another tool's call as it is."""
    name = call.name.strip()
    role = "search" if name in settings.search else "visit" if name in settings.visit else tool_role(name)
    if role not in ("search", "visit"):
        return call
    own = names.search if role == "search" else names.visit
    known = {names.search_query: _QUERIES} if role == "search" else {names.visit_url: _URLS, names.visit_goal: _GOALS}
    given = dict(call.arguments)
    named: dict[str, Any] = {}
    for argument, others in known.items():
        key = next((key for key in (argument, *others) if key in given), None)
        if key is not None:
            named[argument] = given.pop(key)
    found = normalise_arguments(ToolCall(name=own, arguments=named | given), names)
    arguments = found.arguments
    if not settings.extra_arguments and any(key in arguments for key in known):
        arguments = {key: value for key, value in arguments.items() if key in known}
    return call.model_copy(update={"name": found.name, "arguments": arguments})


def _are_canonical(calls: tuple[ToolCall, ...], settings: NamesSettings, names: ToolNames) -> bool:
    """Whether nothing would change, the order of arguments included."""
    new = (_canonical_call(call, settings, names) for call in calls)
    return all(
        a.name == b.name and list(a.arguments.items()) == list(b.arguments.items()) for a, b in zip(calls, new, strict=True)
    )


def _renamed_events(kept: Kept, calls: tuple[ToolCall, ...]) -> Kept:
    index, node = kept
    if len(node.events) != len(calls):
        return kept
    pairs = zip(node.events, calls, strict=True)
    events = tuple(event.model_copy(update={"name": call.name, "role": tool_role(call.name)}) for event, call in pairs)
    return index, with_text(node, node.text, events=events)


class ResultsSettings(Frozen):
    """How results are laid out."""

    layout: ResultLayout | None = None
    """None: as the target profile does."""


_UNSAFE = frozenset({"unknown_layout", "odd_block", "unread_entry"})
"""Problems of a reading after which something would be lost: such a list stays as it was found."""
_SOURCE = re.compile(r"(?:\n|\\n)[ ]*Source: ")
"""A line that names a result's site, for which no layout has a place."""


def structured_results(draft: Draft, settings: ResultsSettings) -> None:
    """Every list of search results in one layout; pages and notices are the same in every layout.

    What is read is what `core.observations` reads: titles with brackets, URLs with parentheses, queries with quotes, dates as a
    field of their own. A list is only rewritten when the new text reads back as the very same results (in the compact layout,
    which leaves queries and dates out, no reading back is possible), and stays as it was found otherwise.
    """
    layout = settings.layout or draft.profile.results
    for place, one in enumerate(draft.rounds):
        if one.observation is not None:
            index, node = one.observation
            blocks = split_blocks(node.text)
            new = [_laid_out(draft, block, layout) for block in blocks]
            if new != blocks:
                draft.rounds[place] = one.with_observation((index, with_text(node, join_blocks(new))))


def _laid_out(draft: Draft, block: str, layout: ResultLayout) -> str:
    """One call's result in the layout; itself where it is no list of results or cannot be rewritten safely."""
    if not block.lstrip().startswith(("[", "A Google search for '")):
        return block
    reading = read_observation(block)
    if not reading.blocks:
        return block
    lists = tuple(replace(found, hits=tuple(map(_titled, found.hits))) for found in reading.blocks)
    text = results_text(lists, layout, empty="No results.")
    if text == block:
        return block
    if _UNSAFE & set(reading.problems) or not _reads_back(text, lists, layout):
        draft.note("results_left_as_found", 1, block)
        return block
    hits = [hit for found in reading.blocks for hit in found.hits]
    numbers = {
        "results_read": len(hits),
        "dates_kept": sum(bool(hit.date) for hit in hits),
        "source_lines_left_out": len(_SOURCE.findall(block)) - len(_SOURCE.findall(text)),
        "entries_without_address": reading.problems.count("odd_hit"),
        "lists_cut_off": reading.problems.count("truncated_results"),
    }
    draft.note("results_rewritten", 1, block, text)
    draft.notes += [Note(code, number) for code, number in numbers.items() if number > 0]
    return text


def _titled(hit: ListedPage) -> ListedPage:
    """The entry with its title on one line, as every layout shows it."""
    title = one_line(hit.title)
    return hit if title == hit.title else replace(hit, title=title)


def _reads_back(text: str, lists: tuple[SearchBlock, ...], layout: ResultLayout) -> bool:
    if layout is ResultLayout.COMPACT:
        return not text.lstrip().startswith(("[{", "A Google search for '"))
    reading = read_observation(text)
    return reading.blocks == lists and not _UNSAFE & set(reading.problems)


_WORDS = re.compile(rf"{MINUS}?\w+(?:(?<=\d)\.(?=\d)\w+)*{SUFFIX}")


class ShortAnswerSettings(Frozen):
    """What is long, and what is found."""

    most_characters: int = Field(default=100, ge=1)
    least_reference: int = Field(default=2, ge=1)
    """Shortest accepted answer, in letters and digits, that is looked for where there is no verdict."""


def shorten_answer(draft: Draft, settings: ShortAnswerSettings) -> None:
    """The reference in place of a right answer that is long, as LiteResearcher does; the reasoning stays as it is.

    Right is what a judge said. Without a verdict an answer counts as right when an accepted answer of some length stands in it,
    word for word but for case, punctuation and accents; numbers stand alone, so ``12`` is not in ``2012``, nor in ``-12`` or
    ``1.12``, and ``C`` is not in ``C++``.
    """
    last = draft.rounds[-1] if draft.rounds else None
    if last is None or last.replies or last.node.answer is None or last.node.calls:
        return
    index, node = last.turn
    answer = last.node.answer
    if len(answer) <= settings.most_characters:
        return
    reference = _reference(draft, answer, settings)
    parsed = read_turn(node, draft.profile)
    new = None
    if reference is not None and parsed.answer is not None and not parsed.left:
        new = canonical(node, ParsedTurn(parsed.think, (), reference, parsed.problems))
    if reference is None or new is None:
        draft.note("long_answers_left", 1, answer)
        return
    draft.note("answers_shortened", 1, answer, reference)
    draft.rounds[-1] = replace(last, turn=(index, new.node))


def _reference(draft: Draft, answer: str, settings: ShortAnswerSettings) -> str | None:
    """The accepted answer to put in place; None where the answer is not known to be right, or none is shorter."""
    accepted = [text.strip() for text in draft.trajectory.question.answers]
    accepted = [text for text in accepted if text and len(text) <= settings.most_characters]
    verdict = verdict_of(draft.trajectory)
    if not accepted or verdict is False:
        return None
    said = f" {_words(answer)} "
    words = {text: _words(text) for text in accepted}
    long_enough = [text for text in accepted if len(words[text].replace(" ", "")) >= settings.least_reference]
    found = [text for text in long_enough if f" {words[text]} " in said]
    if found:
        return max(found, key=len)
    return accepted[0] if verdict else None


def _words(text: str) -> str:
    plain = unicodedata.normalize("NFKD", folded(text))
    return " ".join(_WORDS.findall("".join(char for char in plain if not unicodedata.combining(char))))


def whole_ids(draft: Draft, settings: None) -> None:
    """Token ids on all messages, or on none: training refuses a record that has them for some only.

    A record that some step rewrote keeps the ids of no message, and its turns are written out with the reasoning tag that their
    prompt held. A record that nothing touched keeps all of them. Ids are never made up for a new text.
    """
    with_ids = sum(node.token_ids is not None for _, node in draft.branch)
    if with_ids in (0, len(draft.branch)):
        return

    def text_only(kept: Kept) -> Kept:
        index, node = kept
        if node.token_ids is None:
            return kept
        text = written_out(node, draft.profile) if node.kind is NodeKind.TURN else node.text
        bare = {"token_ids": None, "loss_mask": None, "logprobs": None, "versions": None}
        return index, with_text(node.model_copy(update=bare), text)

    draft.head = [text_only(kept) for kept in draft.head]
    draft.rounds = [Round(text_only(one.turn), tuple(map(text_only, one.replies))) for one in draft.rounds]
    draft.note("messages_without_ids", with_ids)
