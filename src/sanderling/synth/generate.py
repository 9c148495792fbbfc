"""Attempts of an agent at questions, judged, into a store: a teacher's trajectories, and how hard questions are.

An interrupted call resumes when made again, turns of unfinished episodes included;
another agent or world than the store was begun with is refused. When every attempt is made, the store is put in order: question
by question, one record for each attempt.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from sanderling.agent.agent import Agent, attempt_id
from sanderling.agent.journal import Journal
from sanderling.agent.opening import AgentConfig, check_agent, journal_identity, opened_agent
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError, check_all
from sanderling.core.record import Question, encode_record
from sanderling.core.types import placed
from sanderling.data.questions import read_questions, require_distinct, write_questions
from sanderling.evaluate.attempts import PAUSES, Attempts, Made, Watch, rollout_of
from sanderling.evaluate.log import JUDGE, JsonlAttempts, check_same_setup
from sanderling.judge.opening import JudgeConfig, check_judges, opened_judges
from sanderling.judge.verdict import Judge, verdict_of
from sanderling.policy.budget import BudgetConfig, Spending
from sanderling.runs.jsonl import JsonlLog, TrajectoryStore, write_lines
from sanderling.runs.run import Run, beside


class GenerateConfig(Frozen):
    """Settings of ``sanderling data generate``."""

    questions: Path  # file of questions with their answers
    out: Path  # the store of trajectories (.jsonl), which attempts are added to one by one; name it again to resume
    attempts: int = Field(default=1, ge=1)  # attempts at each question
    agent: AgentConfig = AgentConfig()
    judge: JudgeConfig = JudgeConfig()
    budget: BudgetConfig = BudgetConfig()


async def generate_file(
    config: GenerateConfig, spending: Spending, *, watch: Watch | None = None, cancel: asyncio.Event | None = None
) -> Made:
    """Open a teacher and its judge, and make the attempts that the store does not hold yet. Raises UserError.

    ``spending``: the account of the run beside the store.
    """
    if config.out.suffix != ".jsonl":
        raise UserError(f"{config.out} is no .jsonl file: trajectories are added to it one by one, so end its name in that.")
    if not config.judge.judges:
        raise UserError("Nobody judges: name one with --judge.")
    questions, teacher = read_questions(config.questions), config.agent
    check_all(lambda: check_agent(teacher, questions), lambda: check_judges(config.judge))
    TrajectoryStore(config.out).prepare()
    judging = opened_judges(config.judge, spending, concurrency=teacher.concurrency)
    opening = opened_agent(teacher, questions, spending=spending)
    async with opening as agent, judging as (judge, _):
        assert judge is not None
        with Journal(beside(config.out), journal_identity(teacher, agent)) as journal:
            return await generate(
                questions, config.attempts, agent, judge, config.out,
                journal=journal, seed=teacher.seed, concurrency=teacher.concurrency, watch=watch, cancel=cancel,
            )  # fmt: skip


async def generate(
    questions: Sequence[Question],
    attempts: int,
    agent: Agent,
    judge: Judge,
    out: Path,
    *,
    journal: Journal,
    seed: int = 0,
    concurrency: int = 8,
    pauses: Sequence[float] = PAUSES,
    watch: Watch | None = None,
    cancel: asyncio.Event | None = None,
) -> Made:
    """Make the attempts that ``out`` does not hold yet. Raises UserError, also for another agent than it was begun with."""
    store = TrajectoryStore(out)
    with Run(beside(out)) as run:
        check_same_setup(run, {**agent.as_json(), JUDGE: placed(judge.name, judge.places)}, store, out)
    rollout = rollout_of(agent, seed, journal=journal, cancel=cancel)
    how = {"pauses": pauses, "on_stored": journal.stored, "watch": watch, "cancel": cancel}
    made = await Attempts(questions, attempts, seed, rollout, judge, JsonlAttempts(store), **how).make(concurrency)
    if not made.stopped:
        _put_in_order(out, [attempt_id(question, attempt) for question in questions for attempt in range(attempts)])
    return made


def _put_in_order(store: Path, ids: Sequence[str]) -> None:
    """Write a store anew with these ids first, in this order, and each id's last record alone; in memory is one line."""
    log = JsonlLog(store)
    lines = [(offset, record["id"]) for offset, record in log.with_offsets()]
    last = {id: offset for offset, id in lines}
    wanted = [last[id] for id in dict.fromkeys((*ids, *last)) if id in last]
    if wanted != [offset for offset, _ in lines]:
        write_lines(store, (encode_record(log.at(offset)) for offset in wanted))


# -- how hard questions are ------------------------------------------------------------------------------------------------
#
# LiteResearcher (arXiv 2604.17931) has a stage's first model attempt every question, keeps what is right 1 to 7 times of 8, and
# sorts by length: below 16K, 32K, 48K and 64K tokens. An attempt that could not be scored is none: a question with fewer scored
# attempts than were wanted is in no band until its missing attempts have been made or could not change it.

META = "difficulty"  # where a question's ``meta`` has its figures


class Band(StrEnum):
    """The result of a question's attempts."""

    TOO_HARD = "too-hard"
    KEPT = "kept"
    TOO_EASY = "too-easy"
    UNTOLD = "untold"


