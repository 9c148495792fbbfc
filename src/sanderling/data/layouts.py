r"""The layouts in which other systems record trajectories and questions, each a few lines over the one reader of messages.

A layout is recognised by its structure alone, entry by entry: a file may mix them, and nobody is asked. `LAYOUTS` has them in
the order in which they are asked, the most particular first; ``file.py:name`` adds one of one's own.

Example: a layout of one's own, for files with ``{"ask", "talk"}``::

    MINE = Layout(lambda e: "talk" in e, lambda e, id, notes: conversation(e, e["talk"], id, notes, question=e["ask"]))
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from sanderling.core.record import Question, Trajectory, decode_trajectory, question_id
from sanderling.core.types import Ending
from sanderling.data.conversation import ImportReport, conversation, note_problems, structured_turn
from sanderling.data.messages import ChatMessage, Speaker, messages_in, speaker_of, tool_call
from sanderling.data.questions import (
    ANSWER_KEYS,
    QUESTION_KEYS,
    SURE_QUESTION_KEYS,
    accepted,
    answers_in,
    asked,
    ground_truth,
    masked_urls,
    record_of,
    rest,
)

Entry = dict[str, Any]


@dataclass(frozen=True)
class Layout:
    """How entries of one layout are recognised, and read with their id into a record, or None where the notes say why not."""

    recognises: Callable[[Entry], bool]
    read: Callable[[Entry, str, ImportReport], Trajectory | Question | None]


def layout_of(entry: Any, layouts: Mapping[str, Layout]) -> str:
    """The name of the first of some layouts that recognises an entry; empty where none does."""
    if not isinstance(entry, dict):
        return ""
    return next((name for name, layout in layouts.items() if layout.recognises(entry)), "")


def entries_in(value: Any, layouts: Mapping[str, Layout]) -> list[Any]:
    """The entries that one row of a file holds: those of a list in one of its fields, or the row itself."""
    if not isinstance(value, dict) or layout_of(value, layouts):
        return [value]
    for inner in value.values():
        if isinstance(inner, list) and any(layout_of(item, layouts) for item in inner[:3]):
            return inner
    return [value]


def _is_dr_venus(entry: Entry) -> bool:
    inferred = "prediction" in entry and isinstance(entry.get("question"), str) and "answer" not in entry
    return _chats(entry) and ("gt" in entry or "termination" in entry or inferred)


def _dr_venus(entry: Entry, id: str, notes: ImportReport) -> Trajectory:
    """Supervised files hold the accepted answer (``gt``), rollouts say that they finished; inference files name the ending."""
    question = entry["question"] if isinstance(entry.get("question"), str) else None
    return conversation(entry, "messages", id, notes, question=question, answers=answers_in(entry.get("gt")), held=("gt",))


def _tongyi(entry: Entry, id: str, notes: ImportReport) -> Trajectory:
    """The reference stands in ``answer``, the agent's own in ``prediction``."""
    question, answers, prediction = asked(entry, ("question",)), answers_in(entry.get("answer")), entry["prediction"]
    found = conversation(entry, "messages", id, notes, question=question, answers=answers, held=("question", "answer"))
    if isinstance(prediction, str) and found.answer is not None and prediction.strip() != found.answer:
        notes.add("final_answer_differs", id, prediction)
    return found


def _webdancer(entry: Entry, id: str, notes: ImportReport) -> Trajectory:
    r"""The first user message holds the tools' description and, after ``User: ``, the question."""
    first = next((m.get("content") for m in messages_in(entry) or () if speaker_of(m) is Speaker.USER), None)
    shown = first if isinstance(first, str) else ""
    _, mark, question = shown.rpartition("\nUser: ")
    if not mark:
        notes.add("no_question_mark", id, shown[-200:])
    answers = answers_in(entry.get("answer"))
    return conversation(entry, "messages", id, notes, question=question.strip(), answers=answers, held=("answer",))


