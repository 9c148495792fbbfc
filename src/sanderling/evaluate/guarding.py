"""The guard of a run: what it hides, its log and what came of it; and whether an attempt read its own question all the same.

The blocklist is that of known leaks with what a person adds; by their words, pages are hidden for the benchmarks whose sources
do not hold the questions themselves (`Benchmark.verbatim`).
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import ToolCall
from sanderling.evaluate.benchmarks.files import Loaded
from sanderling.evaluate.benchmarks.table import Benchmark, leaks
from sanderling.runs.jsonl import JsonlLog
from sanderling.world.filters import read_blocklist
from sanderling.world.guard import Blocklist, Guard, GuardKind, GuardLine, Wording, as_words


class GuardFacts(Frozen):
    """What a run's guard hides; runs that differ in it measure different things."""

    on: bool = False
    verbatim: bool = False  # whether pages that hold a question word for word are hidden
    fingerprint: str = ""  # of its rules, the blocklist's included


NO_GUARD = GuardFacts()


def guard_of(
    benchmark: Benchmark, loaded: Loaded, files: Sequence[Path], log: Path, *, on: bool = True
) -> tuple[GuardFacts, Guard | None]:
    """The guard for a benchmark, with further blocklists, which writes into a log. Raises UserError for a file that is none."""
    if not on:
        if files:
            raise UserError("blocklist adds to the guard, and guard=false switches it off: leave one of them out.")
        return NO_GUARD, None
    blocklist, lines = Blocklist.parse(leaks()), JsonlLog(log, durable=False)  # a loss of power may take the last lines
    for file in files:
        if not file.is_file():
            raise UserError(f"There is no blocklist at {file}: check the path.")
        blocklist |= read_blocklist(file)

    def write(line: GuardLine) -> None:
        lines.append(line.model_dump(mode="json"))

    texts = {question.id: question.text for question in loaded.questions} if benchmark.verbatim else {}
    guard = Guard(blocklist, texts, loaded.canaries, write)
    return GuardFacts(on=True, verbatim=bool(texts), fingerprint=guard.fingerprint), guard


class GuardCounts(NamedTuple):
    """What a guard did; the same thing hidden twice from one attempt counts once."""

    kinds: dict[GuardKind, int]
    hidden_from: set[tuple[str, int]]  # question and attempt of those that something was hidden from


def guard_counts(log: Path) -> GuardCounts:
    """The counts of a guard's log."""
    lines = map(GuardLine.model_validate, JsonlLog(log))
    once = {(one.question, one.attempt, one.tool, one.url, one.kind) for one in lines}
    kinds = Counter(kind for *_, kind in once)
    hidden = {(question, attempt) for question, attempt, *_, kind in once if kind is not GuardKind.REPORTED}
    return GuardCounts({kind: kinds[kind] for kind in GuardKind}, hidden)


# Did an attempt read its own question word for word? ------------------------------------------------------------------------
#
# Looked at after the fact, whatever a guard hid before, by the guard's rule (`world.guard`): a page that holds the whole
# question, or half of its runs, repeats a benchmark. A query or goal that a tool says back to the agent does not count.

_URL = re.compile(r"https?://[^\s\"'<>)\]]+")
_BEFORE_ECHO = " (?:q|query|(?:search|results|found) for|(?:user|the) goal)"
"""What stands before the agent's own words in a tool's reply."""


def read_its_question(trajectory: Trajectory) -> bool | None:
    """Whether something that its tools returned on any branch repeats the question; None: the question is too short to tell."""
    wording = Wording.of(trajectory.question.text)
    if not wording.whole:
        return None
    observations = (node for node in trajectory.nodes if node.kind is NodeKind.OBSERVATION)
    return any(_holds(node.text, wording, _calls_before(trajectory, node)) for node in observations)


def _calls_before(trajectory: Trajectory, node: Node) -> tuple[ToolCall, ...]:
    """The calls that an observation answers: those of the turn before it."""
    at = node.parent
    while at is not None and trajectory.nodes[at].kind is not NodeKind.TURN:
        at = trajectory.nodes[at].parent
    return () if at is None else trajectory.nodes[at].calls


def _holds(text: str, wording: Wording, calls: tuple[ToolCall, ...]) -> bool:
    words = as_words(_URL.sub(" ", text))
    echoes: Counter[str] = Counter()
    for call in calls:
        lists = [value for value in call.arguments.values() if isinstance(value, list)]
        alone = {value: max([1, *map(len, lists)]) for value in call.arguments.values() if isinstance(value, str)}
        echoes.update({as_words(value).strip(): times for value, times in alone.items()})  # said with each thing of a list
        echoes.update(as_words(value).strip() for values in lists for value in values if isinstance(value, str))
    # The longest first: a part of a longer query is not another one.
    for echo, times in sorted(echoes.items(), key=lambda one: -len(one[0])):
        if wording.found_in(f" {echo} "):
            words = re.sub(f"({_BEFORE_ECHO}) {re.escape(echo)}(?= )", r"\1 \n", words, count=times)
    found = wording.found_in(words)
    return found is not None and found[0] is GuardKind.VERBATIM