class BandSettings(Frozen):
    """Which questions are kept."""

    attempts: int = Field(default=8, ge=1)  # attempts at each question
    least_right: int = Field(default=1, ge=0)  # fewer right attempts: too hard
    most_right: int | None = Field(default=None, ge=0)  # more right attempts: too easy; by default, if all are right
    lengths: tuple[int, ...] = (16_000, 32_000, 48_000, 64_000)
    """Ends of the length bands, in tokens of the longest right attempt's context (characters where no tokens are known)."""

    @property
    def most(self) -> int:
        """``most_right``, or one attempt less than all."""
        return self.attempts - 1 if self.most_right is None else self.most_right

    @model_validator(mode="after")
    def _in_order(self) -> "BandSettings":
        if not self.least_right <= self.most <= self.attempts:
            told = f"keep from {self.least_right} to {self.most} of {self.attempts} attempts"
            raise ValueError(f"{told} is no range: say --keep N-M, or more --attempts")
        if list(self.lengths) != sorted(set(self.lengths)):
            raise ValueError("lengths must rise")
        return self

    def of(self, scored: int, right: int) -> Band:
        """The band, as soon as the missing attempts could not change it."""
        missing = max(self.attempts - scored, 0)
        if right > self.most:
            return Band.TOO_EASY
        if right + missing < self.least_right:
            return Band.TOO_HARD
        return Band.KEPT if right >= self.least_right and right + missing <= self.most else Band.UNTOLD

    def length_band(self, length: int) -> str:
        """The name of a length's band. Example: ``BandSettings().length_band(20_000) == "16k-32k"``."""
        names = [f"{end / 1_000:g}k" for end in self.lengths]
        for place, end in enumerate(self.lengths):
            if length < end:
                return f"lt{names[0]}" if place == 0 else f"{names[place - 1]}-{names[place]}"
        return f"ge{names[-1]}" if names else "all"


class Try(NamedTuple):
    """One attempt at a question."""

    question: str
    correct: bool | None  # None: unscored, since it ended in an outage or was not judged
    length: int  # of its context, in tokens, or characters where no tokens are known
    turns: int = 0


def difficulty(tries: Sequence[Try], settings: BandSettings) -> dict[str, Any]:
    """The figures of one question's attempts; turns are the mean of the scored ones, the length is the longest right one's."""
    scored = [one for one in tries if one.correct is not None]
    right = [one for one in scored if one.correct]
    return {
        "band": settings.of(len(scored), len(right)).value,
        "scored": len(scored),
        "right": len(right),
        "length": settings.length_band(max(one.length for one in right)) if right else "",
        "turns": sum(one.turns for one in scored) / len(scored) if scored else 0.0,
    }


def by_difficulty(
    questions: Iterable[Question], tries: Iterable[Try], settings: BandSettings, agent: str
) -> tuple[dict[Band, list[Question]], Counter[str]]:
    """The questions by band, in order and with their figures in ``meta``; and how many were right how often ("3/8")."""
    of: defaultdict[str, list[Try]] = defaultdict(list)
    for one in tries:
        of[one.question].append(one)
    bands: dict[Band, list[Question]] = {band: [] for band in Band}
    rates: Counter[str] = Counter()
    for question in questions:
        found = difficulty(of[question.id], settings)
        rates[f"{found['right']}/{found['scored']}"] += 1
        measured = {"agent": agent, "attempts": settings.attempts, **found}
        bands[Band(found["band"])].append(question.model_copy(update={"meta": {**question.meta, META: measured}}))
    return bands, rates


class DifficultyConfig(Frozen):
    """Settings of ``sanderling synth difficulty``."""

    questions: Path
    out: Path  # the questions that are kept; the attempts and the other bands lie beside it
    agent: AgentConfig = AgentConfig()
    band: BandSettings = BandSettings()
    judge: JudgeConfig = JudgeConfig(judges=("exact",))
    budget: BudgetConfig = BudgetConfig()

    @property
    def generating(self) -> GenerateConfig:
        return GenerateConfig(
            questions=self.questions, out=self.out.with_name(f"{self.out.stem}.attempts.jsonl"),
            attempts=self.band.attempts, agent=self.agent, judge=self.judge, budget=self.budget,
        )  # fmt: skip


def band_file(out: Path, band: Band) -> Path:
    """Where a band's questions go, of which ``out`` has the kept ones."""
    return out if band is Band.KEPT else out.with_name(f"{out.stem}.{band.value}.jsonl")


def sort_attempts(config: DifficultyConfig) -> tuple[dict[Band, list[Question]], dict[str, int]]:
    """Write every band of a file's questions to its own file, by the attempts that were made; see `by_difficulty`.

    Raises UserError where the store holds attempts at another question of the same id.
    """
    questions, store = read_questions(config.questions), config.generating.out
    require_distinct(questions)
    texts = {question.id: question.text for question in questions}
    agents: dict[str, None] = {}
    tries: dict[str, Try] = {}
    for trajectory in TrajectoryStore(store):
        asked = trajectory.question
        if texts.get(asked.id, asked.text) != asked.text:
            raise UserError(f"{store} holds attempts at another question {asked.id!r} than {config.questions}: remove it.")
        if trajectory.model:
            agents[trajectory.model] = None
        right = verdict_of(trajectory) if trajectory.ending is None or trajectory.ending.scored else None
        ids = trajectory.token_ids()
        length = sum(len(node.text) for node in trajectory.branch()) if ids is None else len(ids)
        # Of an attempt that was judged again, the last record counts.
        tries[trajectory.id] = Try(asked.id, right, length, sum(1 for _ in trajectory.turns()))
    bands, rates = by_difficulty(questions, tries.values(), config.band, ", ".join(agents))
    for band, sorted_in in bands.items():
        write_questions(band_file(config.out, band), sorted_in)
    return bands, dict(sorted(rates.items()))
