"""The record of an episode: a small message graph.

A node holds only what it adds. A branch is the path from the root to a leaf, and its token ids, joined, are exactly what the
model once saw and sampled: a plain run is one branch, a rejected attempt a leaf of its own, a history reset another branch.
Where a policy gives token ids they are the truth; imports and chat endpoints have text only: no ids, never guessed ones.
"""

import hashlib
import json
from collections.abc import Iterator
from enum import StrEnum
from itertools import chain
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.types import Ending, Role, ToolCall, ToolStatus

SCHEMA_VERSION = 2  # 2 adds what a turn took to its node; records of 1 are read as they are


REPORT = "report"
"""Where a question's ``meta`` says which part of a report it asks for (`agent.writing`)."""
FILES = "files"
"""Where a question's ``meta`` has the names of the files that it is about."""
FOLLOWS = "follows"
"""Where a trajectory's ``meta`` names the one whose main branch it begins with: its ``id``, and how many ``nodes`` that is."""


class NodeKind(StrEnum):
    """What a node is in the story of the episode."""

    SYSTEM = "system"
    QUESTION = "question"
    TURN = "turn"  # what the policy said
    OBSERVATION = "observation"  # what the tools returned
    HINT = "hint"  # a notice of the loop
    RAW = "raw"  # an imported message nobody could classify


class Passage(Frozen):
    """A passage of a page that the agent read under a number of its own, with which it can point at it."""

    number: int  # from 1, in the order in which the episode saw them
    url: str
    title: str
    text: str


class ToolEvent(Frozen):
    """One call's outcome, beside the observation's text; ``name`` is the tool's in the agent's profile."""

    name: str
    role: str = ""  # what the tool does whatever it is called: "search", "visit", or "" for others
    status: ToolStatus
    parts: tuple[ToolStatus, ...] = ()
    latency_s: float = 0.0
    provenance: tuple[str, ...] = ()
    passages: tuple[Passage, ...] = ()  # under profiles whose pages are numbered


class Node(Frozen):
    """One message: what it adds to the branch it stands on."""

    parent: int | None  # index of the message before it; None for the root
    role: Role
    kind: NodeKind
    text: str  # for a TURN with ids: the decoding of the sampled ids, without the end token
    token_ids: tuple[int, ...] | None = None
    """A TURN: exactly the sampled ids. Any other node: everything the template adds, from the close of the turn before it to
    the generation prompt after it."""
    loss_mask: tuple[bool, ...] | None = None
    """True where the model is trained. None: all of a TURN's tokens, none of another node's."""
    logprobs: tuple[float, ...] | None = None
    """Under the distribution sampled from: after temperature and penalty, and over the tokens that top-k and top-p kept."""
    versions: tuple[int, ...] | None = None  # the policy version that sampled each token
    think: str | None = None
    calls: tuple[ToolCall, ...] = ()
    answer: str | None = None
    problems: tuple[str, ...] = ()  # codes of what the tolerant parser or the loop found odd in it
    rejected: bool = False  # an attempt that was tried again: a leaf outside the main branch
    events: tuple[ToolEvent, ...] = ()
    seconds: float = 0.0
    prefilled_tokens: int = 0  # prompt tokens computed for this turn
    prompt_tokens: int = 0  # prompt tokens that the model saw in all; 0 where nobody counted
    sampled_tokens: int = 0  # without ids: what the server says it sampled, hidden reasoning included
    raw: dict[str, Any] | None = None  # an imported message, where the node does not hold all of it

    @model_validator(mode="after")
    def _parallel(self) -> Self:
        size = None if self.token_ids is None else len(self.token_ids)
        for name in ("loss_mask", "logprobs", "versions"):
            if (values := getattr(self, name)) is not None and len(values) != size:
                raise ValueError(f"{name} has {len(values)} entries for {size} token ids")
        return self


class Question(Frozen):
    """What is asked, and what would be right."""

    id: str
    text: str
    answers: tuple[str, ...] = ()  # accepted ones; empty: unknown
    masked_urls: tuple[str, ...] = ()
    hops: int | None = None
    meta: dict[str, Any] = Field(default_factory=dict)


