"""Steps that write a trajectory anew in the target's protocol: its prompts, its turns, its calls, its lists of results."""

import datetime
import re
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import PositiveInt

from sanderling.core.chat import strip_think_prefix, unwrap, wrap_observation
from sanderling.core.observations import Reading, read_observation, read_result, tool_role
from sanderling.core.parse import ParsedTurn, ParseProblem, normalise_arguments
from sanderling.core.profiles import (
    ResultLayout,
    default_specs,
    one_line,
    render_question,
    render_system,
    results_text,
    status_sentence,
)
from sanderling.core.record import Node, NodeKind
from sanderling.core.text import MINUS, SUFFIX, folded
from sanderling.core.types import FixedClock, Role, ToolCall, ToolStatus
from sanderling.data.cleaning_draft import REPLIES, Draft, Message, canonical, is_wrapped, join_blocks, split_blocks, strays
from sanderling.judge.verdict import verdict_of
from sanderling.tools.world_tools import visit_text
from sanderling.world.contract import VisitReply


def _written_out(draft: Draft, turn: Node) -> str:
    """Its text with the reasoning tag that its prompt held."""
    prefix = draft.profile.think_prefix
    return prefix + strip_think_prefix(turn.text, prefix) if draft.begins_inside(turn) else turn.text


def truncate(draft: Draft) -> None:
    """Keep nothing of the last turn after its first ``</answer>`` outside of reasoning, as LiteResearcher does."""
    if not draft.rounds:
        return
    turn = draft.rounds[-1].turn
    node, start = turn.node, 0
    if draft.begins_inside(node) or "<think>" in node.text:
        start = node.text.find("</think>")
    opened = node.text.find("<answer>", start) if start >= 0 else -1
    end = node.text.find("</answer>", opened) if opened >= 0 else -1
    rest = node.text[end + len("</answer>") :]
    if end >= 0 and rest.strip():
        turn.write(_written_out(draft, node).removesuffix(rest), problems=())
        draft.notes["text_after_answer_cut"] += 1


_DATE = re.compile(r"date[^\n]{0,24}?\b(\d{4}-\d{2}-\d{2})\b", re.I)


def normalise(draft: Draft, *, date: datetime.date = datetime.date(2026, 3, 1)) -> None:
    """The target's system prompt and question, canonical turns, and one reply of each kind after a turn.

    Turns that the strict grammar accepts and that have their ids stay as they were sampled, and so does a turn that has no
    canonical form. ``date``: the prompt's, where the recorded one names none.
    """
    if draft.rounds:
        _write_opening(draft, date)
    for one in draft.rounds:
        if one.node.token_ids is None or draft.violations(one.node):
            _write_turn(draft, one.turn)
        others = [reply for reply in one.replies if reply.node.kind not in REPLIES]
        of_kind = [[reply for reply in one.replies if reply.node.kind is kind] for kind in REPLIES]
        one.replies = [_join_replies(draft, found) for found in of_kind if found] + others


def _write_opening(draft: Draft, date: datetime.date) -> None:
    """System prompt and question in the target's words, in this order; what else stands before the first turn stays."""
    profile, asked = draft.profile, draft.trajectory.question.text
    draft.profile_name = profile.name
    of_kind = {kind: [one for one in draft.head if one.node.kind is kind] for kind in (NodeKind.SYSTEM, NodeKind.QUESTION)}
    others = [one for one in draft.head if one.node.kind not in of_kind]
    recorded = "\n".join(one.node.text for found in of_kind.values() for one in found)
    for written in _DATE.findall(recorded):
        with suppress(ValueError):  # such as the 31st of June
            date = datetime.date.fromisoformat(written)
    texts = {NodeKind.SYSTEM: render_system(profile, default_specs(profile), FixedClock(date))}
    if asked.strip():
        texts[NodeKind.QUESTION] = render_question(profile, asked)
    draft.head = []
    for kind, found in of_kind.items():
        if found:
            old = found[0].node
            found[0].write(texts.get(kind, old.text))
            draft.notes[f"{kind.value}_replaced"] += found[0].node is not old
            draft.notes[f"{kind.value}_repeated"] += len(found) - 1
            draft.head.append(found[0])
        elif kind in texts:
            role = Role.SYSTEM if kind is NodeKind.SYSTEM else Role.USER
            draft.head.append(Message(Node(parent=None, role=role, kind=kind, text=texts[kind])))
            draft.notes[f"{kind.value}_added"] += 1
    draft.head += others


