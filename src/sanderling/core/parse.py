"""The tolerant parser: what a turn means, however untidily it is written.

Reads a turn's text and never edits it: the context stays exactly as it was sampled, and what was odd is told in codes. Never
raises for any text; time is linear in its length. It does not know which tools exist (an unknown name is kept as written)
and it does not judge: the strict check that reward uses is ``grammar.py``.

Rules, in order:

1. Text from the first ``<tool_response>`` on is cut: the model was inventing the observation (the systems stop there too).
2. Reasoning ends at the first ``</think>`` after it opened. A tag within reasoning is a mention, not an action. If reasoning
   never ends, readable calls in it are taken, flagged, provided that there are none outside; an answer in it never is.
3. A call's body is a JSON value, read from its first brace, so tags within its strings do no harm; then JSON5; a ``<code>``
   block after it becomes the argument ``code``. A missing close tag ends the body at the next opening tag or the text's end.
4. The answer is the last answer outside reasoning.
"""

import re
from dataclasses import dataclass, field, replace

from sanderling.core.arguments import normalise_arguments
from sanderling.core.calls import ANSWER, ANSWER_END, CALL, THINK, THINK_END, read_body
from sanderling.core.lenient import without_surrogates
from sanderling.core.messages import ToolCall
from sanderling.core.problems import ParseProblem, explain
from sanderling.core.profile import ToolNames

__all__ = ["ParseProblem", "ParsedTurn", "explain", "normalise_arguments", "parse_turn"]

_RESPONSE = "<tool_response>"
_MAX_CALLS = 32
"""Calls read from one turn: more is a model gone astray. Also what keeps the time linear."""
_OPENERS = re.compile("<(?:tool_call|answer|think)>")


@dataclass(frozen=True)
class ParsedTurn:
    """What a turn means."""

    think: str | None
    """Reasoning, without tags and outer blanks; None: there was none."""
    calls: tuple[ToolCall, ...] = ()
    answer: str | None = None
    """Never empty, never from inside reasoning."""
    problems: tuple[ParseProblem, ...] = ()
    """Each code once, in order of appearance."""
    left: tuple[str, ...] = field(default=(), compare=False)
    """What was read and stands in none of the above: text between the parts, calls that could not be read, earlier answers.
    What follows the first ``<tool_response>`` is not read and not here."""

    @property
    def actionable(self) -> bool:
        """Whether there is a call to run or an answer to take."""
        return bool(self.calls) or self.answer is not None


def parse_turn(text: str, *, think_open: bool = False, names: ToolNames | None = None) -> ParsedTurn:
    """Read one turn. Never raises.

    ``think_open``: the prompt already ended in ``<think>``, so the text begins inside the reasoning.
    ``names``: bring arguments into this family's form (:func:`normalise_arguments`); None: leave them as written.
    """
    parsed = _Reader(without_surrogates(text), think_open).read()
    if names is None:
        return parsed
    calls = tuple(normalise_arguments(call, names) for call in parsed.calls)
    return replace(parsed, calls=calls)


