"""A whole episode in one text: what Search-R1, R1-Searcher, Search-o1, WebThinker and verl's dumps of rollouts write.

The text holds the agent's words and, between marks, what the tools gave back: ``<information>``, ``<tool_response>``,
``<result>``, ``<|begin_of_documents|>``, ``<|begin_search_result|>``, ReAct's ``Observation:`` lines, or the turns of a chat
between ``<|im_start|>`` and ``<|im_end|>`` or after bare lines ``user`` and ``assistant``. It is cut there, and its pieces are
read like the messages of any conversation; each is a message in the counts. A prompt beside the text is cut likewise.
"""

import re
from collections.abc import Iterator
from typing import Any

from sanderling.core.record import Trajectory
from sanderling.data.importers.conversation import Told, conversation, messages_in
from sanderling.data.importers.fields import SURE_QUESTION_KEYS, accepted, asked, ground_truth, record_of
from sanderling.data.importers.forms import Unit, text_unit
from sanderling.data.importers.layouts import Layout, LayoutReader
from sanderling.data.importers.report import Notes
from sanderling.data.importers.written import result_text

_OUTPUTS = (
    "output",
    "Output",
    "response",
    "response_str",
    "gen_text_store",
    "generated_text",
    "generation",
    "completion",
    "model_output",
    "sequences_str",
    "rollout",
    "trajectory",
    "transcript",
    "traj",
)
_PROMPTS = ("prompt", "prompt_str", "input", "instruction")
_BLOCKS = ("information", "tool_response", "result", "observation", "search_result")
_SURE = (
    "</information>",
    "</tool_response>",
    "</use_mcp_tool>",
    "<|begin_of_documents|>",
    "<|begin_search_result|>",
    "<|begin_click_result|>",
)
"""What stands in nothing but an episode."""
_RESULT = re.compile(
    "|".join(
        [
            *(rf"<{name}>(?:.*?)(?:</{name}>|\Z)" for name in _BLOCKS),
            r"<\|begin_of_documents\|>.*?(?:<\|end_of_documents\|>|\Z)",
            r"<\|begin_search_result\|>.*?(?:<\|end_search_result\|>|\Z)",
            r"<\|begin_click_result\|>.*?(?:<\|end_click_result\|>|\Z)",
            r"^Observation\s*\d*:.*?(?=^(?:Thought|Action)\s*\d*:|\Z)",
        ]
    ),
    re.DOTALL | re.MULTILINE,
)
_ACTION = re.compile(r"^Action\s*\d*:", re.MULTILINE)
_OBSERVED = re.compile(r"^Observation\s*\d*:", re.MULTILINE)
_OUTER = re.compile(r"\A(?:<[^<>]+>)(.*?)(?:</?[^<>]+>)?\Z", re.DOTALL)
_TURN = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>\n?|(?=<\|im_start\|>)|\Z)", re.DOTALL)
_LINE = re.compile(r"(?:\A|\n)(system|user|assistant|tool)\n")
_QUESTION = re.compile(r".*(?:\A|\s)(?:Question|Query)\s*:\s*(.+)\Z", re.DOTALL)


def _output(entry: dict[str, Any]) -> str | None:
    """The field that holds the episode; where a prompt stands beside it, thinking aloud is enough of one."""
    given = [key for key in _OUTPUTS if isinstance(entry.get(key), str)]
    thinks = _prompt_key(entry) in ("prompt", "prompt_str", "input")
    return next((key for key in given if is_episode(entry[key]) or (thinks and "</think>" in entry[key])), None)


def is_episode(text: str) -> bool:
    """Whether a text holds what tools gave back to an agent, or an agent's thought and its answer."""
    if any(mark in text for mark in _SURE):
        return True
    acted = _ACTION.search(text)
    if acted and _OBSERVED.search(text, acted.end()):
        return True
    return "</think>" in text and ("</answer>" in text or "</result>" in text or "</tool_call>" in text)


def _is_transcript(entry: dict[str, Any]) -> bool:
    key = _output(entry)
    return key is not None and bool(_told(entry) or _prompt_key(entry) or _turns(entry[key]))


def _told(entry: dict[str, Any]) -> str | None:
    return asked(entry, SURE_QUESTION_KEYS) or asked(record_of(entry, "extra_info"), SURE_QUESTION_KEYS)


def _prompt_key(entry: dict[str, Any]) -> str:
    return next((name for name in _PROMPTS if isinstance(entry.get(name), (str, list)) and entry[name]), "")


