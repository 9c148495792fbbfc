"""What every scripted teacher's head has: how often it errs, the form of its turns, and slips in that form.

A head walks its question as real agents do, well or badly. Its faults are *modes*, visible in a turn's reasoning before the
action, never label noise: a student can learn each mode, and reinforcement can move probability between them. What it reads it
reads from the observation: a teacher that opens a stale page honestly believes the stale fact, and one whose page did not open
has read nothing. It writes in the words of profile ``tiny``: its tools' names, and results with each URL on a line of its own.
"""

import json
import random
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.profiles import TINY
from sanderling.world.encyclopedia import Encyclopedia

EARLY = "That is good enough."
CLOSING = TINY.force_hint  # what it reads when it has to answer at once


class ModeShares(Frozen):
    """How often the teacher falls into each fault, per decision."""

    first_result: float = Field(default=0.35, ge=0, le=1)
    """Open the first result, whatever it is."""
    trust_snippet: float = Field(default=0.50, ge=0, le=1)
    """Take a snippet for the fact, and open nothing."""
    stop_early: float = Field(default=0.10, ge=0, le=1)  # answer with hops, or more than one candidate, left
    repeat_call: float = Field(default=0.06, ge=0, le=1)  # search the same again
    slip: float = Field(default=0.06, ge=0, le=1)  # break the format of a call. The next turn repeats it in the right form.
    gazette: float = Field(default=0.0, ge=0, le=1)  # elimination: open the gazette's page
    miss: float = Field(default=0.0, ge=0, le=1)  # elimination: lose one of several candidates that are left


@dataclass
class Head(ABC):
    """One episode in the teacher's head. Deterministic from its random generator."""

    world: Encyclopedia
    shares: ModeShares
    rng: random.Random
    slipped: str = field(default="", kw_only=True)  # the turn to write again after a slip
    visiting: str = field(default="", kw_only=True)

    def next_turn(self, observation: str) -> str:
        """The next turn's text, from what was just observed (empty at first)."""
        if CLOSING in observation:
            return self.close(observation)
        if self.slipped:
            turn, self.slipped = self.slipped, ""
            return turn
        return self.act(observation)

    @abstractmethod
    def act(self, observation: str) -> str:
        """A turn while there is a budget."""

    @abstractmethod
    def close(self, observation: str) -> str:
        """The budget is used up: the answer."""

    def answer(self, think: str, answer: str) -> str:
        return f"<think>\n{think}\n</think>\n<answer>{answer}</answer>"

    def visit(self, think: str, url: str, goal: str) -> str:
        self.visiting = url
        return self.call(think, "visit", {"url": [url], "goal": goal})

    def call(self, think: str, name: str, arguments: dict[str, object]) -> str:
        body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
        turn = f"<think>\n{think}\n</think>\n<tool_call>\n{body}\n</tool_call>"
        if self.rng.random() < self.shares.slip:
            self.slipped = turn
            return f"<think>\n{think}\n<tool_call>\n{body[:-1]}\n</tool_call>"
        return turn
