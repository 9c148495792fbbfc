"""The result of an evaluation: its figures with their intervals and with what made them, as one JSON file.

Pass@1 is the mean share of right attempts, never "any of k". None is always "not known", never 0. See `figures`.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from sanderling.core.errors import UserError
from sanderling.core.types import Ending
from sanderling.evaluate.statistics import Interval
from sanderling.runs.files import replace_file
from sanderling.world.guard import GuardKind


class Record(BaseModel):
    """Base of the frozen models of this room; no number in them is infinite or NaN."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)  # earlier versions wrote figures that are gone


class QuestionCounts(Record):
    """One question's attempts."""

    id: str
    text_digest: str = ""  # of what was asked, blanks counting as one
    hops: int | None = None
    groups: dict[str, tuple[str, ...]] = {}  # what it belongs to: ``{"level": ("2",), "topic": ("sports", "history")}``
    attempts: int
    scored: int
    correct: int


class Estimate(Record):
    """A mean over questions with its 95% interval (bootstrap over questions; Wilson where it would have no width)."""

    value: float | None  # None when no question has enough scored attempts
    interval: Interval | None
    questions: int  # in the mean
    too_few: int  # left out for want of scored attempts


class Group(Record):
    """Pass@1 over a part of the questions."""

    pass_at_1: Estimate
    attempts: int
    unscored: int


class Spending(Record):
    """What a right answer took: everything that all attempts took, outages included, over the number of right ones.

    None where there is no right one, or nobody counted.
    """

    seconds: float | None
    seconds_interval: Interval | None
    sampled_tokens: float | None
    sampled_interval: Interval | None
    prompt_tokens: float | None
    prompt_interval: Interval | None


class Cost(Record):
    """The agent's tokens at the run's prices. Every prompt counts in full: what a server's cache saves is not known."""

    prompt_price: float  # per million tokens, in the user's currency
    sampled_price: float
    total: float | None  # None where a server did not say what an attempt took
    attempt: float | None
    right: float | None  # what all attempts cost, over the number of right ones
    right_interval: Interval | None


class GuardFigures(Record):
    """What the guard of a run did; the same thing hidden twice from one attempt counts once."""

    kinds: dict[GuardKind, int]
    attempts: int  # that something was hidden from


class Contamination(Record):
    """Attempts that read their own question word for word: they may have read its answer too.

    They stay right or wrong in every other figure.
    """

    applies: bool  # False: the benchmark's questions were made from pages, so nothing was looked for
    attempts: int  # that were looked at: a question of a few words is common property
    contaminated: int
    without: Estimate | None  # pass@1 without the contaminated attempts; None where nothing was looked for


class Agreed(Record):
    """Two judges of the same attempts; see `agreement`."""

    first: str
    second: str
    both: int  # both said right
    neither: int
    first_only: int
    second_only: int
    first_unscored: int
    second_unscored: int
    kappa: float | None  # None where one verdict is all that was given
    agreed: float | None  # share
    questions: int


class EvalResult(Record):
    """The figures of one evaluation, with what made them.

    Example: ``EvalResult.load(path).pass_at_1.interval``
    """

    schema_version: int = 2
    model: str
    world: str
    judge: str
    second_judge: str = ""  # compared with the first, and decides nothing
    by_hand: int = 0  # attempts that a person has judged
    command: str  # that made the attempts
    judging_command: str = ""  # that judged them again; empty: the same one
    seed: int
    version: str  # of the package
    date: str  # ISO date and time of the end of the run, UTC
    attempts: int  # at each question; of others' runs the most at any
    questions: tuple[QuestionCounts, ...]
    pass_at_k: dict[int, Estimate]  # for every k up to ``attempts``: the chance that one of k attempts is right, unbiased
    pass_hat_k: dict[int, Estimate]  # the chance that all k attempts are right, unbiased
    majority: dict[int, Estimate] = {}  # k = 1, 2, 4, …, ``attempts``: the chance that the commonest answer of k is right
    clustered_error: float | None = None  # standard error of the share of right attempts, questions being clusters
    groups: dict[str, dict[str, Group]] = {}
    spending: Spending | None = None
    cost: Cost | None = None
    guard: GuardFigures | None = None  # None: there was no guard
    contamination: Contamination | None = None
    agreement: tuple[Agreed, ...] = ()  # the judge with the second one, and with a person
    endings: dict[Ending, int]  # of records that say how they ended
    unscored: int
    mean_turns: float | None  # means are over scored attempts
    mean_calls: float | None
    visit_share: float | None = None  # visits among all tool calls; None without calls
    mean_sampled_tokens: float | None
    seconds: float  # wall time of the run that wrote this result
    episode_seconds: float  # sum of all attempts' wall times, resumed ones included
    resumed: int  # attempts that an earlier, interrupted run had finished
    invalid_because: str = ""  # one sentence; empty: the run is valid

    @property
    def pass_at_1(self) -> Estimate:
        """Mean share of right attempts, each question weighing the same."""
        return self.pass_at_k[1]

    @property
    def made(self) -> int:
        """Attempts at all questions together."""
        return sum(one.attempts for one in self.questions)

    @property
    def valid(self) -> bool:
        """Whether few enough attempts were unscored for the figures to mean something."""
        return not self.invalid_because

    def per_question(self) -> dict[str, float]:
        """Share of right attempts of each question that has a scored one."""
        return {q.id: q.correct / q.scored for q in self.questions if q.scored}

    def save(self, path: Path) -> None:
        """Write as JSON, whole or not at all."""
        replace_file(path, self.model_dump_json(indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "EvalResult":
        """Read what :meth:`save` wrote. Raises UserError when it is missing or damaged."""
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"Cannot read {path} ({error.strerror}): run the evaluation that writes it first.") from error
        except (ValidationError, UnicodeDecodeError) as error:
            raise UserError(f"{path} is not an evaluation result of this version: run the evaluation again.") from error