def _write_turn(draft: Draft, turn: Message) -> None:
    """Put a turn into its canonical text, where it has one."""
    node, parsed = turn.node, draft.read(turn.node)
    new = canonical(node, parsed)
    if new is None:
        return
    turn.node = new
    if new.text != node.text:
        same = "".join(new.text.split()) == "".join(node.text.split())
        draft.notes["turns_respaced" if same else "turns_rewritten"] += 1
    draft.notes["text_into_reasoning"] += bool(strays(parsed))
    draft.notes["invented_responses_cut"] += ParseProblem.CUT_AT_RESPONSE in parsed.problems


def _join_replies(draft: Draft, found: list[Message]) -> Message:
    """Replies of one kind as one message, in its tags."""
    nodes, joined = [one.node for one in found], {}
    if len(nodes) == 1 and nodes[0].token_ids is not None:
        return found[0]
    text = "\n".join(one.text if is_wrapped(one.text) else wrap_observation(unwrap(one.text)) for one in nodes)
    if len(nodes) > 1:
        draft.notes["responses_joined"] += len(nodes) - 1
        joined = {"events": tuple(event for one in nodes for event in one.events), "seconds": sum(one.seconds for one in nodes)}
    else:
        draft.notes["responses_wrapped"] += text != nodes[0].text
    found[0].write(text, role=Role.USER, **joined)
    return found[0]


_QUERIES = ("query", "queries", "q", "search_query", "search_queries", "keywords", "keyword")
_URLS = ("url", "urls", "link", "links", "page_url", "webpage_url", "uri")
_GOALS = ("goal", "purpose", "objective", "question", "instruction", "query")


def canonical_names(draft: Draft, *, search: tuple[str, ...] = (), visit: tuple[str, ...] = ()) -> None:
    """Every search and every visit called as the target calls them, however a system names its tools and their arguments.

    Arguments that the target's tools do not have go. ``search``, ``visit``: further names.
    """
    names = draft.profile.tools
    roles = dict.fromkeys(visit, "visit") | dict.fromkeys(search, "search")

    def renamed(call: ToolCall) -> ToolCall:
        role = roles.get(call.name.strip()) or tool_role(call.name)
        if role not in ("search", "visit"):
            return call
        own = names.search if role == "search" else names.visit
        known = {names.search_query: _QUERIES} if role == "search" else {names.visit_url: _URLS, names.visit_goal: _GOALS}
        given, named = dict(call.arguments), dict[str, Any]()
        for argument, others in known.items():
            key = next((key for key in (argument, *others) if key in given), None)
            if key is not None:
                named[argument] = given.pop(key)
        found = normalise_arguments(ToolCall(name=own, arguments=named | given), names)
        arguments = {key: value for key, value in found.arguments.items() if key in known} or found.arguments
        return call.model_copy(update={"name": found.name, "arguments": arguments})

    def forms(calls: Iterable[ToolCall]) -> list[tuple[str, list[tuple[str, Any]]]]:
        """What calls are compared by: the order of arguments counts."""
        return [(call.name, list(call.arguments.items())) for call in calls]

    for one in draft.rounds:
        node = one.node
        if not node.calls or (node.token_ids is None and forms(map(renamed, node.calls)) == forms(node.calls)):
            continue
        parsed = draft.read(node)  # with ids the record's own calls may be tidier than what was sampled
        calls = tuple(map(renamed, parsed.calls))
        before, after = forms(parsed.calls), forms(calls)
        turn = canonical(node, replace(parsed, calls=calls)) if before != after else None
        if turn is None:
            continue
        one.turn.node = turn
        for (old_name, old), (name, arguments) in zip(before, after, strict=True):
            draft.notes["tools_renamed"] += old_name != name
            draft.notes["arguments_changed"] += old != arguments
            draft.notes["arguments_left_out"] += max(len(old) - len(arguments), 0)
        is_renamed = [name for name, _ in before] != [name for name, _ in after]
        for reply in one.replies if is_renamed else ():
            if len(reply.node.events) == len(calls):
                pairs = zip(reply.node.events, calls, strict=True)
                events = [event.model_copy(update={"name": call.name, "role": tool_role(call.name)}) for event, call in pairs]
                reply.write(reply.node.text, events=tuple(events))


_UNSAFE = frozenset({"unknown_layout", "odd_block", "unread_entry"})  # problems after which something would be lost


def structured_results(draft: Draft, *, layout: ResultLayout | None = None) -> None:
    """Every result in one layout, the target's by default: lists, and pages that stand in a layout of ours.

    A list is only rewritten when the new text reads back as the very same results, but for the compact layout, whose lists have
    the queries of their call.
    """
    for one in draft.rounds:
        seen = one.observation
        if seen is not None:
            blocks, calls = split_blocks(seen.node.text), one.node.calls
            each = zip(blocks, calls if len(calls) == len(blocks) else [None] * len(blocks), strict=True)
            whole = read_result(seen.node.text, seen.node.events) if len(blocks) == 1 else None
            read = (_laid_out(draft, block, whole or read_observation(block), call, layout) for block, call in each)
            if (new := list(read)) != blocks:
                seen.write(join_blocks(new))


