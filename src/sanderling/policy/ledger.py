"""What models have cost, and a limit on it that holds while calls are under way and after a kill.

Before a call its maker holds what the call may cost at most; a hold that could lead past the limit is refused. When the reply
has come, what it did cost takes the hold's place. In the log a hold stands before its call begins: what a killed process had
under way counts in full ever after, since a server may have billed it. A call that failed counts nothing, since no server said
what it billed for it. One ledger is shared by all models of a run, within one process. Knows no model.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from sanderling.core.asking import BudgetSpentError
from sanderling.core.errors import UserError

_MILLION = 1_000_000
_ROUNDING = 1e-9
"""Sums of prices may differ by this much and still be equal."""


class Log(Protocol):
    """An append-only log of JSON objects that outlives the process."""

    def append(self, record: dict[str, Any]) -> None: ...

    def __iter__(self) -> Iterator[dict[str, Any]]: ...


@dataclass(frozen=True)
class Prices:
    """What a model costs, per million tokens, in whatever currency the limit is in."""

    prompt: float = 0.0
    sampled: float = 0.0

    def of(self, prompt_tokens: int, sampled_tokens: int) -> float:
        """The cost of a call."""
        return (prompt_tokens * self.prompt + sampled_tokens * self.sampled) / _MILLION


@dataclass(frozen=True)
class Limits:
    """Most that may be spent, by all runs of one ledger together; None: no limit."""

    tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True)
class Spent:
    """Tokens and money."""

    tokens: int = 0
    cost: float = 0.0
    calls: int = 0
    estimated: int = 0
    """Calls among them whose tokens no server told: they count with the most that they may have taken."""

    def __add__(self, other: "Spent") -> "Spent":
        calls, estimated = self.calls + other.calls, self.estimated + other.estimated
        return Spent(self.tokens + other.tokens, self.cost + other.cost, calls, estimated)

    def __sub__(self, other: "Spent") -> "Spent":
        calls, estimated = self.calls - other.calls, self.estimated - other.estimated
        return Spent(self.tokens - other.tokens, self.cost - other.cost, calls, estimated)


class Ledger:
    """The account of a run.

    Example: ``hold = ledger.hold(900, 0.0); ...; hold.settle(412, 0.0)``
    """

    def __init__(self, limits: Limits = Limits(), log: Log | None = None) -> None:
        """Read what earlier runs spent. Raises UserError for a log of something else."""
        self._limits = limits
        self._log = log
        self._spent = Spent()
        self._under_way: dict[int, Spent] = {}
        self._next = 0
        if log is not None:
            self._read(log)
        self.earlier = self._spent
        """What earlier runs spent, what they had under way when they were killed included."""

    @property
    def spent(self) -> Spent:
        """By all runs, without what is under way."""
        return self._spent

    def hold(self, tokens: int, cost: float) -> "Hold":
        """Reserve what a call may cost at most. Raises BudgetSpentError when it could lead past a limit."""
        wanted = Spent(tokens, cost, 1)
        held = sum(self._under_way.values(), self._spent)
        _check("tokens", held.tokens, tokens, self._limits.tokens)
        _check("money", held.cost, cost, self._limits.cost, slack=_ROUNDING)
        number, self._next = self._next, self._next + 1
        if self._log is not None:
            self._log.append({"hold": number, "tokens": tokens, "cost": cost})
        self._under_way[number] = wanted
        return Hold(self, number)

    def end(self, number: int, found: Spent) -> None:
        """Put what a call did cost in the place of its hold; ending it twice is allowed, and the first time counts."""
        if self._under_way.pop(number, None) is not None:
            self._spent += found
            if self._log is not None:
                marked = {"estimated": True} if found.estimated else {}
                self._log.append({"ended": number, "tokens": found.tokens, "cost": found.cost, **marked})

    def _read(self, log: Log) -> None:
        held: dict[int, Spent] = {}
        try:
            for line in log:
                found = Spent(int(line["tokens"]), float(line["cost"]), 1, int(line.get("estimated", False)))
                if "hold" in line:
                    held[line["hold"]] = found
                    self._next = max(self._next, line["hold"] + 1)
                else:
                    del held[line["ended"]]
                    self._spent += found
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                "The account of what was spent is damaged: restore it, or move it away to begin a new one."
            ) from error
        self._spent = sum(held.values(), self._spent)


class Hold:
    """A call under way."""

    def __init__(self, ledger: Ledger, number: int) -> None:
        self._ledger = ledger
        self._number = number

    def settle(self, tokens: int, cost: float, *, is_estimated: bool = False) -> None:
        """The call has come to its end, and cost this; ``is_estimated``: at most, since the server did not say."""
        self._ledger.end(self._number, Spent(tokens, cost, 1, int(is_estimated)))

    def release(self) -> None:
        """The call failed, and nobody said that it cost anything."""
        self._ledger.end(self._number, Spent())


def _check(what: str, held: float, wanted: float, limit: float | None, slack: float = 0.0) -> None:
    if limit is not None and held + wanted > limit + slack:
        raise BudgetSpentError(
            f"The limit of {limit:,} ({what}) is reached: {held:,.10g} are spent or under way, "
            f"and the next call may take {wanted:,.10g}."
        )
