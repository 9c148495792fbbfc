"""Which requests of the scorer stand in one line: those of a family, as far as a line may be long.

Rollouts of one question begin alike, and some are the same token for token; together they cost what is distinct in them. Knows
no model.
"""

from collections.abc import Sequence

from sanderling.train.prefixes import neighbours
from sanderling.train.row_source import grouped
from sanderling.train.scorer_layout import Asked, Line, lay_out_requests


def lines_of(several: Sequence[Asked], budget: int) -> list[tuple[list[int], Line]]:
    """Requests (by index) that stand in one line, and the line; deterministic.

    Only those of one family and temperature are put together, and only while their line takes at most ``budget`` tokens; a
    longer request is alone. Requests that ask for nothing are in none.
    """
    asking = [index for index, one in enumerate(several) if one.request.cuts or any(row.loss_mask.any() for row in one.rows)]
    kinds = [(several[index].request.family, several[index].request.temperature) for index in asking]
    main = [one.branches[0] for one in several]
    found: list[tuple[list[int], Line]] = []
    for members in grouped([f"{temperature} {family}" if family else "" for family, temperature in kinds]):
        left = neighbours(main, [asking[place] for place in members])
        while left:
            count, line = _most([several[index] for index in left], budget)
            found.append((left[:count], line))
            left = left[count:]
    return found


def _most(several: Sequence[Asked], budget: int) -> tuple[int, Line]:
    """How many, of the first, stand in a line of at most ``budget`` tokens, but one at least; and that line."""
    long = (number for number, one in enumerate(several) if one.longest > budget)
    beyond = max(1, next(long, len(several)))
    fits, line = beyond, lay_out_requests(several[:beyond])
    if beyond == 1 or len(line.ids) <= budget:
        return fits, line
    fits, line = 1, lay_out_requests(several[:1])
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        longer = lay_out_requests(several[:middle])
        if len(longer.ids) <= budget:
            fits, line = middle, longer
        else:
            beyond = middle
    return fits, line
