"""What the figures of an evaluation are made of: estimates with their intervals, and the parts of a result.

None is always "not known", never 0. Knows no trajectory and computes nothing.
"""

from pydantic import BaseModel, ConfigDict

from sanderling.evaluate.resampling import Interval
from sanderling.world.guard import GuardKind


class Record(BaseModel):
    """Base of the frozen models in this room."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class QuestionCounts(Record):
    """One question's attempts."""

    id: str
    text_digest: str = ""
    """Of what was asked, blanks counting as one."""
    hops: int | None = None
    groups: dict[str, tuple[str, ...]] = {}
    """What it belongs to, by the name of the grouping: ``{"level": ("2",), "topic": ("sports", "history")}``."""
    attempts: int
    scored: int
    correct: int


class Estimate(Record):
    """A mean over questions with its 95% interval (bootstrap over questions; Wilson where it would have no width)."""

    value: float | None
    """None when no question has enough scored attempts."""
    interval: Interval | None
    questions: int
    """Questions in the mean."""
    too_few: int
    """Questions left out for want of scored attempts."""


class BrowseShare(Record):
    """Visits among all tool calls, pooled over episodes; None where there were no calls."""

    overall: float | None
    correct: float | None
    wrong: float | None


class Group(Record):
    """Pass@1 over a part of the questions."""

    pass_at_1: Estimate
    attempts: int
    unscored: int


class Spending(Record):
    """What a right answer took: everything that all attempts took, outages' included, over the number of right ones.

    None where there is no right one, or nobody counted. Intervals are over questions.
    """

    seconds: float | None
    seconds_interval: Interval | None
    sampled_tokens: float | None
    sampled_interval: Interval | None
    prompt_tokens: float | None
    prompt_interval: Interval | None


class Cost(Record):
    """What the agent cost: its tokens at the prices that the run was told.

    Every prompt counts in full: what a server's cache saves is not known.
    """

    prompt_price: float
    """Per million tokens, in the user's currency."""
    sampled_price: float
    total: float | None
    """Of all attempts; None where a server did not say what one of them took."""
    attempt: float | None
    """Mean over all attempts."""
    right: float | None
    """What all attempts cost, over the number of right ones."""
    right_interval: Interval | None


class Latency(Record):
    """Seconds of scored attempts, as long as one took from its question to its end."""

    mean: float | None
    median: float | None
    right_mean: float | None
    right_median: float | None
    model: float | None
    """Mean seconds that the model took of it; None where records do not say."""
    tools: float | None
    """Mean seconds that its tools took, those at the same time counted once."""


class RecordedShare(Record):
    """Of what agents asked a recorded world for, what the recording holds."""

    queries: int
    queries_recorded: int
    """Asked to the letter when the world was recorded."""
    addresses: int
    addresses_recorded: int
    """Met when the world was recorded."""


class GuardFigures(Record):
    """What the guard of a run did; the same thing hidden twice from one attempt counts once."""

    kinds: dict[GuardKind, int]
    attempts: int
    """That something was hidden from."""


class Contamination(Record):
    """Attempts that read their own question word for word, whatever a guard hid before: they may have read its answer too.

    They stay right or wrong in every other figure.
    """

    applies: bool
    """False: the benchmark's questions were made from pages, which hold them by right; nothing was looked for."""
    attempts: int
    """That were looked at: a question of a few words is common property."""
    contaminated: int
    questions: int
    """That have a contaminated attempt."""
    without: "Estimate | None"
    """Pass@1 without the contaminated attempts; None where nothing was looked for."""


class Grades(Record):
    """Of forms with three grades; see `judged_figures`."""

    counts: dict[str, int]
    """Scored attempts of each grade."""
    attempted: Estimate
    """Share of attempts that were one."""
    given_attempted: Estimate
    """Share of right ones among those."""
    f1: Estimate
    """Harmonic mean of the share of right ones among all and among those attempted, as SimpleQA has it."""


class Sets(Record):
    """Of answers that are sets: the mean of each question's own figures, not of items thrown together."""

    counts: dict[str, int]
    precision: Estimate
    recall: Estimate
    f1: Estimate


class Calibrated(Record):
    """Answers that claim about the same confidence; percent."""

    low: float
    high: float
    answers: int
    confidence: float | None
    right: float | None


class Confidence(Record):
    """What answers claim of themselves, against how many are right."""

    bins: tuple[Calibrated, ...]
    answers: int
    left_out: int
    """Scored attempts that claim nothing, or on an unknown scale."""
    error: float | None
    """Expected calibration error, points of percent."""
    error_interval: Interval | None


class Agreed(Record):
    """Two who judged the same attempts; see `judged_figures.AgreementFigures`."""

    first: str
    second: str
    both: int
    """Both said right."""
    neither: int
    first_only: int
    second_only: int
    first_unscored: int
    second_unscored: int
    kappa: float | None
    kappa_interval: Interval | None
    agreed: float | None
    agreed_interval: Interval | None
    first_average: float | None
    second_average: float | None
    questions: int
