"""Where the ablation keeps its files: a setting's worlds and questions, units and trials, the model they all begin with."""

from dataclasses import dataclass
from pathlib import Path

from sanderling.core.profiles import Profile, get_profile
from sanderling.recipes.ablation.config import AblationConfig
from sanderling.recipes.tiny.config import TinyConfig
from sanderling.recipes.tiny.layout import Layout as WorldsLayout


@dataclass(frozen=True)
class Unit:
    """One thing that is run, or gone on with: an arm in a setting with a seed."""

    setting: str
    arm: str
    seed: int
    lr: float
    trial: bool = False
    """Of tuning: shorter, and not measured on the held-out world."""

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{self.setting}.{self.arm}.lr-{self.lr:g}" if self.trial else f"{self.setting}.{self.arm}.seed-{self.seed}"


@dataclass(frozen=True)
class Layout:
    """One run's directory and settings."""

    root: Path
    config: AblationConfig

    def worlds(self, setting: str) -> WorldsLayout:
        """A setting's worlds and questions, laid out as the tiny recipe's."""
        config = self.config
        questions = config.questions.model_copy(update={"hops": config.settings[setting].hops})
        told = TinyConfig(
            title=f"{config.title}, {setting}",
            profile=config.profile,
            date=config.date,
            worlds=config.worlds,
            questions=questions,
        )
        return WorldsLayout(self.root / "settings" / setting, told)

    @property
    def start_root(self) -> Path:
        """Where the supervised model is made."""
        return self.root / "start"

    def profile(self, setting: str) -> Profile:
        """As a setting's agents run it."""
        return self.config.settings[setting].rollout.applied(get_profile(self.config.profile))

    def result(self, unit: Unit) -> Path:
        """What a finished unit leaves."""
        return self.root / ("trials" if unit.trial else "units") / f"{unit.name}.json"

    def work(self, unit: Unit) -> Path:
        """Where it is run."""
        return self.root / "work" / ("trials" if unit.trial else "units") / unit.name

    def trials(self) -> list[Unit]:
        """Every trial; those of one learning rate after one another, so that partial results are comparable.

        With a single learning rate there is nothing to try.
        """
        tuning = self.config.tuning
        if len(tuning.lrs) == 1:
            return []
        return [Unit(s, arm, tuning.seed, lr, True) for lr in tuning.lrs for s in self.config.settings for arm in self.trained]

    def units(self, lrs: dict[str, dict[str, float]]) -> list[Unit]:
        """Every unit, seed by seed. ``lrs``: chosen learning rates by setting and arm."""
        return [
            Unit(setting, arm, seed, lrs[setting].get(arm, 0.0))
            for seed in self.config.seeds
            for setting in self.config.settings
            for arm in self.config.arms
        ]

    @property
    def trained(self) -> list[str]:
        """Arms that are trained."""
        return [name for name, arm in self.config.arms.items() if arm.trained]
