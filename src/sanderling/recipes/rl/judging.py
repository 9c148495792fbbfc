"""Who scores rollouts: the judges of the settings, opened in the process that asks them.

Rules and models in order, as ``--judge`` names them everywhere; models stand in for one another. A verdict is asked for once: a
book on disk remembers it, beside a ledger of what models took. Knows no training.
"""

import warnings
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from sanderling.core.asking import ModelClient
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.evaluate.judging import PATIENT, verdict_on
from sanderling.judge.book import CachedJudge, VerdictBook
from sanderling.judge.model import judge_named
from sanderling.judge.prompts import DEFAULT_PROMPT, PROMPTS
from sanderling.judge.rules import answer_tokens, rule_judge
from sanderling.judge.verdict import Code, Judge
from sanderling.policy.budget import Ledger
from sanderling.policy.contract import PolicyOutageError
from sanderling.policy.load import check_model, close_policy, is_endpoint, models_at, names_model, open_policy, place_of
from sanderling.policy.request_client import RequestClient
from sanderling.recipes.rl.seldom import Seldom
from sanderling.rl.config import RlConfig
from sanderling.rl.contract import Score, ScorerAwayError
from sanderling.runs.run import Run

_AWAY = frozenset({Code.OUTAGE, Code.BUDGET})


def check_judges(specs: Sequence[str]) -> None:
    """Raises UserError now for what could not be opened later."""
    for spec in specs:
        if not names_model(spec):
            rule_judge(spec, models="or http://host:port/v1#model")
        elif is_endpoint(spec):
            check_model(spec)
        else:
            raise UserError(f"{spec!r} is no rule and no address: a judging model is asked at http://host:port/v1#model.")


async def check_there(specs: Sequence[str]) -> None:
    """Raises UserError where a judge's server serves other models; one that does not answer is warned of: it is waited for."""
    for spec in filter(names_model, specs):
        name = spec.partition("#")[2]
        try:
            served = await models_at(spec)
        except PolicyOutageError as error:
            reason = str(error).removesuffix(".")
            warnings.warn(f"The judge {name} does not answer yet ({reason}): finished rollouts will wait for it.", stacklevel=2)
            continue
        if served and name not in served:
            raise UserError(f"{place_of(spec)} serves {', '.join(served)} and no {name!r}: name one of them with --judge.")


def check_answers(judges: Sequence[str], questions: Iterable[Question]) -> None:
    """Raises UserError where rules alone judge, and an accepted answer has nothing that they compare."""
    if any(map(names_model, judges)):
        return
    for question in questions:
        for answer in question.answers:
            if answer.strip() and not answer_tokens(answer):
                raise UserError(
                    f"Question {question.id!r} accepts {answer!r}, in which a rule finds no word, so no answer would be right: "
                    "mend it, leave the question out, or add a --judge that reads."
                )


def check_rule(judges: Sequence[str], outcome: str) -> None:
    """Raises UserError where a rule is named beside judges, who would be asked in its place."""
    if judges and outcome != RlConfig().outcome:
        raise UserError(
            f"The judges ({', '.join(judges)}) would be asked, and the rule rl.outcome={outcome} be ignored: to score by that "
            "rule leave --judge out, and where the recipe names judges add --set 'judges=[]'; else leave rl.outcome alone."
        )


@asynccontextmanager
async def opened_judge(specs: Sequence[str], directory: Path, concurrency: int, rank: int = 0) -> AsyncIterator[Judge | None]:
    """The judges in their order as one, None for nobody; verdicts and spending are kept in the run of a directory."""
    if not specs:
        yield None
        return
    async with AsyncExitStack() as stack:
        clients: list[ModelClient] = []
        run = stack.enter_context(Run(directory, rank=rank, locked=True))
        ledger = Ledger(kept=run.table("spent"))
        for spec in filter(names_model, specs):
            policy = open_policy(spec, on_retry=Seldom())
            stack.push_async_callback(close_policy, policy)
            clients.append(RequestClient(policy, ledger=ledger, concurrency=concurrency, place=place_of(spec)))
        judge = judge_named(specs, clients, PROMPTS[DEFAULT_PROMPT], names_model)
        yield judge and CachedJudge(judge, VerdictBook(run.table("verdicts")))


def score_by(judge: Judge) -> Score:
    """A rollout's outcome by a judge: 1 right, 0 wrong, None unscored; asked again while that may help.

    Raises ScorerAwayError when the judge was not reached.
    """

    async def score(trajectory: Trajectory) -> float | None:
        verdict = await verdict_on(trajectory, judge, PATIENT)
        if verdict.code in _AWAY:
            raise ScorerAwayError(verdict.reason)
        return None if verdict.correct is None else float(verdict.correct)

    return score