class Seeds(Frozen):
    """The random seeds of an episode."""

    run: int = 0
    episode: int = 0  # shared by a group's rollouts
    attempt: int = 0


class Trajectory(Frozen):
    """One episode: a SYSTEM node, a QUESTION, then TURN and OBSERVATION in turn, ``leaf`` pointing at the last TURN."""

    schema_version: int = SCHEMA_VERSION
    id: str
    question: Question
    nodes: tuple[Node, ...]
    leaf: int | None  # the end of the main branch; None where there are no nodes
    ending: Ending | None  # None for imports that do not say
    answer: str | None = None
    profile: str = ""
    model: str = ""
    world: str = ""
    tokenizer: str | None = None  # fingerprint of the one whose ids these are
    seeds: Seeds = Seeds()
    seconds: float = 0.0
    detail: str = ""
    meta: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_graph(self) -> Self:
        for index, node in enumerate(self.nodes):
            if node.parent is not None and not 0 <= node.parent < index:
                raise ValueError(f"node {index} has parent {node.parent}: parents come before their children")
        if self.leaf is not None and not 0 <= self.leaf < len(self.nodes):
            raise ValueError(f"leaf {self.leaf} is not one of the {len(self.nodes)} nodes")
        return self

    def path(self, leaf: int | None = None) -> list[int]:
        """Node indices from the root to ``leaf`` (the main branch when None)."""
        at = self.leaf if leaf is None else leaf
        found: list[int] = []
        while at is not None:
            found.append(at)
            at = self.nodes[at].parent
        return found[::-1]

    def leaves(self) -> list[int]:
        """Every branch's end, in order."""
        parents = {node.parent for node in self.nodes}
        return [index for index in range(len(self.nodes)) if index not in parents]

    def branch(self, leaf: int | None = None) -> list[Node]:
        """The nodes of one branch."""
        return [self.nodes[index] for index in self.path(leaf)]

    def turns(self, leaf: int | None = None) -> Iterator[Node]:
        """What the policy said on one branch."""
        return (node for node in self.branch(leaf) if node.kind is NodeKind.TURN)

    def own(self) -> tuple[Node, ...]:
        """The nodes that this episode added; of one that follows another (:data:`FOLLOWS`), those after the other's branch."""
        return self.nodes[self.meta.get(FOLLOWS, {}).get("nodes", 0) :]

    def token_ids(self, leaf: int | None = None) -> list[int] | None:
        """What the model saw and said on one branch; None when any node has text only."""
        nodes = self.branch(leaf)
        parts = [node.token_ids for node in nodes if node.token_ids is not None]
        return list(chain.from_iterable(parts)) if len(parts) == len(nodes) else None


def turn_indices(trajectory: Trajectory) -> list[int]:
    """The nodes that are the policy's turns, rejected attempts left out: their order is the turn index everywhere."""
    return [i for i, node in enumerate(trajectory.nodes) if node.kind is NodeKind.TURN and not node.rejected]


def question_id(text: str) -> str:
    """An id for a question that has none: equal texts, equal ids."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def encode_record(record: Any) -> bytes:
    """One line of JSON without its newline; models by their fields. Raises UserError for what is no JSON value."""
    try:
        return json.dumps(record, default=_fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(record, default=_fields, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"A record cannot be written as JSON ({error}): keep plain JSON values in it.") from error


def _fields(value: object) -> dict[str, Any]:
    if isinstance(value, BaseModel):
        # Unlike ``model_dump``, without a limit on the depth of free-form values. Few profiles number passages.
        return {name: field for name, field in vars(value).items() if name != "passages" or field}
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def decode_record(line: bytes) -> Any:
    """The JSON value of a line. Raises ValueError (bad JSON or bad UTF-8)."""
    try:
        return json.loads(line.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def decode_trajectory(value: Any) -> Trajectory:
    """A trajectory from its JSON value. Raises ValueError with a short reason."""
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    try:
        return Trajectory.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        what = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{'.'.join(str(part) for part in first['loc'])}: {what}".lstrip(": ")) from None