def _plain_chat(key: str, *prompts: str) -> Layout:
    """Messages under a name, and whatever fields beside them."""

    def read(entry: Entry, id: str, notes: ImportReport) -> Trajectory:
        question, answers = asked(entry, SURE_QUESTION_KEYS), accepted(entry)
        return conversation(entry, key, id, notes, question=question, answers=answers, prompts=prompts)

    return Layout(lambda entry: messages_in(entry, key) is not None, read)


def messages_layout(field: str) -> Layout:
    """Messages in the field that a person names, which dots lead to where it stands in another."""
    chat, (outer, _, inner) = _plain_chat(field, "system_prompt", "system"), field.rpartition(".")

    def flat(entry: Entry) -> Entry:
        return entry | {field: record_of(entry, outer).get(inner)} if outer and field not in entry else entry

    return Layout(lambda entry: chat.recognises(flat(entry)), lambda entry, id, notes: chat.read(flat(entry), id, notes))


def _openai_log(entry: Entry, id: str, notes: ImportReport) -> Trajectory:
    """The messages of an episode's last request and the message that came back, as AgentToLeaP's ``trace.json`` has them."""
    request, choices = record_of(entry, "request"), record_of(entry, "response").get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    returned = [first["message"]] if isinstance(first, dict) and isinstance(first.get("message"), dict) else []
    beside = entry | {"request": rest(request, ("messages",))}
    return conversation(beside, [*(messages_in(request) or []), *returned], id, notes)


_HISTORIES = ("conversation_history", "dialog")
# An answer as this harness reads one: a bracket of either tag may be missing.
_TAGGED = re.compile(r"(?:<answer\b>?|\banswer>)(.*?)(?:</answer\b>?|/answer>)", re.IGNORECASE | re.DOTALL)
# Files that repeat a part of AgentToLeaP's ``result.json`` beside them.
REPEATED = frozenset(
    {"dialog.json", "trace.json", "tool_calls.json", "meta_config.json", "llm_interactions.json", "logprobs.json"}
)


def _agenttoleap(entry: Entry, id: str, notes: ImportReport) -> Trajectory:
    """``result.json`` of an attempt of AgentCPM-Explore's evaluation, or an entry of its file of right dialogues.

    The accepted answer stands in the list of a whole batch alone (``gaia_sample``). ``success`` says that nothing broke, not
    that there is an answer: last words without tags are one only where turns were left. A run that failed has no ending, as the
    file does not say whose failure it was.
    """
    key = next(key for key in _HISTORIES if messages_in(entry, key) is not None)
    messages, sample = messages_in(entry, key) or [], record_of(entry, "gaia_sample")
    if entry.get("success") is False:
        notes.add("failed_run", id, entry.get("error", ""))
    question = asked(sample) or asked(entry, ("query", "question"))
    answers = accepted(sample) or accepted(entry)
    found = conversation(entry, key, id, notes, question=question, answers=answers)
    changes: dict[str, Any] = {}
    seconds = entry.get("execution_time")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < float("inf"):
        changes["seconds"] = float(seconds)
    content = messages[-1].get("content") if messages and isinstance(messages[-1], dict) else None
    last = content if isinstance(content, str) else ""
    tagged = [text.strip() for text in _TAGGED.findall(last)][-1:]
    answer = tagged[0] if tagged and tagged[0] else None
    if answer is not None and not ("<answer>" in last and "</answer>" in last):
        notes.add("answer_in_broken_tags", id, last)
        changes |= {"answer": answer, "ending": Ending.ANSWERED if entry.get("success") is True else found.ending}
    if entry.get("max_interactions_reached") is True:
        if answer is None:
            notes.add("no_answer_at_the_limit", id)
            changes |= {"ending": Ending.TURN_LIMIT, "answer": None}
            if found.answer is not None and found.leaf is not None:  # what the last words were taken for
                at, node = found.leaf, found.nodes[found.leaf]
                turn = structured_turn(node.parent, node.think, node.calls, None, node.raw, node.answer or "")
                note_problems(turn, id, notes)
                changes["nodes"] = (*found.nodes[:at], turn, *found.nodes[at + 1 :])
        elif len(messages) > 1 and speaker_of(messages[-2]) is Speaker.SYSTEM:
            changes["ending"] = Ending.ANSWERED_AT_BUDGET  # the harness asks for the last message when no turn is left
    return found.model_copy(update=changes)


