"""Hand-made records and a word-level tokenizer for them."""

import hashlib
import re

from sanderling.core.profiles import Guards, Profile
from sanderling.core.record import Node, NodeKind, Question, ToolEvent, Trajectory
from sanderling.core.types import Ending, Role, ToolCall, ToolStatus

PROFILE = Profile(
    name="tiny", source="test", system_prompt="s", force_hint="now", malformed_hint="{problem}", guards=Guards(max_retries=0)
)


class WordTokenizer:
    """Ids by hashing pieces; decoding remembers what it has seen."""

    fingerprint = "words"
    vocab_size = 61

    def __init__(self) -> None:
        self.seen: dict[int, str] = {}

    def encode(self, text: str) -> list[int]:
        return [self._id(piece) for piece in re.findall(r"</?\w+>|\w+|\s|[^\w\s]", text)]

    def decode(self, ids) -> str:
        return "".join(self.seen[i] for i in ids)

    def token_id(self, token: str) -> int:
        return {"<|im_start|>": 1, "<|im_end|>": 2}[token]

    def _id(self, piece: str) -> int:
        found = 3 + int(hashlib.sha256(piece.encode()).hexdigest(), 16) % 58
        self.seen[found] = piece
        return found


ROLES = {"s": "search", "v": "visit", "x": ""}


def record(
    script: str,
    *,
    ids: bool = True,
    name: str = "t",
    question: str = "q",
    answers: tuple[str, ...] = ("Oslo",),
    ending: Ending | None = Ending.ANSWERED,
    answer: str | None = "Oslo",
    version: int = 0,
) -> Trajectory:
    """A trajectory from letters: s search, v visit, b both, m malformed (hint follows), a answer, r a rejected attempt."""
    tokenizer = WordTokenizer()

    def coded(text: str) -> tuple[int, ...] | None:
        return tuple(tokenizer.encode(text)) if ids else None

    nodes = [
        Node(parent=None, role=Role.SYSTEM, kind=NodeKind.SYSTEM, text="sys", token_ids=coded("sys")),
        Node(parent=0, role=Role.USER, kind=NodeKind.QUESTION, text="what ?", token_ids=coded("what ? assistant")),
    ]
    leaf = 1
    for step, letter in enumerate(script):
        said = coded(f"think {step} </think> act {letter} end")
        size = len(said or ())
        calls = () if letter in "am" else (ToolCall(name="tool", arguments={}),)
        text = f"<think>\nthink {step}\n</think>\n<answer>{answer}</answer>"
        more = {"logprobs": (-0.1 * (step + 1),) * size, "versions": (version,) * size} if ids else {}
        more |= {"calls": calls, "answer": answer if letter == "a" else None, "rejected": letter == "r"}
        nodes.append(Node(parent=leaf, role=Role.ASSISTANT, kind=NodeKind.TURN, text=text, token_ids=said, **more))
        if letter == "r":
            continue
        leaf = len(nodes) - 1
        if letter == "a":
            break
        roles = ("search", "visit") if letter == "b" else (ROLES.get(letter, ""),)
        events = () if letter == "m" else tuple(ToolEvent(name="tool", role=r, status=ToolStatus.OK) for r in roles)
        kind, text = NodeKind.HINT if letter == "m" else NodeKind.OBSERVATION, f"<tool_response>\nsaw {step}\n</tool_response>"
        seen = coded(f"user saw {step} assistant")
        nodes.append(Node(parent=leaf, role=Role.USER, kind=kind, text=text, token_ids=seen, events=events))
        leaf = len(nodes) - 1
    return Trajectory(
        id=name, question=Question(id=question, text="what?", answers=answers), nodes=tuple(nodes), leaf=leaf,
        ending=ending, answer=answer, profile="tiny", tokenizer="words",
    )  # fmt: skip
