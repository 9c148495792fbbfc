"""The settings of the data pipeline, as data; `recipes/data/*.toml` hold those of the three systems."""

from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from sanderling.core.config import check_config
from sanderling.data.cleaning import CleaningRecipe, get_recipe
from sanderling.data.dedupe import Prefer, Shares
from sanderling.data.resample import Schedule
from sanderling.data.similar import LEAST_THRESHOLD, THRESHOLD
from sanderling.train.overlong import Limit, Overlong


class Section(BaseModel):
    """A frozen section that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Keep(StrEnum):
    """Which verdicts are trained on."""

    CORRECT = "correct"
    NOT_WRONG = "not-wrong"
    """All but the incorrect: where nobody can tell, it is not held against a trajectory."""
    ALL = "all"


class Cleaning(Section):
    """What is cleaned."""

    recipe: str = "dr-venus"
    settings: dict[str, Any] = Field(default_factory=dict)
    """Laid over that recipe's, by section."""

    def resolved(self) -> CleaningRecipe:
        """The cleaning recipe. Raises UserError for one that is not there, and for settings it does not have."""
        chosen = get_recipe(self.recipe).model_dump(mode="json")
        for name, section in self.settings.items():
            below = chosen.get(name)
            chosen[name] = {**below, **section} if isinstance(below, dict) and isinstance(section, dict) else section
        return check_config(CleaningRecipe, chosen, f"clean.settings over {self.recipe}")


class Judging(Section):
    """Who says what is right."""

    judges: tuple[str, ...] = ("contains",)
    """Rules and models (an address, a directory), asked in order until one finds the answer right. Empty: the verdicts in the
    records count, as `data judge` writes them."""
    keep: Keep = Keep.CORRECT


class Deduping(Section):
    """What is the same question."""

    keep: int = Field(default=1, ge=0)
    """Most trajectories of one question; 0: as many as there are."""
    prefer: Prefer = Prefer.SHORTEST
    threshold: float = Field(default=THRESHOLD, ge=LEAST_THRESHOLD, le=1)
    by_answers: bool = True


class Splitting(Section):
    """Which parts there are."""

    shares: str = "train=0.95,validation=0.05"
    seed: int = 0
    by_answers: bool = False

    @field_validator("shares")
    @classmethod
    def _readable(cls, shares: str) -> str:
        Shares.read(shares)
        return shares


class Resampling(Section):
    """How often what is repeated, in the first part."""

    thresholds: tuple[int, ...] = (50, 100)
    weights: tuple[int, ...] = (1, 2, 5)
    seed: int = 0

    def schedule(self) -> Schedule:
        """Raises UserError when thresholds and weights do not fit."""
        return Schedule(self.thresholds, self.weights)


class Rows(Section):
    """What the trainer gets."""

    max_tokens: int = Field(default=200_000, ge=1)
    """A row's limit."""
    overlong: Overlong = Overlong.DROP
    """What becomes of longer ones; counted and named in any case."""

    def limit(self) -> Limit:
        """Both as rows are made with them."""
        return Limit(self.max_tokens, self.overlong)


class DataConfig(Section):
    """The whole way, resolved."""

    title: str = "Data"
    profile: str = "dr-venus-4b"
    tokenizer: Path | None = None
    """A directory with tokenizer.json. Without it no rows are made, and lengths are in words."""
    workers: int = Field(default=1, ge=1)
    """Processes that clean."""
    against: tuple[Path, ...] = ()
    """Files of benchmarks: whoever asks what they ask is left out."""
    clean: Cleaning = Cleaning()
    judge: Judging = Judging()
    dedupe: Deduping = Deduping()
    split: Splitting = Splitting()
    resample: Resampling = Resampling()
    rows: Rows = Rows()
