"""``sanderling data generate``: a teacher's trajectories over questions. Thin: `attempting` has the options and runs it.

Exit status: 0 when every attempt is made, 3 when a budget was spent or attempts met outages, 130 after Ctrl-C. The first Ctrl-C
stops the episodes under way and keeps their turns; a second one interrupts at once.
"""

from pathlib import Path
from typing import Annotated

import typer

from sanderling.cli.asking import Cache, MaxCost, MaxTokens
from sanderling.cli.attempting import (
    MODEL_HELP,
    AgentPrice,
    Attempting,
    Budget,
    Concurrency,
    Each,
    ProfileName,
    Seed,
    WorldDirectory,
    generated,
)
from sanderling.cli.backend import Place, ReaderUrl, SearchUrl, Web
from sanderling.cli.eval_progress import ShowProgress
from sanderling.cli.judges import JudgePrices, JudgeSpecs
from sanderling.cli.world_options import Faults as Dynamics
from sanderling.cli.world_options import Search, WorldSeed
from sanderling.world.dense.index import SearchMode


def generate_(
    questions: Annotated[Path, typer.Argument(metavar="QUESTIONS", help="A file of questions with their answers (.jsonl).")],
    out: Annotated[Path, typer.Option("--out", help="The store of trajectories (.jsonl); the same one goes on.")],
    model: Annotated[str, typer.Option("--model", help=f"The teacher: {MODEL_HELP}")],
    judges: JudgeSpecs,
    world: WorldDirectory = None,
    profile: ProfileName = "tiny",
    attempts: Each = 1,
    seed: Seed = 0,
    concurrency: Concurrency = 8,
    price: AgentPrice = None,
    judge_price: JudgePrices = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: Cache = None,
    dynamics: Dynamics = None,
    world_seed: WorldSeed = 0,
    mode: Search = SearchMode.LEXICAL,
    web: Web = False,
    search_url: SearchUrl = None,
    reader_url: ReaderUrl = None,
    progress: ShowProgress = True,
) -> None:
    """Let a teacher research questions, several times each, and keep every judged trajectory.

    Killed, stopped or out of budget, the same command goes on and repeats nothing, unfinished episodes included.
    """
    place = Place(world, web, search_url, reader_url, dynamics, world_seed, mode)
    budget = Budget(price, judge_price, max_tokens, max_cost, cache)
    attempting = Attempting(out, model, judges, place, profile, attempts, concurrency, budget, progress=progress)
    generated(attempting, questions, seed)
