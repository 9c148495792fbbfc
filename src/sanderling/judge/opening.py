"""Who judges: the one section of settings from which every stage opens its judges.

async with opened_judges(JudgeConfig(judges=("exact", "http://host:8000/v1#model")), spending) as (judge, second):
    verdict = await rule_on(trajectory, judge)
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.judge.rules import rule_judge
from sanderling.judge.verdict import Judge, in_order
from sanderling.policy.budget import Spending
from sanderling.policy.load import names_model


class JudgeConfig(Frozen):
    """Who judges, how models among them are asked, and what they cost."""

    judges: tuple[str, ...] = ()
    """Rules by name (``exact``, ``f1:0.8``), ``file.py:name``, and models as ``http://host:port/v1#model`` or a directory, in
    order: the first that finds an answer right settles it; models stand in for one another."""
    second: tuple[str, ...] = ()
    """Who judges too, and decides nothing: ``eval agree`` compares."""
    prompt: str = ""
    """How a judging model is asked; empty: as the benchmark's publisher does, else by the default prompt."""
    prices: tuple[str, ...] = ()
    """What the judging models cost per million tokens, as ``0.15,0.60``: one for all, or one for each in their order."""


@asynccontextmanager
async def opened_judges(
    config: JudgeConfig,
    spending: Spending,
    *,
    prompt: str = "",
    concurrency: int = 8,
    on_retry: Callable[[str], None] | None = None,
) -> AsyncIterator[tuple[Judge | None, Judge | None]]:
    """The judge that decides and one to compare with, None for nobody: rules first come first served, all models as one judge.

    ``prompt``: how a model is asked where the settings leave it open; empty: by the default prompt. ``spending``: the run's
    account, from which models are paid. Raises UserError.
    """
    if config.second and config.second == config.judges:
        raise UserError("The second judge is the first one: name another with --second-judge.")
    models = [spec for spec in (*config.judges, *config.second) if names_model(spec)]
    if not models and not config.prompt:  # rules need neither prompts nor connections
        spending.prices(config.prices, 0)
        yield _rules(config.judges), _rules(config.second)
        return
    from sanderling.judge.model import judge_named
    from sanderling.judge.prompts import DEFAULT_PROMPT, get_prompt
    from sanderling.policy.request_client import opened_clients

    asked = get_prompt(config.prompt or prompt or DEFAULT_PROMPT)
    if config.prompt not in ("", DEFAULT_PROMPT) and not models:
        raise UserError(
            f"The judge prompt {config.prompt} is for a judging model, and none is named: add --judge http://host:port/v1#model."
        )
    opening = opened_clients(models, config.prices, spending, concurrency=concurrency, on_retry=on_retry)
    async with opening as clients:
        first = len([spec for spec in config.judges if names_model(spec)])
        yield (
            judge_named(config.judges, clients[:first], asked, names_model),
            judge_named(config.second, clients[first:], asked, names_model),
        )


def _rules(specs: Sequence[str]) -> Judge | None:
    """Rules as one judge, each once; None where nobody is named."""
    return in_order([rule_judge(spec) for spec in dict.fromkeys(specs)]) if specs else None
