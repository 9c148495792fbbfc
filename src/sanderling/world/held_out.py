"""Which recorded trajectories a world is built from, and which are held out of it; written down in the world's directory.

The side of a trajectory depends on its question, the seed and the share alone (SHA-256), so it is the same on every machine and
in any order, a larger share holds out what a smaller one does and more, and attempts at one question are never on both sides.
Held out by trajectory, the observations stand for the question: other attempts at a held-out question may then be built in,
which tells how a world serves questions it was made for. The world remembers digests of what went in: of the observations (a
renamed file is known all the same), of the questions and of the queries; no text.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.observations import unwrap
from sanderling.core.record import NodeKind, Trajectory
from sanderling.runs.files import replace_file
from sanderling.world.fidelity import RecordedSearch, recorded_calls

FILE_NAME = "built_from.json"


class Unit(StrEnum):
    """What is held out as a whole."""

    QUESTION = "question"
    """Every attempt at it: nothing of the question was built in."""
    TRAJECTORY = "trajectory"
    """One attempt: others at the same question may be built in."""


class BuiltFrom(Frozen):
    """What a recorded world was built from: digests only."""

    share: float
    """Share of the units that was to be held out."""
    unit: Unit
    seed: int
    trajectories: frozenset[str]
    """Digests of the observations of those built in."""
    questions: frozenset[str]
    queries: frozenset[str]
    held_out: int
    """How many trajectories were held out."""


@dataclass(frozen=True)
class Sides:
    """Trajectories sorted by what a world knows of them."""

    unseen: tuple[Trajectory, ...]
    """Not built in; where whole questions were held out, not of a question that was either."""
    built_in: tuple[Trajectory, ...]
    same_question: tuple[Trajectory, ...]
    """Not built in, but of a question that was, where whole questions were held out: left out of both figures."""


def place_of(key: str, seed: int) -> float:
    """Where a unit stands in [0, 1), evenly spread over units: SHA-256 of the seed and the key, case and spaces aside."""
    digest = hashlib.sha256(f"{seed}\0{_plain(key)}".encode("utf-8", "replace")).digest()
    return (int.from_bytes(digest[:8]) >> 11) / 2**53


def key_of(trajectory: Trajectory, unit: Unit) -> str:
    """What decides a trajectory's side: its question's text, or the digest of its observations."""
    return _question(trajectory) if unit is Unit.QUESTION else _content(trajectory)


def is_held_out(key: str, share: float, seed: int) -> bool:
    """Whether a unit is held out: those that stand below the share. Raises UserError for a share outside [0, 1)."""
    if not 0.0 <= share < 1.0:
        raise UserError(f"A share of {share:g} cannot be held out: give one from 0 to below 1, such as 0.2.")
    return place_of(key, seed) < share


def split(
    trajectories: Iterable[Trajectory], share: float, seed: int, unit: Unit = Unit.QUESTION
) -> tuple[list[Trajectory], list[Trajectory]]:
    """Those to build from and those held out, each in order. Raises UserError as `is_held_out`, or when none is left."""
    built: list[Trajectory] = []
    held: list[Trajectory] = []
    for trajectory in trajectories:
        (held if is_held_out(key_of(trajectory, unit), share, seed) else built).append(trajectory)
    if held and not built:
        raise UserError(f"Holding out a share of {share:g} leaves no trajectory to build from: hold out less.")
    return built, held


def built_from(
    built: Sequence[Trajectory], held: Sequence[Trajectory], share: float, seed: int, unit: Unit = Unit.QUESTION
) -> BuiltFrom:
    """What the world will remember."""
    return BuiltFrom(
        share=share,
        unit=unit,
        seed=seed,
        trajectories=frozenset(map(_content, built)),
        questions=frozenset(_digest(_plain(_question(trajectory))) for trajectory in built),
        queries=frozenset(_digest(_plain(search.query)) for search in recorded_calls(built).searches),
        held_out=len(held),
    )


def joined(memories: Sequence[BuiltFrom]) -> BuiltFrom:
    """The memory of a world that came together from several, one at least; share, unit and seed are those of the first."""
    first = memories[0]
    return first.model_copy(
        update={
            name: frozenset[str]().union(*(getattr(known, name) for known in memories))
            for name in ("trajectories", "questions", "queries")
        }
    )


def sides(trajectories: Iterable[Trajectory], known: BuiltFrom) -> Sides:
    """Sort trajectories by whether a world was built from them."""
    found: tuple[list[Trajectory], ...] = ([], [], [])
    for trajectory in trajectories:
        built_in = _content(trajectory) in known.trajectories
        shared = known.unit is Unit.QUESTION and _digest(_plain(_question(trajectory))) in known.questions
        found[1 if built_in else 2 if shared else 0].append(trajectory)
    return Sides(*map(tuple, found))


def was_asked(search: RecordedSearch, known: BuiltFrom) -> bool:
    """Whether the very query was also made by a trajectory that was built in."""
    return _digest(_plain(search.query)) in known.queries


def write_built_from(directory: Path, known: BuiltFrom) -> None:
    """Write the memory of a world. Raises OSError."""
    data = known.model_dump(mode="json")
    listed = {name: sorted(value) if isinstance(value, list) else value for name, value in data.items()}
    replace_file(directory / FILE_NAME, json.dumps(listed, indent=1) + "\n")


def read_built_from(directory: Path) -> BuiltFrom | None:
    """The memory of a world, or None where there is none. Raises UserError when it is damaged."""
    try:
        return BuiltFrom.model_validate_json((directory / FILE_NAME).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise UserError(f"{directory / FILE_NAME} cannot be read: build the recorded world again.") from error


def _question(trajectory: Trajectory) -> str:
    return trajectory.question.text or trajectory.question.id


def _content(trajectory: Trajectory) -> str:
    """Digest of what the tools said; of the id where they said nothing."""
    said = [unwrap(node.text) for node in trajectory.nodes if node.kind is NodeKind.OBSERVATION]
    return _digest("\0".join(said) if said else f"id\0{trajectory.id}")


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
