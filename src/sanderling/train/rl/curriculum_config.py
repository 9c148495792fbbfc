"""Which questions a run asks, and when it stops asking one, as data: importable without torch."""

from pydantic import BaseModel, ConfigDict, Field


class CurriculumConfig(BaseModel):
    """Online difficulty: what the run itself sees of its questions. Off by default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    retire_after: int = Field(default=0, ge=0)
    """Visits in a row at which every scored rollout was right (its outcome above 1/2), after which a question is mastered; 0:
    never."""
    rest_after: int = Field(default=0, ge=0)
    """Visits in a row at which none was right, after which a question rests; 0: never."""
    rest: int = Field(default=1, ge=1)
    """Passes that a resting question sits out: so many times as many groups as there are questions."""
    least_open: int = Field(default=1, ge=1)
    """Questions that are asked at least: with fewer left, mastered ones come back, the longest retired first; then resting
    ones."""
