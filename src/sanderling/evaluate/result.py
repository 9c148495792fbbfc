"""The result of an evaluation: the figures over all of its attempts, with what made them, as one file.

Pass@1 is the mean share of right attempts, never "any of k". How figures are made is the affair of `summary`.
"""

from pathlib import Path

from pydantic import Field, ValidationError

from sanderling.core.errors import UserError
from sanderling.core.types import Ending
from sanderling.evaluate.resampling import Interval
from sanderling.evaluate.result_parts import (
    Agreed,
    BrowseShare,
    Confidence,
    Contamination,
    Cost,
    Estimate,
    Grades,
    Group,
    GuardFigures,
    Latency,
    QuestionCounts,
    Record,
    RecordedShare,
    Sets,
    Spending,
)
from sanderling.runs.files import replace_file


class EvalResult(Record):
    """The figures of one evaluation, with what made them.

    Example: ``EvalResult.load(path).pass_at_1.interval``
    """

    schema_version: int = 2
    model: str
    world: str
    judge: str
    second_judge: str = ""
    """Compared with the first, and decides nothing; empty: there is none."""
    by_hand: int = 0
    """Attempts that a person has judged, against or before any judge."""
    command: str
    """That made the attempts."""
    judging_command: str = ""
    """That judged them anew; empty: the same one."""
    judged_sha256: str = ""
    """Of the list of judged attempts that the figures are of."""
    seed: int
    version: str
    """Of the package."""
    date: str
    """ISO date and time of the end of the run, UTC."""
    attempts: int
    """Attempts at each question; of others' runs the most at any."""
    questions: tuple[QuestionCounts, ...]
    pass_at_k: dict[int, Estimate]
    """For every k up to ``attempts``: the chance that at least one of k attempts is right, unbiased."""
    pass_hat_k: dict[int, Estimate]
    """The chance that all k attempts are right, unbiased."""
    majority: dict[int, Estimate] = Field(default_factory=dict)
    """k = 1, 2, 4, … up to ``attempts``: the chance that the answer given most often among k attempts is right."""
    best_of: dict[str, dict[int, Estimate]] = Field(default_factory=dict)
    """By the name of a score, then by k as the majority: the chance that the attempt of k with the highest score is right."""
    clustered_error: float | None = None
    """Standard error of the share of right ones among all scored attempts, questions being clusters."""
    attempts_error: float | None = None
    """The part of pass@1's standard error that further attempts at the same questions would take away."""
    groups: dict[str, dict[str, Group]] = Field(default_factory=dict)
    """By the name of a grouping, then by group."""
    spending: Spending | None = None
    cost: Cost | None = None
    """None: nobody said what a token costs."""
    latency: Latency | None = None
    turn_counts: dict[str, dict[int, int]] = Field(default_factory=dict)
    """Of ``right`` and ``wrong`` attempts, how many took so many turns."""
    call_counts: dict[str, dict[int, int]] = Field(default_factory=dict)
    """The same for tool calls."""
    guard: GuardFigures | None = None
    """None: there was no guard, or its log is not there."""
    contamination: Contamination | None = None
    """None: nobody looked."""
    score: Estimate | None = None
    """Mean of the judge's scores, where some lie between wrong and right."""
    grades: Grades | None = None
    sets: Sets | None = None
    confidence: Confidence | None = None
    agreement: tuple[Agreed, ...] = ()
    """The judge with the second one, and with a person."""
    format_accuracy: float | None = None
    """Share of turns that keep the grammar; None where the profile is not known."""
    pass_at_1_bounds: Interval
    """Pass@1 over all questions, had every unscored attempt been wrong, and had it been right."""
    endings: dict[Ending, int]
    """Of records that say how they ended."""
    unscored: int
    judge_outages: int
    """Those of ``unscored`` that ended well, have accepted answers, and that only the judge failed on."""
    mean_turns: float | None
    """Means are over scored episodes."""
    mean_calls: float | None
    browse: BrowseShare
    recorded: RecordedShare | None = None
    """None: the world is no recording."""
    mean_sampled_tokens: float | None
    mean_context_tokens: float | None
    seconds: float
    """Wall time of the run that wrote this result."""
    episode_seconds: float
    """Sum of all episodes' wall times, resumed ones included."""
    resumed: int
    """Episodes that an earlier, interrupted run had finished."""
    invalid_because: str = ""
    """One sentence; empty: the run is valid."""

    @property
    def pass_at_1(self) -> Estimate:
        """Mean share of right attempts."""
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
