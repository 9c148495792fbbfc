"""Sanderling for other programs: what ``from sanderling import …`` gives, without a command line (docs/contributing.md).

Everything here is a few lines over the rooms, and its settings are theirs. Functions are synchronous, in a notebook, too; where
others have to go on meanwhile, ``await agent.run(Question(id="q", text="…"))`` and `evaluate.run.evaluate_async` do the same.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sanderling.agent.agent import Agent
from sanderling.agent.loop import Event
from sanderling.agent.opening import AgentConfig, profile_of
from sanderling.core.config import check_config
from sanderling.core.errors import UserError
from sanderling.core.plugins import code_of, load_outside
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.policy.contract import Policy, ScriptedPolicy
from sanderling.policy.load import close_policy, names_model, open_policy, place_of
from sanderling.tools.contract import Tool
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import World
from sanderling.world.disk.store import open_as_met

if TYPE_CHECKING:
    from sanderling.evaluate.result import EvalResult
    from sanderling.judge.verdict import Judge
    from sanderling.rl.credit import Credit

T = TypeVar("T")


def open_world(source: str | Path, *, faults: str = "", seed: int = 0) -> World:
    """A world from a folder of documents, or of any source that ``world build`` takes; or one that was built before.

    A folder is read into memory. ``faults``: delays and failures by the name of their profile. Raises UserError.

    Example: ``open_world("notes/")``, ``open_world("worlds/wiki", faults="web")``, ``open_world("encyclopedia:200/7")``
    """
    if (Path(source) / "manifest.json").is_file():
        return open_as_met(Path(source), faults or None, seed)
    from sanderling.world.faults import FaultyWorld, get_faults
    from sanderling.world.local import LocalWorld
    from sanderling.world.sources.kinds import Gathering, open_source

    opened = open_source(source)
    found = LocalWorld.in_memory(Gathering([opened]).pages(), name=opened.name)
    return FaultyWorld(found, get_faults(faults), seed) if faults else found


def open_agent(
    model: str | Path | Policy | Callable[..., str],
    where: World | str | Path,
    *,
    tools: Iterable[Tool | str] = (),
    profile: str = "",
    max_turns: int | None = None,
    max_context: int | None = None,
    device: str = "cpu",
    dtype: str = "float32",
) -> Agent:
    """An agent of a model: a directory, an endpoint (``http://host:port/v1#model``), a policy, or a function that writes turns.

    ``where``: a world, or what `open_world` takes; faults are the world's: ``open_world("notes/", faults="web")``. ``tools``:
    further ones beside search and visit, also as ``file.py:name``. ``profile``: prompt, tools and budgets that the model was
    trained with; ``max_turns`` and ``max_context`` replace two of its budgets. ``device`` and ``dtype``: of a model's
    directory. Raises UserError.
    """
    named = str(model) if isinstance(model, str | Path) else ""
    budgets = {"max_turns": max_turns, "max_context": max_context}
    config = check_config(
        AgentConfig, {"model": named, "profile": profile, "device": device, "dtype": dtype, **budgets}, "this call"
    )
    if isinstance(model, str | Path):
        policy: Policy = open_policy(str(model), device=config.device, dtype=config.dtype)
    elif not isinstance(model, type) and (hasattr(model, "open") or callable(model)):
        policy = model if hasattr(model, "open") else ScriptedPolicy(model)  # pyright: ignore[reportAssignmentType, reportArgumentType]
    else:
        raise UserError(f"{model!r} is no model: give a directory, http://host:port/v1#model, a policy or a function.")
    place, spoken = where if isinstance(where, World) else open_world(where), profile_of(config)
    further = [tools] if isinstance(tools, str) else list(tools)
    found = {**world_tools(place, spoken), **{one.spec.name: one for one in map(_tool, further)}}
    code = code_of([named, *(one for one in further if isinstance(one, str))])
    made = Agent(policy, found, spoken, world=place.name, fingerprint=place.fingerprint, code=code)
    return replace(made, place=place_of(str(model))) if named else made


def _tool(one: Tool | str) -> Tool:
    found = load_outside(one, "tool", Tool) if isinstance(one, str) else one
    if not isinstance(found, Tool):
        raise UserError(f"{getattr(one, '__name__', one)} is no tool: put @tool above it (from sanderling import tool).")
    return found


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; where an event loop is running, as in a notebook, in a thread with a loop of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    under_way: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = []

    async def noted() -> T:
        under_way.append((asyncio.get_running_loop(), asyncio.current_task()))
        return await work

    with ThreadPoolExecutor(1) as threads:
        try:
            return threads.submit(asyncio.run, noted()).result()
        except BaseException:  # an interrupt ends the work as well
            for loop, task in under_way:
                with suppress(RuntimeError):  # it has ended
                    loop.call_soon_threadsafe(task.cancel)  # pyright: ignore[reportOptionalMemberAccess]
            raise


def ask(
    question: str | Question, agent: Agent, *, seed: int = 0, on_event: Callable[[Event], None] | None = None
) -> Trajectory:
    """Let an agent research one question; ``.answer`` is what it found out, None where it found nothing.

    ``on_event`` hears turns, calls and results as they come (`agent.loop`). Equal seeds give equal episodes.
    """
    asked = question if isinstance(question, Question) else Question(id="ask", text=question)

    async def run() -> Trajectory:
        try:
            return await agent.run(asked, Seeds(run=seed, episode=seed), on_event=on_event)
        finally:
            await close_policy(agent.policy)  # its connections belong to this loop; the next question opens new ones

    return _run(run())


def open_judge(by: "str | Callable[[str, str], float | bool]", prompt: str = "") -> "Judge":
    """A judge by the name of a rule, a model, or a function of an answer and an accepted one (1 or True: right).

    ``await rule_on(trajectory, open_judge("exact"))`` gives its verdict; ``prompt``: how a model is asked. Raises UserError.

    Example: ``open_judge("f1:0.8")``, ``open_judge("http://localhost:8000/v1#m", "hle")``, ``open_judge(lambda a, b: b in a)``
    """
    from sanderling.judge.rules import RuleJudge, rule_judge

    if not isinstance(by, str):
        return RuleJudge(getattr(by, "__name__", "function"), lambda answer, accepted: float(by(answer, accepted)))
    if not names_model(by):
        return rule_judge(by)
    from sanderling.judge.prompts import DEFAULT_PROMPT, ModelJudge, get_prompt
    from sanderling.policy.clients import RequestClient

    return ModelJudge([RequestClient(open_policy(by), place=place_of(by))], get_prompt(prompt or DEFAULT_PROMPT))


def evaluate_agent(
    agent: Agent,
    questions: "Sequence[Question] | str | Path",
    judge: "Judge | str | Callable[[str, str], float | bool]" = "exact",
    out: str | Path | None = None,
    **how: Any,
) -> "EvalResult":
    """An agent's figures on questions, or on a file of them, with their error bars; see `evaluate.run.evaluate_async`.

    ``out``: the directory of the run, with which a killed one goes on; None: nothing is kept. ``how``: ``attempts``, ``seed``,
    ``concurrency`` and others. Raises UserError.

    Example: ``evaluate_agent(agent, "questions.jsonl", "f1:0.8", "runs/mine", attempts=4).pass_at_k[4].interval``
    """
    from sanderling.evaluate.run import evaluate_async

    by = judge if isinstance(judge, str) or hasattr(judge, "places") else open_judge(judge)  # pyright: ignore[reportArgumentType]

    async def run() -> "EvalResult":
        try:
            return await evaluate_async(agent, questions, by, None if out is None else Path(out), **how)  # pyright: ignore[reportArgumentType]
        finally:
            await close_policy(agent.policy)

    return _run(run())


def open_estimator(kind: str, **settings: Any) -> "Credit":
    """A credit estimator by name (``grpo``, ``igpo``, …) or ``file.py:name``: a table of turns in, an advantage a turn out.

    Example: ``open_estimator("igpo", gamma=0.95)(table)``
    """
    from sanderling.core.config import Frozen
    from sanderling.rl.credit import EstimatorConfig, GrpoConfig, build_estimator

    class Section(Frozen):
        estimator: EstimatorConfig = GrpoConfig()

    return build_estimator(check_config(Section, {"estimator": {"kind": kind, **settings}}, "this call").estimator)


def train_sft(
    model: str | Path, data: Sequence[str | Path], out: str | Path, *, recipe: str = "lora-24gb", sets: Sequence[str] = ()
) -> Path:
    """Fine-tune a model on files of trajectories, as ``sanderling train sft`` does; its directory. Raises UserError.

    ``sets``: as ``--set``. If interrupted, make the same call again to resume.
    """
    from sanderling.core.errors import need

    need("train")
    from sanderling.recipes.find import find_settings
    from sanderling.train.config import SftConfig
    from sanderling.train.sft import Order, run_sft_command

    given = {"model": Path(model), "data.files": [Path(file) for file in data]}
    config = find_settings("sft", SftConfig, recipe, sets, given)
    run_sft_command(Order(config, Path(out)), _silent())
    return Path(out) / "model" if (Path(out) / "model").is_dir() else Path(out) / "adapter"


def train_rl(
    model: str | Path,
    questions: Sequence[str | Path],
    worlds: Sequence[str | Path],
    out: str | Path,
    *,
    recipe: str = "dr-venus-4b",
    sets: Sequence[str] = (),
) -> Path:
    """Train a model by reinforcement on files of questions over worlds, as ``sanderling train rl`` does; its directory.

    ``sets``: as ``--set``, such as ``rl.estimator.kind=mine.py:my_credit``. If interrupted, make the same
    call again to resume. Raises UserError.
    """
    from sanderling.core.errors import need

    need("train")
    from sanderling.recipes.find import find_rl_recipe
    from sanderling.rl.launch import Order, run_rl_command

    given = {
        "model": Path(model),
        "questions": tuple(Path(file) for file in questions),
        "worlds": tuple(Path(directory) for directory in worlds),
    }
    run_rl_command(Order(find_rl_recipe(recipe, sets, given), Path(out)), _silent())
    return Path(out) / "model"


def _silent() -> Any:
    from rich.console import Console

    from sanderling.runs.progress import Report

    return Report(Console(quiet=True))