def _is_case(entry: Entry) -> bool:
    """Whether it has steps. Those in which a role speaks are messages under another name; ATIF's are another format's."""
    steps = entry.get("steps")
    is_atif = str(entry.get("schema_version", "")).startswith("ATIF")
    return isinstance(steps, list) and not is_atif and (not steps or speaker_of(steps[0]) is None)


def _case(case: Entry, id: str, notes: ImportReport) -> Trajectory:
    question = case["question"] if isinstance(case.get("question"), str) else None
    held, answers = ("reference_answer", "steps"), answers_in(case.get("reference_answer"))
    found = conversation(case, list(map(_step, case["steps"])), id, notes, question=question, answers=answers, held=held)
    if case.get("final_answer") and found.answer != str(case["final_answer"]).strip():
        notes.add("final_answer_differs", id, case["final_answer"])
    return found


def _step(step: Any) -> ChatMessage:
    """A step, with the argument names that the checkpoint was trained with (``query``, ``url``, ``goal``) in its calls."""
    kind, content = (step.get("type"), step.get("content")) if isinstance(step, dict) else (None, None)
    if kind == "assistant":
        think, given, answer = step.get("think"), step.get("tool_calls") or [], step.get("answer")
        usual = isinstance(given, list) and all(isinstance(call, dict) and isinstance(call.get("name"), str) for call in given)
        if not usual or not all(part is None or isinstance(part, str) for part in (think, answer)):
            return ChatMessage(step, Speaker.ASSISTANT, unclear="odd_step")
        names = {"queries": "query", "urls": "url"}
        arguments = [{names.get(key, key): value for key, value in call.items() if key != "name"} for call in given]
        calls = tuple(tool_call(call["name"], own) for call, own in zip(given, arguments, strict=True))
        speaker = Speaker.ASSISTANT if answer is None else Speaker.ANSWER
        return ChatMessage(step, speaker, answer or "", think, calls)
    speakers = {"question": Speaker.USER, "system": Speaker.SYSTEM, "tool_response": Speaker.TOOL}
    if not isinstance(content, str) or kind not in speakers:
        return ChatMessage(step, Speaker.USER, unclear="unknown_step")
    return ChatMessage(step, speakers[kind], content, plain=set(step) <= {"type", "content"})


def _own(decode: Callable[[Entry], Trajectory | Question], code: str) -> Callable[[Entry, str, ImportReport], Any]:
    """Our own records and questions, which come back exactly as they are, ids included."""

    def read(entry: Entry, id: str, notes: ImportReport) -> Trajectory | Question | None:
        try:
            return decode(entry)
        except ValueError as error:
            notes.add(code, id, error.errors()[0]["msg"] if isinstance(error, ValidationError) else error)
            return None

    return read


def _is_verl(entry: Entry) -> bool:
    if messages_in(entry) is not None or ("prompt" not in entry and "question" not in entry):
        return False
    return "ground_truth" in record_of(entry, "reward_model") or ("label" in entry and _prompted(entry) is not None)


def _prompted(entry: Entry) -> str | None:
    """The last user message of the prompt, without the label that LiteResearcher puts before the question."""
    prompt = messages_in(entry, "prompt")
    if prompt is None:
        return asked(entry, ("prompt",))
    users = [item.get("content") for item in prompt if speaker_of(item) is Speaker.USER]
    text = next((content for content in reversed(users) if isinstance(content, str) and content.strip()), None)
    return None if text is None else text.strip().removeprefix("Question:").strip()