def _read(entry: dict[str, Any], id: str, notes: Notes) -> Trajectory:
    key = _output(entry) or _OUTPUTS[0]
    told, prompt, after = _told(entry), _prompt_key(entry), pieces(entry[key])
    before = _prompt(entry, prompt) if prompt else [] if told is None else [text_unit("user", told, told)]
    question = told or _question(before or list(after))
    answers = accepted(entry) or accepted(record_of(entry, "extra_info")) or accepted(record_of(entry, "item"))
    answers = answers or ground_truth(record_of(entry, "reward_model").get("ground_truth")) or ground_truth(entry.get("gts"))
    held = {key, *([prompt] if prompt else [])}
    return conversation(entry, [*before, *after], id, notes, told=Told(question, answers), held=held)


def _prompt(entry: dict[str, Any], key: str) -> list[Any]:
    """The messages of a prompt: a list as it is, a chat's text cut into its turns, other text as the user's."""
    listed = messages_in(entry, key)
    if listed is not None:
        return listed
    text = str(entry[key])
    found = [turn for turn in _turns(text) if turn[1].strip()]
    return [text_unit(role, said, said) for role, said in found] or [text_unit("user", text, text)]


def _question(before: list[Any]) -> str | None:
    """What the last message of the user asks: after its label, where it has one."""
    messages = [item.message if isinstance(item, Unit) else item for item in before]
    said = [m.get("content") for m in messages if isinstance(m, dict) and m.get("role") == "user"]
    text = next((content for content in reversed(said) if isinstance(content, str) and content.strip()), None)
    if text is None:
        return None
    found = _QUESTION.match(text)
    return (found[1] if found else text).strip()


def _turns(text: str) -> list[tuple[str, str]]:
    """The turns of a chat's text, after its tags or after bare lines with their roles; none where it is no chat's text."""
    if "<|im_start|>" in text:
        first = text.index("<|im_start|>")
        head = [("assistant", text[:first].replace("<|im_end|>", ""))] if text[:first].strip() else []
        return head + [(found[1], found[2]) for found in _TURN.finditer(text)]
    alpaca = _alpaca(text)
    if alpaca:
        return alpaca
    marks = list(_LINE.finditer(text))
    if not marks or (marks[0].start() > 0 and not {"user", "assistant"} <= {mark[1] for mark in marks}):
        return []
    head = [("assistant", text[: marks[0].start()])] if text[: marks[0].start()].strip() else []
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return head + [(mark[1], text[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]


def _alpaca(text: str) -> list[tuple[str, str]]:
    """The turns between headings ``### Instruction:``, ``### Input:`` and ``### Response:``; none without both ends."""
    before, begun, rest = text.partition("### Instruction:\n")
    body, ended, said = rest.partition("### Response:")
    if not begun or not ended:
        return []
    instruction, _, given = body.partition("### Input:\n")
    asked_for = "\n\n".join(part.strip() for part in (instruction, given) if part.strip())
    return [*([("system", before.strip())] if before.strip() else []), ("user", asked_for), ("assistant", said)]


def pieces(text: str) -> list[Unit]:
    """The messages of an episode's text, in order: nothing of it is left out but blanks and the marks of turns."""
    turns = _turns(text) or [("assistant", text)]
    found: list[Unit] = []
    for role, said in turns:
        said = said.removesuffix("<|im_end|>").removesuffix("<|endoftext|>")
        if role != "assistant":
            found += [text_unit(role, said, said)] if said.strip() else []
            continue
        found += _reopened(list(_cut(said)))
    return found


def _cut(text: str) -> Iterator[tuple[str, str]]:
    """The agent's words and the tools', in turns."""
    at = 0
    for hit in _RESULT.finditer(text):
        if text[at : hit.start()].strip():
            yield "assistant", text[at : hit.start()].strip()
        yield "tool", hit[0]
        at = hit.end()
    if text[at:].strip():
        yield "assistant", text[at:].strip()


def _reopened(cut: list[tuple[str, str]]) -> list[Unit]:
    """The pieces with reasoning that was opened by the prompt, or before a result, opened in each piece that it goes on in."""
    found: list[Unit] = []
    said = [text for role, text in cut if role == "assistant"]
    first = next((text for text in said if "think>" in text), "")
    open = "</think>" in first and "<think>" not in first.partition("</think>")[0]
    for role, text in cut:
        if role == "tool":
            inner = _OUTER.match(text)
            found.append(
                text_unit("tool", text if text.startswith("<tool_response>") else (inner[1] if inner else text).strip(), text)
            )
            continue
        shown = f"<think>\n{text}" if open and not text.startswith("<think>") else text
        open = shown.rfind("<think>") > shown.rfind("</think>")
        found.append(text_unit("assistant", shown, text))
    return found


def _inner(text: str) -> str:
    """What stands in the marks around a result."""
    known, other = result_text(text), _OUTER.match(text)
    return known if known is not None else (other[1] if other else text).strip()


TRANSCRIPT = LayoutReader(Layout.TRANSCRIPT, _is_transcript, _read)
