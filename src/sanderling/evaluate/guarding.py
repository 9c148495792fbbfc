"""The guard of a run: what it hides, its log and what came of it; and whether an attempt read its own question all the same.

The blocklist is that of known leaks with what a person adds; by their words, pages are hidden for the benchmarks whose sources
do not hold the questions themselves (`Benchmark.verbatim`).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from pydantic import ValidationError

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import ToolCall
from sanderling.evaluate.benchmarks.files import Loaded
from sanderling.evaluate.benchmarks.table import Benchmark, leaks
from sanderling.runs.jsonl import JsonlLog
from sanderling.world.blocked import Blocklist
from sanderling.world.filters import read_blocklist
from sanderling.world.guard import Guard, GuardKind, GuardLine, Wording, as_words


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


@dataclass(frozen=True)
class GuardCounts:
    """What a guard did, by question and attempt; the same thing hidden twice from one attempt counts once."""

    by_attempt: dict[tuple[str, int], Counter[GuardKind]]

    @property
    def kinds(self) -> dict[GuardKind, int]:
        return {kind: sum(counts[kind] for counts in self.by_attempt.values()) for kind in GuardKind}

    @property
    def hidden_from(self) -> set[tuple[str, int]]:
        """Question and attempt of those that something was hidden from."""
        return {key for key, counts in self.by_attempt.items() if set(counts) - {GuardKind.REPORTED}}


def guard_counts(log: Path) -> GuardCounts:
    """The counts of a guard's log. Raises UserError for a line that is none of a guard's."""
    try:
        lines = [GuardLine.model_validate(line) for line in JsonlLog(log)]
    except ValidationError as error:
        raise UserError(f"{log} is no log of a guard: restore it, or choose another directory.") from error
    found: dict[tuple[str, int], Counter[GuardKind]] = {}
    for question, attempt, _, _, kind in dict.fromkeys((o.question, o.attempt, o.tool, o.url, o.kind) for o in lines):
        found.setdefault((question, attempt), Counter())[kind] += 1
    return GuardCounts(found)


# Did an attempt read its own question word for word? ------------------------------------------------------------------------
#
# Looked at after the fact, whatever a guard hid before, by the guard's rule (`world.guard`): a page that holds the whole
# question, or half of its runs, repeats a benchmark. A query or goal that a tool says back to the agent does not count.

_URL = re.compile(r"https?://[^\s\"'<>)\]]+")
_UNSEEN = re.compile(
    "['.\u00ad\u034f\u0640\u061c\u115f\u1160\u180b-\u180f\u2018\u2019\u201b\u02bb\u02bc\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u20dd-\u20e4\ufe00-\ufe0f\ufeff]"
)
"""What may stand within a word without making another of it."""
_BEFORE_ECHO = " (?:q|query|(?:search|results|found) for|(?:user|the) goal)"
"""What stands before the agent's own words in a tool's reply."""


def read_its_question(trajectory: Trajectory) -> bool | None:
    """Whether something that its tools returned on any branch repeats the question; None: the question is too short to tell."""
    wording = Wording.of(trajectory.question.text)
    if not wording.whole:
        return None
    observations = [node for node in trajectory.nodes if node.kind is NodeKind.OBSERVATION and _may_hold(node.text, wording)]
    return any(_holds(node.text, wording, _calls_before(trajectory, node)) for node in observations)


def _calls_before(trajectory: Trajectory, node: Node) -> tuple[ToolCall, ...]:
    """The calls that an observation answers: those of the turn before it."""
    at = node.parent
    while at is not None and trajectory.nodes[at].kind is not NodeKind.TURN:
        at = trajectory.nodes[at].parent
    return () if at is None else trajectory.nodes[at].calls


def _may_hold(text: str, wording: Wording) -> bool:
    """False only where no run of the question can be there: a word of each is missing. Cheap: most texts end here."""
    plain = unescape(text)
    plain = _UNSEEN.sub("", plain.lower() if plain.isascii() else unicodedata.normalize("NFKC", plain).casefold())
    runs = wording.runs or (wording.whole,)
    return any(all(word in plain for word in run.split() if word.isascii() and word.isalpha()) for run in runs)


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