def _verl(entry: Entry, id: str, notes: ImportReport) -> Question | None:
    """A question for RL: a prompt and the ground truth in ``reward_model``; Slime's rows hold ``prompt`` and ``label``.

    LiteResearcher's rows name the page a question was made from (``mask_url``): it becomes the question's masked address.
    """
    text = asked(entry, ("question",)) or asked(record_of(entry, "extra_info"), ("question",)) or _prompted(entry)
    if not text:
        notes.add("no_question", id, entry)
        return None
    truth = record_of(entry, "reward_model").get("ground_truth")
    answers = ground_truth(truth) or ground_truth(entry.get("label")) or accepted(entry)
    return _made_question(entry, text, answers, ("question",), id, notes)


def _made_question(
    entry: Entry, text: str, answers: tuple[str, ...], held: Iterable[str], id: str, notes: ImportReport
) -> Question:
    """A question whose id is made of its text; fields but for ``held`` stay in ``meta``, an id of the file too."""
    if not answers:
        notes.add("no_answer", id, text)
    masked, meta = masked_urls(entry), rest(entry, tuple(held))
    return Question(id=question_id(text), text=text, answers=answers, masked_urls=masked, meta=meta)


def _is_question(entry: Entry) -> bool:
    if "messages" in entry or "conversations" in entry:
        return False
    answered = any(key in entry for key in ANSWER_KEYS)
    inner = asked(entry, QUESTION_KEYS if answered else SURE_QUESTION_KEYS)
    return inner is not None or asked(record_of(entry, "meta"), SURE_QUESTION_KEYS) is not None


def _question(entry: Entry, id: str, notes: ImportReport) -> Question:
    """A question and its answers under any of the known names."""
    meta = record_of(entry, "meta")
    held = [key for key in QUESTION_KEYS if isinstance(entry.get(key), str) and entry[key].strip()][:1]
    held += [key for key in ANSWER_KEYS if isinstance(entry.get(key), (str, int, float, list)) and accepted(entry, [key])]
    return _made_question(entry, asked(entry) or asked(meta) or "", accepted(entry) or accepted(meta), held, id, notes)


def _chats(entry: Entry) -> bool:
    return messages_in(entry) is not None


LAYOUTS: dict[str, Layout] = {
    "sanderling": Layout(lambda e: "schema_version" in e and "nodes" in e, _own(decode_trajectory, "odd_record")),
    "sanderling-question": Layout(
        lambda e: isinstance(e.get("id"), str) and isinstance(e.get("text"), str) and set(e) <= set(Question.model_fields),
        _own(Question.model_validate, "odd_question"),
    ),
    "literesearcher-cases": Layout(_is_case, _case),
    "agenttoleap": Layout(lambda e: any(messages_in(e, key) is not None for key in _HISTORIES), _agenttoleap),
    "openai-log": Layout(lambda e: _chats(record_of(e, "request")) and isinstance(e.get("response"), dict), _openai_log),
    "webdancer-chatml": Layout(lambda e: _chats(e) and (e.get("type") == "chatml" or "functions" in e), _webdancer),
    "dr-venus-rl": Layout(lambda e: _chats(e) and ("request_id" in e or "sample_idx" in e), _dr_venus),
    "tongyi-run": Layout(
        lambda e: _chats(e) and asked(e, ("question",)) is not None and {"answer", "prediction"} <= set(e), _tongyi
    ),
    "dr-venus-sft": Layout(_is_dr_venus, _dr_venus),
    "sharegpt": _plain_chat("conversations", "system"),
    "openai-messages": _plain_chat("messages", "system_prompt", "system"),
    "literesearcher-rl": Layout(
        lambda e: _is_verl(e) and ("mask_url" in record_of(e, "extra_info") or bool(masked_urls(e))), _verl
    ),
    "verl": Layout(_is_verl, _verl),
    "questions": Layout(_is_question, _question),
}
"""By what each is recognised and with what it is read, in the order in which they are asked."""