@dataclass
class _Reader:
    """One pass over one turn."""

    text: str
    think_open: bool
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    problems: dict[ParseProblem, None] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    acted: bool = False
    """Whether any action tag was met outside reasoning."""
    tried: int = 0
    """Calls tried so far."""
    last_answer_end: int = -1

    def read(self) -> ParsedTurn:
        cut = self.text.find(_RESPONSE)
        if cut >= 0:
            self.text = self.text[:cut]
            self.flag(ParseProblem.CUT_AT_RESPONSE)
        self.last_answer_end = self.text.rfind(ANSWER_END)
        at = self.enter()
        while at < len(self.text):
            at = self.step(at)
        return self.result()

    def flag(self, problem: ParseProblem) -> None:
        self.problems.setdefault(problem)

    def enter(self) -> int:
        """Deal with reasoning that has no opening tag of its own in the text."""
        if self.think_open:
            return self.think(0)
        opened, closed = self.text.find(THINK), self.text.find(THINK_END)
        begins_with_action = self.text.lstrip().startswith((CALL, ANSWER))
        if closed >= 0 and not 0 <= opened < closed and not begins_with_action:
            self.flag(ParseProblem.MISSING_THINK_OPEN)
            return self.think(0)
        return 0

    def step(self, at: int) -> int:
        """Read the next thing outside reasoning; returns where it ended."""
        found = _OPENERS.search(self.text, at)
        self.outside(self.text[at : found.start() if found else len(self.text)])
        if found is None:
            return len(self.text)
        if found[0] == THINK:
            if self.thoughts:
                self.flag(ParseProblem.DOUBLED_THINK)
            return self.think(found.end())
        self.acted = True
        return self.call(found.end()) if found[0] == CALL else self.answer(found.end())

    def outside(self, piece: str) -> None:
        if self.thoughts and not self.acted and THINK_END in piece:
            # A second </think> right after the first: what lies between belongs to the reasoning.
            self.flag(ParseProblem.DOUBLED_THINK)
            more, _, piece = piece.rpartition(THINK_END)
            self.thoughts.append(more.replace(THINK_END, ""))
        if piece.strip():
            self.flag(ParseProblem.TRAILING_TEXT if self.acted else ParseProblem.STRAY_TEXT)
            self.left.append(piece)

    def think(self, start: int) -> int:
        """Reasoning from ``start`` to its end tag, or to the end of the text."""
        end = self.text.find(THINK_END, start)
        if end < 0:
            return self.unclosed(start)
        self.thought(self.text[start:end])
        return end + len(THINK_END)

    def thought(self, piece: str) -> None:
        if THINK in piece:
            self.flag(ParseProblem.DOUBLED_THINK)
        self.thoughts.append(piece.replace(THINK, ""))

    def unclosed(self, start: int) -> int:
        """Reasoning that never ends: calls in it count only when there is no action outside."""
        self.flag(ParseProblem.UNCLOSED_THINK)
        rest = self.text[start:]
        if ANSWER in rest:
            self.flag(ParseProblem.ANSWER_IN_THINK)
        first = len(rest)
        if not self.acted:
            at, read = rest.find(CALL), 0
            while at >= 0:
                before = len(self.calls)
                end = self.call(start + at + len(CALL), mention=True) - start
                if len(self.calls) > before:
                    if first < len(rest):
                        self.left.append(rest[read:at])
                    first, read = min(first, at), end
                    self.flag(ParseProblem.CALL_IN_THINK)
                at = rest.find(CALL, end)
            if first < len(rest):
                self.left.append(rest[read:])
        self.thought(rest[:first])
        return len(self.text)

    def answer(self, start: int) -> int:
        """An answer from ``start``; returns where it ended. The innermost of nested answers is the answer."""
        if start <= self.last_answer_end:
            end = self.text.find(ANSWER_END, start)
            after = end + len(ANSWER_END)
        else:
            self.flag(ParseProblem.UNCLOSED_ANSWER)
            following = _OPENERS.search(self.text, start)
            end = after = following.start() if following else len(self.text)
        body = self.text[start:end]
        if ANSWER in body:
            self.flag(ParseProblem.SEVERAL_ANSWERS)
            outer, _, body = body.rpartition(ANSWER)
            self.left.append(outer)
        if body.strip():
            self.answers.append(body.strip())
        else:
            self.flag(ParseProblem.EMPTY_ANSWER)
        return after

    def call(self, start: int, *, mention: bool = False) -> int:
        """A call whose body begins at ``start``; returns where it ended. ``mention``: unreadable is no problem."""
        if self.tried >= _MAX_CALLS:
            self.flag(ParseProblem.TOO_MANY_CALLS)
            if not mention:
                self.left.append(self.text[start:])
            return len(self.text)
        self.tried += 1
        body = read_body(self.text, start)
        if not body.calls and not mention:
            self.left.append(self.text[start : body.end])
        if len(body.calls) > _MAX_CALLS - len(self.calls):
            self.flag(ParseProblem.TOO_MANY_CALLS)
        self.calls.extend(body.calls[: _MAX_CALLS - len(self.calls)])
        if body.calls or not mention:
            self.problems.update(dict.fromkeys(body.problems))
        return body.end

    def result(self) -> ParsedTurn:
        if not self.thoughts:
            self.flag(ParseProblem.MISSING_THINK)
        if len(self.calls) > 1:
            self.flag(ParseProblem.SEVERAL_CALLS)
        if len(self.answers) > 1:
            self.flag(ParseProblem.SEVERAL_ANSWERS)
        if self.calls and self.answers:
            self.flag(ParseProblem.BOTH)
        if not self.calls and not self.answers:
            self.flag(ParseProblem.NO_ACTION)
        think = "\n".join(piece.strip() for piece in self.thoughts if piece.strip()) if self.thoughts else None
        answer = self.answers[-1] if self.answers else None
        left = tuple(piece.strip() for piece in (*self.left, *self.answers[:-1]) if piece.strip())
        return ParsedTurn(think, tuple(self.calls), answer, tuple(self.problems), left)
