"""Options of every command that asks models: prices, limits, a cache. Thin; the ledger and the clients do the work."""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from sanderling.cli.watch import show_retry
from sanderling.core.errors import UserError
from sanderling.policy.budget import Ledger, Prices
from sanderling.runs.run import Run

if TYPE_CHECKING:
    from sanderling.policy.contract import Policy
    from sanderling.policy.request_client import RequestClient

MaxTokens = Annotated[
    int | None,
    typer.Option("--max-tokens-total", min=1, help="Most tokens, prompts included, that all runs of this command may take."),
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0.0, help="Most money that all runs of this command may spend; needs prices.")
]
Cache = Annotated[
    Path | None, typer.Option("--cache", help="Where models' replies are kept; in the user's cache directory by default.")
]
PRICE_HELP = "per million tokens, as PROMPT,SAMPLED; several in the order of the models, one for all of them."


@dataclass
class Spending:
    """What may be spent, and in which run it is written down."""

    run: Path
    """The run's directory."""
    max_tokens: int | None = None
    max_cost: float | None = None
    cache: Path | None = None
    private: bool = False
    """Replies are kept for their owner alone."""
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(tokens=self.max_tokens, cost=self.max_cost)

    @property
    def cache_directory(self) -> Path:
        home = os.environ.get("XDG_CACHE_HOME")
        return self.cache or (Path(home) if home else Path.home() / ".cache") / "sanderling" / "replies"

    def prices(self, texts: Sequence[str], models: int) -> list[Prices]:
        """A price for each model; a limit of money is none without them. Raises UserError."""
        return read_prices(texts, models, self.max_cost)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Open the account, and keep other processes from it: each would count without the other. Raises UserError."""
        with Run(self.run, private=self.private) as run:
            self.ledger.keep_in(run.table("spent"))
            yield


def read_prices(texts: Sequence[str], models: int, max_cost: float | None) -> list[Prices]:
    """A price for each model; a limit of money is none without them. Raises UserError."""
    if max_cost is not None and models and not texts:
        raise UserError(
            "--max-cost needs the price of every model that is asked: give --price or --judge-price, 0,0 for a free one."
        )
    found = [_price(text) for text in texts]
    if not found:
        return [Prices()] * models
    if len(found) == 1:
        return found * models
    if len(found) != models:
        raise UserError(f"{len(found)} prices were given for {models} models: give one for all, or one for each.")
    return found


def _price(text: str) -> Prices:
    try:
        prompt, sampled = (float(part) for part in text.split(","))
    except ValueError:
        prompt = sampled = -1.0
    if not (0 <= prompt < 1e9 and 0 <= sampled < 1e9):
        raise UserError(f"{text!r} is no price: write what a million prompt and sampled tokens cost, for example 0.15,0.60.")
    return Prices(prompt, sampled)


@asynccontextmanager
async def opened_model_clients(
    specs: Sequence[str] | None,
    price: Sequence[str] | None,
    spending: Spending,
    *,
    concurrency: int,
    console: Console,
    on_retry: Callable[[str], None] | None = None,
) -> AsyncIterator[list["RequestClient"]]:
    """The models as clients on one ledger; at the end their connections are closed. Raises UserError.

    ``on_retry`` hears when a server is asked again; without it the console says so.
    """
    prices = spending.prices(price or [], len(specs or []))
    from sanderling.policy.load import close_policy, open_policy, place_of
    from sanderling.policy.request_client import ReplyCache, RequestClient

    if not specs:
        yield []
        return
    cache = ReplyCache(spending.cache_directory, private=spending.private)
    async with AsyncExitStack() as stack:
        stack.enter_context(spending.alone())
        policies: list[Policy] = []
        for spec in specs:
            policies.append(open_policy(spec, on_retry=on_retry or partial(show_retry, console)))
            stack.push_async_callback(close_policy, policies[-1])
        yield [
            RequestClient(
                policy,
                ledger=spending.ledger,
                prices=price,
                cache=cache,
                concurrency=concurrency,
                place=place_of(spec),
            )
            for spec, policy, price in zip(specs, policies, prices, strict=True)
        ]


def spent_line(spending: Spending) -> str:
    """One line on what models took."""
    here, all_runs = spending.ledger.here, spending.ledger.spent
    line = f"models: {here.calls:,} calls, {here.tokens:,} tokens, cost {here.cost:.4g}"
    if here.estimated:
        line += f" ({here.estimated:,} calls estimated at the most they may have taken: the server reports no usage)"
    return line if here == all_runs else f"{line}; with earlier runs {all_runs.tokens:,} tokens, cost {all_runs.cost:.4g}"
