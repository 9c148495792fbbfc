"""Where a run of the data pipeline keeps its files. Knows no step."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile, get_profile
from sanderling.data.dedupe import Shares
from sanderling.data.distributions import Measure, in_tokens, in_words
from sanderling.data.questions import read_questions
from sanderling.judge.rules import rule_judge
from sanderling.policy.load import check_model, is_endpoint, names_model
from sanderling.recipes.data.config import DataConfig


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
        config = self.config
        if not self.sources:
            raise UserError("Nothing is named that could be read: give files or folders of raw trajectories.")
        for path in (*self.sources, *config.against):
            self._check_read(path)
        get_profile(config.profile)
        config.clean.resolved()
        config.resample.schedule()
        for spec in config.judge.judges:
            self._check_judge(spec)
        for path in config.against:
            read_questions(path)
        if config.tokenizer is not None:
            self._check_apart(config.tokenizer)
            load_tokenizer(config.tokenizer)
        if self.root.exists() and not self.root.is_dir():
            raise UserError(f"{self.root} is a file: name a directory for the run with --out.")

    def _check_judge(self, spec: str) -> None:
        if not names_model(spec):
            rule_judge(spec)
            return
        check_model(spec)
        if not is_endpoint(spec):
            self._check_apart(Path(spec))

    def _check_read(self, path: Path) -> None:
        """What is read must be there, and never where a run writes, or empties its directory."""
        if not path.is_file() and not path.is_dir():
            raise UserError(f"There is no file or directory {path}: check the path.")
        self._check_apart(path)
        if path.resolve() in self.root.resolve().parents:
            raise UserError(f"The run's directory {self.root} lies in {path}, which is read: name another --out.")

    def _check_apart(self, path: Path) -> None:
        place, root = path.resolve(), self.root.resolve()
        if place == root or root in place.parents:
            raise UserError(f"{path} lies in the run's own directory {self.root}: move it, or name another --out.")

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
    def import_report(self) -> Path:
        return self.root / "1-imported.jsonl.import.json"

    @property
    def unread(self) -> Path:
        """What no import could read; absent where everything was."""
        return self.root / "1-imported.jsonl.unread.jsonl"

    @property
    def questions(self) -> Path:
        """Questions that came without a trajectory."""
        return self.root / "1-questions.jsonl"

    @property
    def cleaned(self) -> Path:
        return self.root / "2-cleaned.jsonl"

    @property
    def dropped(self) -> Path:
        """With step and reason; absent where nothing was."""
        return self.root / "2-cleaned.dropped.jsonl"

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
    def same(self) -> Path:
        """What was left out for what it asks, with the question that it is the same as."""
        return self.root / "4-left-out.jsonl"

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

    @property
    def all_left_out(self) -> Path:
        """Everything that was left out, of all steps."""
        return self.root / "left-out.jsonl"

    def rows(self, part: str) -> Path:
        return self.root / "rows" / f"{part}.parquet"


def count_lines(path: Path) -> int:
    """Lines of a store that an earlier step wrote. Raises UserError when it is gone."""
    try:
        with path.open("rb") as file:
            return sum(1 for line in file if line.strip())
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}): begin again with --fresh.") from error
