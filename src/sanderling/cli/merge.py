"""``sanderling merge``: several models into one, and which coefficients keep which skill. `sanderling.merge` does the work."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from sanderling.cli.asking import Cache, MaxCost, MaxTokens, Spending
from sanderling.cli.backend import Place
from sanderling.cli.judges import JudgePrices, opened_judge
from sanderling.cli.world_options import Faults, Search, WorldSeed
from sanderling.core.config import check_config
from sanderling.core.errors import UserError
from sanderling.core.profiles import PROFILES, Profile, get_profile
from sanderling.core.text import visible
from sanderling.core.types import SystemClock
from sanderling.data.questions import read_questions, require_distinct
from sanderling.evaluate.attempts import Progress
from sanderling.merge.settings import Dtype, MergeSettings, Method
from sanderling.merge.sweep import Axis
from sanderling.report.numbers import duration
from sanderling.runs.provenance import command_line
from sanderling.world.dense.index import SearchMode

if TYPE_CHECKING:
    from sanderling.merge.sweep import OnProgress, Skill
    from sanderling.policy.contract import Policy

app = typer.Typer(no_args_is_help=True)


@app.callback()
def merge() -> None:
    """Merge models in the space of their parameters, and see which coefficients keep which skill."""


MethodName = Annotated[Method, typer.Argument(metavar="METHOD", help=f"One of {', '.join(Method)}.")]
Models = Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Local Hugging Face directories.")]
Base = Annotated[Path | None, typer.Option("--base", help="What the models were trained from; not for linear and slerp.")]
Weights = Annotated[
    list[float] | None, typer.Option("--weight", help="One for each model, in their order; equal shares by default.")
]
Scale = Annotated[
    float | None, typer.Option("--scale", help="λ: multiplies the sum of differences from the base; 1 by default.")
]
Density = Annotated[float | None, typer.Option("--density", help="Share of entries kept (ties, dare, della); 0.5 by default.")]
Epsilon = Annotated[
    float | None, typer.Option("--epsilon", help="DELLA: spread of chances around the density; 0.1 by default.")
]
Normalize = Annotated[
    bool | None,
    typer.Option("--normalize/--no-normalize", help="Divide weights by their sum; by default for linear, ties and della."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="For dare and della: equal seeds give equal models.")]
StoredAs = Annotated[Dtype | None, typer.Option("--dtype", help="What weights are stored in; as the first model by default.")]
TokenizerOf = Annotated[
    Path | None, typer.Option("--tokenizer", help="The model whose tokenizer is copied; the base or the first by default.")
]


@app.command()
def run(
    method: MethodName,
    models: Models,
    out: Annotated[Path, typer.Option("--out", help="Directory of the merged model.")],
    base: Base = None,
    weights: Weights = None,
    scale: Scale = None,
    t: Annotated[float | None, typer.Option("--t", help="slerp: 0 is the first model, 1 the second; 0.5 by default.")] = None,
    density: Density = None,
    epsilon: Epsilon = None,
    normalize: Normalize = None,
    seed: Seed = 0,
    dtype: StoredAs = None,
    tokenizer: TokenizerOf = None,
) -> None:
    """Merge models that were trained from one base into one, tensor by tensor.

    The directory appears whole or not at all, with merge.json, which says what went into it.
    """
    from sanderling.merge.run import merge as merge_models

    settings = merge_settings(
        method=method, models=models, weights=weights, base=base, scale=scale, t=t, density=density, epsilon=epsilon,
        normalize=normalize, seed=seed, dtype=dtype, tokenizer=tokenizer,
    )  # fmt: skip
    for doubt in settings.doubts():
        warnings.warn(doubt, stacklevel=1)
    with Console(stderr=True).status("Checking and merging"):
        record = merge_models(settings, out, command_line())
    told = f"{method} of {len(models)} models in {visible(str(out))} ({record.dtype}, {duration(record.seconds)})"
    Console(soft_wrap=True, highlight=False).print(told, markup=False)


def merge_settings(**given: Any) -> MergeSettings:
    """The settings of a merge from options; those that were not given are left at their defaults. Raises UserError."""
    values = {name: value for name, value in given.items() if value is not None}
    settings = check_config(MergeSettings, {**values, "models": tuple(given["models"])}, "this merge")
    for name in settings.idle():
        raise UserError(f"{settings.method} has no use for --{name}: leave it out.")
    return settings


@app.command()
def sweep(
    method: MethodName,
    models: Models,
    out: Annotated[Path, typer.Option("--out", help="Directory of the sweep; the best model is its best/.")],
    skills: Annotated[list[str], typer.Option("--skill", metavar="NAME=QUESTIONS", help="A file of questions; repeatable.")],
    worlds: Annotated[list[Path], typer.Option("--world", help="A world for all skills, or one for each in their order.")],
    axis: Annotated[Axis, typer.Option("--over", help="What is swept.")] = Axis.WEIGHT,
    values: Annotated[str, typer.Option("--values", help="Where.")] = "0,0.25,0.5,0.75,1",
    base: Base = None,
    weights: Weights = None,
    scale: Scale = None,
    density: Density = None,
    epsilon: Epsilon = None,
    normalize: Normalize = None,
    merge_seed: Annotated[int, typer.Option("--merge-seed", min=0, help="For dare and della.")] = 0,
    dtype: StoredAs = None,
    tokenizer: TokenizerOf = None,
    profile: Annotated[str, typer.Option("--profile", help=f"Prompt, tools and budgets: {', '.join(PROFILES)}.")] = "tiny",
    judges: Annotated[
        list[str] | None, typer.Option("--judge", help="Who judges (see data generate); exact by default.")
    ] = None,
    judge_price: JudgePrices = None,
    attempts: Annotated[int, typer.Option("--attempts", min=1, help="Attempts at each question.")] = 1,
    seed: Annotated[int, typer.Option("--seed", help="Equal seeds give equal episodes.")] = 0,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Episodes at the same time.")] = 32,
    device: Annotated[str, typer.Option("--device", help="Where the model runs: cpu or cuda.")] = "cpu",
    run_dtype: Annotated[str, typer.Option("--run-dtype", help="What it computes in: float32 or bfloat16.")] = "float32",
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: Cache = None,
    faults: Faults = None,
    world_seed: WorldSeed = 0,
    mode: Search = SearchMode.LEXICAL,
) -> None:
    """Measure merges along an axis on several skills, write the curve, and keep the best merged model.

    The inputs are measured, too. Killed or stopped, the same command goes on; other values are added to those that are there.
    """
    from sanderling.merge.report import sentences, terminal_table
    from sanderling.merge.sweep import PAGE, Sweep, run_sweep
    from sanderling.policy.load import open_policy

    out = out.resolve()
    if not out.name:
        raise UserError(f"{out} is the root of the file system: choose another directory with --out.")
    settings = merge_settings(
        method=method, models=models, weights=weights, base=base, scale=scale, density=density, epsilon=epsilon,
        normalize=normalize, seed=merge_seed, dtype=dtype, tokenizer=tokenizer,
    )  # fmt: skip
    chosen = get_profile(profile)
    places = [Place(world, dynamics=faults, world_seed=world_seed, mode=mode) for world in worlds]
    specs = judges or ["exact"]
    console = Console(stderr=True)
    spending = Spending(out.with_name(f"{out.name}.judging"), max_tokens, max_cost, cache)

    def open_model(path: Path) -> "Policy":
        return open_policy(str(path), device=device, dtype=run_dtype, max_batch=concurrency)

    swept = Sweep(
        settings,
        axis,
        _values(values),
        _skills(skills, places, chosen),
        chosen,
        SystemClock(),
        open_model,
        lambda: opened_judge(specs, judge_price or [], spending, concurrency=concurrency, console=console),
        ", ".join(specs),
        attempts,
        seed,
        concurrency,
        device,
        run_dtype,
    )
    with _bar(console) as show:
        report = run_sweep(swept, out, command_line(), show)
    printed = Console(soft_wrap=True, highlight=False)
    printed.print(terminal_table(report))
    for line in sentences(report):
        printed.print(line, markup=False)
    kept = f", the best model {visible(str(out / 'best'))}" if report.best else ""
    printed.print(f"The page is {visible(str(out / PAGE))}{kept}.", markup=False)


def _values(words: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in words.split(","))
    except ValueError as error:
        raise UserError(f"--values {words!r} are no numbers: write for example 0,0.25,0.5,0.75,1.") from error


def _skills(specs: Sequence[str], places: Sequence[Place], profile: Profile) -> tuple["Skill", ...]:
    """The skills with their questions and worlds. Raises UserError."""
    from sanderling.merge.sweep import Skill

    if len(places) not in (1, len(specs)):
        raise UserError(f"{len(places)} worlds were given for {len(specs)} skills: give one for all, or one for each.")
    opened = [(place.open(profile), place.mode.value) for place in places] * (len(specs) if len(places) == 1 else 1)
    found: list[Skill] = []
    for spec, (backend, search) in zip(specs, opened, strict=True):
        name, equals, file = spec.partition("=")
        if not (equals and file and name.replace("-", "").replace("_", "").isalnum()):
            raise UserError(f"--skill {spec!r} is none: write NAME=QUESTIONS, the name in letters, digits and dashes.")
        questions = read_questions(Path(file))
        require_distinct(questions)
        found.append(Skill(name, tuple(questions), backend.tools(None), backend.name, backend.fingerprint, search))
    return tuple(found)


@contextmanager
def _bar(console: Console) -> Iterator["OnProgress"]:
    """A bar for what is measured now."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console) as bars:
        tasks: dict[tuple[str, str], TaskID] = {}

        def show(model: str, skill: str, progress: Progress) -> None:
            key = (model, skill)
            if key not in tasks:
                tasks[key] = bars.add_task(f"{visible(model)}: {skill}", total=progress.total)
            bars.update(tasks[key], completed=progress.done)

        yield show
