"""Who judges: the one section of settings from which every stage opens its judges.

async with opened_judges(JudgeConfig(judges=("exact", "http://host:8000/v1#model")), spending) as (judge, second):
    verdict = await rule_on(trajectory, judge)
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError, check_all
from sanderling.core.types import ModelClient
from sanderling.judge.rules import rule_judge
from sanderling.judge.verdict import Judge, in_order
from sanderling.policy.budget import Spending
from sanderling.policy.load import check_model, names_model


class JudgeConfig(Frozen):
    """Who judges, how models among them are asked, and what they cost."""

    judges: tuple[str, ...] = ()
    """Rules by name (``exact``, ``f1:0.8``), ``file.py:name``, and models as ``http://host:port/v1#model`` or a directory, in
    order: the first that finds an answer right decides; of several models, the next is asked when one is down."""
    second: tuple[str, ...] = ()
    """A second opinion for ``eval agree``, which decides nothing."""
    prompt: str = ""
    """Prompt of judging models; empty: the benchmark publisher's, else the default."""
    prices: tuple[str, ...] = ()
    """Prices of judging models per million tokens, as ``0.15,0.60``: one for all, or one for each in their order."""


def check_judges(config: JudgeConfig) -> None:
    """Raises UserError for a judge or judge prompt that is none, before anything is opened."""
    if config.second and config.second == config.judges:
        raise UserError("The second judge is the first one: name another with --second-judge.")
    models = [spec for spec in (*config.judges, *config.second) if names_model(spec)]
    check_all(*(partial(check_model if spec in models else rule_judge, spec) for spec in (*config.judges, *config.second)))
    if config.prompt:
        from sanderling.judge.prompts import DEFAULT_PROMPT, get_prompt

        get_prompt(config.prompt)
        if config.prompt != DEFAULT_PROMPT and not models:
            raise UserError(
                f"--form {config.prompt} is for a judging model, and none is named: add --judge http://host:port/v1#model."
            )


@asynccontextmanager
async def opened_judges(
    config: JudgeConfig, spending: Spending, *, prompt: str = "", concurrency: int = 8
) -> AsyncIterator[tuple[Judge | None, Judge | None]]:
    """The judge that decides and one to compare with, None for nobody: several are asked in order, all models as one judge.

    ``prompt``: how a model is asked where the settings leave it open; empty: by the default prompt. ``spending``: the run's
    account, from which models are paid. Raises UserError.
    """
    check_judges(config)
    models = [spec for spec in (*config.judges, *config.second) if names_model(spec)]
    if not models:
        yield _judge(config.judges, (), ""), _judge(config.second, (), "")
        return
    from sanderling.policy.clients import opened_clients

    asked = config.prompt or prompt
    async with opened_clients(models, config.prices, spending, concurrency=concurrency) as clients:
        first = len([spec for spec in config.judges if names_model(spec)])
        yield _judge(config.judges, clients[:first], asked), _judge(config.second, clients[first:], asked)


@contextmanager
def judging(config: JudgeConfig, spending: Spending, concurrency: int) -> Iterator[tuple[Judge, asyncio.Runner]]:
    """The judges as one, and the loop that their connections belong to. Raises UserError where nobody is named."""
    with asyncio.Runner() as runner:
        opening = opened_judges(config, spending, concurrency=concurrency)
        judge, _ = runner.run(opening.__aenter__())
        try:
            if judge is None:
                raise UserError("Nobody judges: name one with --judge.")
            yield judge, runner
        finally:
            runner.run(opening.__aexit__(None, None, None))


def _judge(specs: Sequence[str], clients: Sequence[ModelClient], prompt: str) -> Judge | None:
    """Judges as one, each once; all models (with their ``clients``) are one judge, where the first of them stands."""
    judges: dict[str | None, Judge] = {}  # models under None
    for spec in specs:
        key = None if names_model(spec) else spec
        if key is not None:
            judges.setdefault(key, rule_judge(key))
        elif None not in judges:
            from sanderling.judge.prompts import DEFAULT_PROMPT, ModelJudge, get_prompt

            judges[None] = ModelJudge(clients, get_prompt(prompt or DEFAULT_PROMPT))
    return in_order(list(judges.values())) if judges else None
