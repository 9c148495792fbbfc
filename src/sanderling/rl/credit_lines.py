"""What each turn of a step was credited with, for a person to read: a line for each rollout of the groups that were used.

A step that is made again after a kill writes the same file again. What a line holds says `data.show.CreditLine`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from sanderling.data.show import CreditLine, CreditParts
from sanderling.rl.credit.groups import Components
from sanderling.rl.credit.table import Graded, TurnTable
from sanderling.rl.sifting import Sifted
from sanderling.runs.files import replace_file

_DIGITS = 6


def credit_lines(
    sifted: Sequence[Sifted], batch: Sequence[Graded], table: TurnTable, parts: Components, version: int
) -> Iterator[CreditLine]:
    """Lines, in the order of the rollouts. ``sifted`` and ``batch`` are parallel, ``table`` and ``parts`` are of the batch.

    ``version``: updates behind the weights that gains were measured under.
    """
    for number, (one, graded) in enumerate(zip(sifted, batch, strict=True)):
        own = np.flatnonzero(table.trajectory == number)
        yield CreditLine(
            id=graded.trajectory.id,
            question=graded.trajectory.question.id,
            group=one.group,
            outcome=graded.outcome,
            left_out=one.left_out,
            tools=tuple(map(str, table.tool[own])),
            gains=tuple(float(table.gain[turn]) if table.gain_scored[turn] else None for turn in own),
            malformed=tuple(map(bool, table.penalty[own] < 0)),
            capped=tuple(map(bool, table.capped[own])),
            credit=CreditParts(
                outcome=_rounded(parts.outcome[own]), gain=_rounded(parts.gain[own]), penalty=_rounded(parts.penalty[own])
            ),
            version=version,
        )


def write_credit(path: Path, lines: Sequence[CreditLine]) -> None:
    """Put the file there, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, "".join(line.model_dump_json() + "\n" for line in lines))


def _rounded(values: np.ndarray) -> tuple[float, ...]:
    return tuple(round(float(value), _DIGITS) for value in values)
