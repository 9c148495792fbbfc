"""What each turn of a step was credited with, for a person to read: a line for each rollout of the groups that were used.

Lists run over the rollout's turns. ``gains`` are as they were measured (null: none was scored there); ``credit`` holds the
parts of the advantages as the estimator combined them, whose sum is what the turn's tokens were trained with. A step that
is made again after a kill writes the same file again. Nothing reads these files but people.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sanderling.files import replace_file
from sanderling.train.contract import TurnTable
from sanderling.train.estimators.groups import Components
from sanderling.train.rl.sifting import Sifted
from sanderling.train.turn_table import Graded

_DIGITS = 6


def credit_lines(
    sifted: Sequence[Sifted], batch: Sequence[Graded], table: TurnTable, parts: Components
) -> Iterator[dict[str, Any]]:
    """Lines, in the order of the rollouts. ``sifted`` and ``batch`` are parallel, ``table`` and ``parts`` are of the batch."""
    for number, (one, graded) in enumerate(zip(sifted, batch, strict=True)):
        own = np.flatnonzero(table.trajectory == number)
        yield {
            "id": graded.trajectory.id,
            "question": graded.trajectory.question.id,
            "group": one.group,
            "outcome": graded.outcome,
            "left_out": one.left_out,
            "tools": [str(tool) for tool in table.tool[own]],
            "gains": [float(table.gain[turn]) if table.gain_scored[turn] else None for turn in own],
            "malformed": [bool(value) for value in table.penalty[own] < 0],
            "capped": [bool(value) for value in table.capped[own]],
            "credit": {name: _rounded(getattr(parts, name)[own]) for name in ("outcome", "gain", "penalty")},
        }


def write_credit(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Put the file there, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, "".join(json.dumps(line) + "\n" for line in lines))


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(value), _DIGITS) for value in values]
