"""A cleaning recipe: steps in their order, and the settings of each. Data, read from TOML, refusing unknown keys."""

from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from sanderling.data.cleaning.steps.artefacts import ArtefactsSettings
from sanderling.data.cleaning.steps.forbidden import ForbiddenSettings
from sanderling.data.cleaning.steps.length import LengthSettings
from sanderling.data.cleaning.steps.malformed import MalformedSettings
from sanderling.data.cleaning.steps.min_calls import MinCallsSettings
from sanderling.data.cleaning.steps.names import NamesSettings
from sanderling.data.cleaning.steps.normalise import NormaliseSettings
from sanderling.data.cleaning.steps.prune import PruneSettings
from sanderling.data.cleaning.steps.reasoning import ReasoningSettings
from sanderling.data.cleaning.steps.repeat_limit import RepeatLimitSettings
from sanderling.data.cleaning.steps.repeats import RepeatsSettings
from sanderling.data.cleaning.steps.results import ResultsSettings
from sanderling.data.cleaning.steps.short_answer import ShortAnswerSettings
from sanderling.data.cleaning.steps.tool_errors import ToolErrorsSettings


class StepName(StrEnum):
    """The steps there are; those with settings are sections of a recipe."""

    WHOLE = "whole"
    FORBIDDEN = "forbidden"
    TRUNCATE = "truncate"
    NORMALISE = "normalise"
    NAMES = "names"
    RESULTS = "results"
    PRUNE = "prune"
    REPEATS = "repeats"
    MALFORMED = "malformed"
    REPEAT_LIMIT = "repeat_limit"
    MIN_CALLS = "min_calls"
    TOOL_ERRORS = "tool_errors"
    ARTEFACTS = "artefacts"
    REASONING = "reasoning"
    SHORT_ANSWER = "short_answer"
    LENGTH = "length"
    IDS = "ids"
    VALIDATE = "validate"


class CleaningRecipe(BaseModel):
    """What is done, in which order, and how.

    Example: ``CleaningRecipe(steps=(StepName.NORMALISE, StepName.VALIDATE))``
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: tuple[StepName, ...]
    """In this order, each once at most."""
    profile: str = "dr-venus-4b"
    """What is cleaned for, where nothing else is asked for."""
    forbidden: ForbiddenSettings = ForbiddenSettings()
    normalise: NormaliseSettings = NormaliseSettings()
    names: NamesSettings = NamesSettings()
    results: ResultsSettings = ResultsSettings()
    prune: PruneSettings = PruneSettings()
    repeats: RepeatsSettings = RepeatsSettings()
    malformed: MalformedSettings = MalformedSettings()
    repeat_limit: RepeatLimitSettings = RepeatLimitSettings()
    min_calls: MinCallsSettings = MinCallsSettings()
    tool_errors: ToolErrorsSettings = ToolErrorsSettings()
    artefacts: ArtefactsSettings = ArtefactsSettings()
    reasoning: ReasoningSettings = ReasoningSettings()
    short_answer: ShortAnswerSettings = ShortAnswerSettings()
    length: LengthSettings = LengthSettings()

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        twice = [step.value for step in StepName if self.steps.count(step) > 1]
        if twice:
            raise ValueError(f"the step {twice[0]} is named twice: a second time would change nothing")
        return self
