"""Where a run of the data pipeline keeps its files. Knows no step."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sanderling.errors import UserError
from sanderling.protocol.profile import Profile
from sanderling.protocol.profiles import get_profile
from sanderling.protocol.tokens import load_tokenizer
from sanderling.recipes.data.config import DataConfig
from sanderling.trajectory.distributions import Measure, in_tokens, in_words
from sanderling.trajectory.split import Shares


@dataclass(frozen=True)
class Layout:
    """One run's sources, directory and settings."""

    sources: tuple[Path, ...]
    root: Path
    config: DataConfig

    @property
    def profile(self) -> Profile:
        return get_profile(self.config.profile)

    def check(self) -> None:
        """Raise UserError now, and not after an hour, for what is not there or does not fit."""
        self._check_sources()
        get_profile(self.config.profile)
        self.config.clean.resolved()
        self.config.resample.schedule()
        if self.config.tokenizer is not None:
            load_tokenizer(self.config.tokenizer)

    def _check_sources(self) -> None:
        """What is read must be there, and never where a run writes, or empties its directory."""
        root = self.root.resolve()
        for source in self.sources:
            place = source.resolve()
            if not place.exists():
                raise UserError(f"There is no file or directory {source}: check the path.")
            if place == root or root in place.parents:
                raise UserError(f"{source} lies in the run's own directory {self.root}: move it, or name another --out.")
            if place in root.parents:
                raise UserError(f"The run's directory {self.root} lies in {source}, which is read: name another --out.")

    @property
    def measure(self) -> Measure:
        """What lengths are counted in."""
        return in_words() if self.config.tokenizer is None else in_tokens(load_tokenizer(self.config.tokenizer))

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The parts' names; the first is trained on."""
        return Shares.read(self.config.split.shares).names

    @property
    def imported(self) -> Path:
        return self.root / "1-imported.jsonl"

    @property
    def questions(self) -> Path:
        """Questions that came without a trajectory."""
        return self.root / "1-questions.jsonl"

    @property
    def cleaned(self) -> Path:
        return self.root / "2-cleaned.jsonl"

    @property
    def judged(self) -> Path:
        return self.root / "3-judged.jsonl"

    @property
    def left_out(self) -> Path:
        """Judged, and not trained on."""
        return self.root / "3-left-out.jsonl"

    @property
    def verdicts(self) -> Path:
        return self.root / "3-verdicts.jsonl"

    @property
    def unlike(self) -> Path:
        """One for each question."""
        return self.root / "4-unlike.jsonl"

    @property
    def benchmark_free(self) -> Path:
        return self.root / "4-benchmark-free.jsonl"

    @property
    def parted(self) -> Path:
        """The directory of the parts."""
        return self.root / "5-parts"

    @property
    def resampled(self) -> Path:
        return self.root / "6-resampled.jsonl"

    def rows(self, part: str) -> Path:
        return self.root / "rows" / f"{part}.parquet"
