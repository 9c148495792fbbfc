"""A run of the data pipeline before it begins: its settings, where its files are, whether all fits, and what it reads.

``data/pipeline/recipes/*.toml`` hold the settings of the three systems.
"""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from sanderling.core.chat import load_tokenizer
from sanderling.core.config import Frozen, check_config, load_config, read_config
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.data.cleaning import CleaningRecipe, get_recipe
from sanderling.data.dedupe import LEAST_THRESHOLD, THRESHOLD, Prefer, Shares
from sanderling.data.importing import find_places
from sanderling.data.questions import read_questions
from sanderling.data.resample import Schedule
from sanderling.judge.rules import rule_judge
from sanderling.policy.load import check_model, is_endpoint, names_model, weights_of
from sanderling.runs.stages import content_hash

RECIPES = ("dr-venus", "literesearcher", "agentcpm")
"""The named recipes, each a file in ``data/pipeline/recipes``."""


class Keep(StrEnum):
    """Which verdicts are trained on; ``not-wrong``: all but the incorrect."""

    CORRECT = "correct"
    NOT_WRONG = "not-wrong"
    ALL = "all"


class Cleaning(Frozen):
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


class Judging(Frozen):
    """Who says what is right."""

    judges: tuple[str, ...] = ("contains",)
    """Rules and models (an address, a directory), asked in order until one finds the answer right. Empty: the verdicts in the
    records count, as `data judge` writes them."""
    keep: Keep = Keep.CORRECT


class Deduping(Frozen):
    """What is the same question."""

    keep: int = Field(default=1, ge=0)
    """Most trajectories of one question; 0: as many as there are."""
    prefer: Prefer = Prefer.SHORTEST
    threshold: float = Field(default=THRESHOLD, ge=LEAST_THRESHOLD, le=1)
    by_answers: bool = True


class Splitting(Frozen):
    """Which parts there are."""

    shares: Annotated[str, AfterValidator(lambda shares: Shares.read(shares) and shares)] = "train=0.95,validation=0.05"
    seed: int = 0
    by_answers: bool = False


class Resampling(Frozen):
    """How often what is repeated, in the first part."""

    thresholds: tuple[int, ...] = (50, 100)
    weights: tuple[int, ...] = (1, 2, 5)
    seed: int = 0

    def schedule(self) -> Schedule:
        """Raises UserError when thresholds and weights do not fit."""
        return Schedule(self.thresholds, self.weights)


class Rows(Frozen):
    """What the trainer gets."""

    max_tokens: int = Field(default=200_000, ge=1)
    overlong: Literal["drop", "split"] = "drop"
    """What becomes of longer ones; counted and named in any case."""


class DataConfig(Frozen):
    """The whole way, resolved."""

    title: str = "Data"
    profile: str = "dr-venus-4b"
    tokenizer: Path | None = None
    """A directory with tokenizer.json. Without it no rows are made, and lengths are in words."""
    against: tuple[Path, ...] = ()
    """Files of benchmarks: whoever asks what they ask is left out."""
    clean: Cleaning = Cleaning()
    judge: Judging = Judging()
    dedupe: Deduping = Deduping()
    split: Splitting = Splitting()
    resample: Resampling = Resampling()
    rows: Rows = Rows()


def find_data_recipe(name: str, overrides: Sequence[str] = ()) -> DataConfig:
    """The settings of a named recipe or of a TOML file, with overrides laid over them. Raises UserError."""
    if name.endswith(".toml"):
        return read_config(DataConfig, Path(name), overrides)
    if name not in RECIPES:
        raise UserError(f"There is no data recipe {name!r}: choose {', '.join(RECIPES)}, or give a .toml file.")
    text = (Path(__file__).parent / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
    return load_config(DataConfig, text, f"{name}.toml", overrides)


class DataRun:
    """One run's sources, settings and directory: where each step keeps what, and whether all fits before it begins."""

    def __init__(self, sources: Sequence[Path], root: Path, config: DataConfig) -> None:
        self.sources, self.root, self.config = tuple(sources), root, config
        self.profile = get_profile(config.profile)
        self.parts = Shares.read(config.split.shares).names  # the first is trained on
        self.imported = root / "1-imported.jsonl"
        self.import_report = root / "1-imported.jsonl.import.json"
        self.unread = root / "1-imported.jsonl.unread.jsonl"  # absent where everything was read
        self.questions = root / "1-questions.jsonl"
        self.cleaned = root / "2-cleaned.jsonl"
        self.dropped = root / "2-cleaned.dropped.jsonl"  # with step and reason; absent where nothing was
        self.judged = root / "3-judged.jsonl"
        self.left_out = root / "3-left-out.jsonl"
        self.unlike = root / "4-unlike.jsonl"
        self.same = root / "4-left-out.jsonl"  # left out for what it asks, with the question that it is the same as
        self.benchmark_free = root / "4-benchmark-free.jsonl"
        self.deduped = self.benchmark_free if config.against else self.unlike
        self.parted = root / "5-parts"
        self.resampled = root / "6-resampled.jsonl"
        self.all_left_out = root / "left-out.jsonl"

    def part(self, name: str) -> Path:
        """Trajectories of a part."""
        return self.parted / f"{name}.jsonl"

    def rows(self, name: str) -> Path:
        """Rows of a part; what makes none is named in a file beside it, ``….left-out.jsonl``."""
        return self.root / "rows" / f"{name}.parquet"

    def check(self) -> None:
        """Raise UserError now, and not after an hour, for what is not there or does not fit."""
        config, root = self.config, self.root.resolve()
        read = [*self.sources, *config.against]
        for path in read:
            if not path.is_file() and not path.is_dir():
                raise UserError(f"There is no file or directory {path}: check the path.")
        config.clean.resolved()
        config.resample.schedule()
        for spec in config.judge.judges:
            if not names_model(spec):
                rule_judge(spec)
                continue
            check_model(spec)
            read += [] if is_endpoint(spec) else [Path(spec)]
        for path in [*read, *([] if config.tokenizer is None else [config.tokenizer])]:
            place = path.resolve()
            if place == root or root in place.parents:
                raise UserError(f"{path} lies in the run's own directory {self.root}: move it, or name another --out.")
            if place in root.parents:
                raise UserError(f"The run's directory {self.root} lies in {path}, which is read: name another --out.")
        for path in config.against:
            read_questions(path)
        if config.tokenizer is not None:
            load_tokenizer(config.tokenizer)
        if self.root.exists() and not self.root.is_dir():
            raise UserError(f"{self.root} is a file: name a directory for the run with --out.")

    def inputs(self) -> dict[str, Any]:
        """Whatever a step reads, as JSON, and nothing that changes no result.

        So a file counts by its content and by the name that its trajectories' ids begin with, wherever it lies; the title
        counts for nothing. Raises UserError for a file that cannot be read.
        """

        def contents(places: Sequence[Path]) -> list[dict[str, str]]:
            return [{"name": place.name, "content": content_hash(place.path)} for place in find_places(places).files]

        config = self.config
        return {
            "settings": config.model_dump(mode="json", exclude={"title", "tokenizer", "against", "judge"}),
            "keep": config.judge.keep.value,
            "judges": [weights_of(spec) if names_model(spec) else spec for spec in config.judge.judges],
            "tokenizer": None if config.tokenizer is None else load_tokenizer(config.tokenizer).fingerprint,
            "sources": contents(self.sources),
            "against": [{"name": path.stem, "files": contents([path])} for path in config.against],
        }
