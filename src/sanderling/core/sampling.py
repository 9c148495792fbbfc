"""How one turn is sampled, as data. Knows nothing of how a policy does it."""

from pydantic import BaseModel, ConfigDict, Field


class Sampling(BaseModel):
    """How to sample one turn. Log-probabilities are reported under exactly this distribution (after temperature and cuts)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float = Field(default=1.0, ge=0.0)
    """0 is greedy: log-probabilities are then those of temperature 1, and the record says temperature 0."""
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=0)
    """0: no cut."""
    presence_penalty: float = 0.0
    max_tokens: int = Field(default=1024, ge=1)
    """Most tokens in one turn."""
    stop: tuple[str, ...] = ()
    """Strings that end the turn besides the end token; text is cut before them."""
