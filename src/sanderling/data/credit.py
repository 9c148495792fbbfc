"""What each turn of a rollout was credited with in a step of reinforcement learning, as a run writes it down for people.

Lists run over the rollout's turns. Knows no estimator; nothing but :mod:`sanderling.data.show` reads such files.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from sanderling.core.errors import UserError


class CreditParts(BaseModel):
    """The parts of each turn's advantage; their sum is what the turn's tokens were trained with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    outcome: tuple[float, ...]
    gain: tuple[float, ...]
    penalty: tuple[float, ...]

    def of(self, turn: int) -> float:
        """A turn's advantage."""
        return self.outcome[turn] + self.gain[turn] + self.penalty[turn]


class CreditLine(BaseModel):
    """One rollout."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """The trajectory's."""
    question: str
    group: int
    outcome: float | None
    """What counted in its group; None: nothing did."""
    left_out: str | None
    """Why it was not trained on."""
    tools: tuple[str, ...]
    gains: tuple[float | None, ...]
    """Information gain as it was measured; None: none was."""
    malformed: tuple[bool, ...]
    capped: tuple[bool, ...]
    """Turns that could get no positive credit."""
    credit: CreditParts
    version: int | None = None
    """Updates behind the weights that gains were measured under, the same for a whole group; older files do not say."""


def credit_of(path: Path, id: str) -> CreditLine:
    """The line of one trajectory. Raises UserError where the file cannot be read or has none."""
    try:
        lines = [CreditLine.model_validate_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise UserError(
            f"{path} is no file of credit: a run of train rl writes one for each step, in its directory credit/."
        ) from error
    for line in lines:
        if line.id == id:
            return line
    raise UserError(f"{path} says nothing of trajectory {id!r}: look in the file of the step that used its group.")


def told(line: CreditLine, turn: int) -> list[str]:
    """What is to be said of a turn (from 0), in a few words each."""
    facts = []
    if (gain := line.gains[turn]) is not None:
        facts.append(f"gain {gain:+.2f}")
    parts = {name: value[turn] for name, value in line.credit if value[turn]}
    split = ", ".join(f"{name} {value:+.2f}" for name, value in parts.items())
    facts.append(f"credit {line.credit.of(turn):+.2f}" + (f" ({split})" if len(parts) > 1 else ""))
    return facts + ["malformed"] * line.malformed[turn] + ["no positive credit"] * line.capped[turn]