def _laid_out(draft: Draft, block: str, reading: Reading, call: ToolCall | None, wanted: ResultLayout | None) -> str:
    """One call's result in the layout; itself where it holds none, stands in it, or cannot be rewritten safely."""
    layout, names, given = wanted or draft.profile.results, draft.profile.tools, call.arguments if call else {}
    if reading.layout is layout or not (reading.blocks or (reading.layout and reading.extracts)):
        return block
    if reading.extracts:
        is_told = layout in (ResultLayout.JSON, ResultLayout.MARKDOWN)  # which have other words for pages that are missing
        is_safe = is_told and not reading.blocks and not any(page.dead for page in reading.extracts)
        draft.notes["results_rewritten" if is_safe else "results_left_as_found"] += 1
        replies = [VisitReply(page.url, page.title, page.evidence) for page in reading.extracts]
        return visit_text(replies, str(given.get(names.visit_goal, "")), layout) if is_safe else block
    asked = given.get(names.search_query)
    queries = [str(query) for query in (asked if isinstance(asked, list) else [asked]) if query is not None]
    told = queries if reading.layout is ResultLayout.COMPACT else [found.query for found in reading.blocks]
    own, laid_out = block, reading.layout
    if laid_out is not None:
        own = results_text(reading.blocks, laid_out, empty=status_sentence(ToolStatus.EMPTY, laid_out))
    if len(told) != len(reading.blocks) or own != block:  # queries that nobody knows, or a layout that is not quite ours
        draft.notes["results_left_as_found"] += 1
        return block
    lists = tuple(
        replace(found, query=query, hits=tuple(replace(hit, title=one_line(hit.title)) for hit in found.hits))
        for found, query in zip(reading.blocks, told, strict=True)
    )
    text = results_text(lists, layout, empty="No results.")
    if text == block:
        return block
    if layout is ResultLayout.COMPACT:
        is_safe = not text.lstrip().startswith(("[{", "A Google search for '"))
    else:
        again = read_observation(text)
        is_safe = again.blocks == lists and not _UNSAFE & set(again.problems)
    is_safe = is_safe and not _UNSAFE & set(reading.problems)
    draft.notes["results_rewritten" if is_safe else "results_left_as_found"] += 1
    return text if is_safe else block


_WORDS = re.compile(rf"{MINUS}?\w+(?:(?<=\d)\.(?=\d)\w+)*{SUFFIX}")


def shorten_answer(draft: Draft, *, most_characters: PositiveInt = 100, least_reference: PositiveInt = 2) -> None:
    """The reference in place of a right answer that is long, as LiteResearcher does; the reasoning stays as it is.

    Right is what a judge said; without a verdict, what holds an accepted answer of ``least_reference`` letters and digits or
    more, word for word but for case, punctuation and accents: ``12`` is not in ``-12``, nor ``C`` in ``C++``.
    """

    def words(text: str) -> list[str]:
        plain = unicodedata.normalize("NFKD", folded(text))
        return _WORDS.findall("".join(char for char in plain if not unicodedata.combining(char)))

    last = draft.rounds[-1] if draft.rounds else None
    if last is None or last.replies or last.node.calls or len(last.node.answer or "") <= most_characters:
        return
    accepted = [text for text in map(str.strip, draft.trajectory.question.answers) if 0 < len(text) <= most_characters]
    verdict, reference, new = verdict_of(draft.trajectory), None, None
    if accepted and verdict is not False:
        said = f" {' '.join(words(last.node.answer or ''))} "
        long_enough = {text: " ".join(words(text)) for text in accepted if len("".join(words(text))) >= least_reference}
        held = [text for text, plain in long_enough.items() if f" {plain} " in said]
        reference = max(held, key=len) if held else accepted[0] if verdict else None
    parsed = draft.read(last.node)
    if reference is not None and parsed.answer is not None and not parsed.left:
        new = canonical(last.node, ParsedTurn(parsed.think, (), reference, parsed.problems))
    if new is not None:
        last.turn.node = new
    draft.notes["answers_shortened" if new is not None else "long_answers_left"] += 1


def whole_ids(draft: Draft) -> None:
    """Token ids on all messages, or on none, as training demands; turns then begin with the tag that their prompt held."""
    with_ids = [message for message in draft.branch if message.node.token_ids is not None]
    if len(with_ids) in (0, len(draft.branch)):
        return
    for message in with_ids:
        node = message.node
        text = _written_out(draft, node) if node.kind is NodeKind.TURN else node.text
        message.write(text, token_ids=None, loss_mask=None, logprobs=None, versions=None)
    draft.notes["messages_without_ids"] += len(with_ids)
