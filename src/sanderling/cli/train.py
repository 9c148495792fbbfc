"""``sanderling train``, ``rl``, ``model`` and ``recipe``: change weights, plan that, make a model, or do all of it. Thin."""

import glob
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from sanderling.cli.options import JUDGING, PLACE, RUN, Fresh, Set, argument, one_voice, option, or_help, show, table
from sanderling.core.config import load_config, to_toml
from sanderling.core.errors import UserError
from sanderling.recipes.find import find_rl_recipe, find_settings

if TYPE_CHECKING:
    from sanderling.train.fit import Devices, Plan

app = typer.Typer(no_args_is_help=True)
models = typer.Typer(no_args_is_help=True, callback=lambda: None)  # a group, though it has one command
recipes = typer.Typer(no_args_is_help=True)
learning = typer.Typer(no_args_is_help=True, callback=lambda: None)
_MODEL = "Required, here or in the recipe: the Hugging Face directory to start from."
_DATA = "Required, here or in the recipe: files of trajectories, or of rows made by sanderling data rows (.parquet)."
_RECIPE = "lora-24gb, dr-venus-4b, literesearcher-4b, agentcpm-explore-4b, or a TOML file of settings."
_PLANNED = "Of train sft (lora-24gb by default); with --rl of train rl (dr-venus-4b)."
_SIZE = "tiny, or as published: 0.6b, 1.7b, 4b, 4b-2507, 8b, 14b, 32b."
_QUESTIONS = "Required, here or in the recipe: a file, or a quoted pattern. Repeatable."
_WORLDS = "A world, or a quoted pattern; needed unless questions name theirs in meta.world. Repeatable."
_RL_RECIPE = "dr-venus-4b, literesearcher-4b, literesearcher-4b-two, agentcpm-explore-4b, tiny, or a TOML file."
_HELD_OUT = "Questions that select the checkpoint and are never trained on."
_JUDGES = "Who scores answers, in place of the recipe's: a rule, or http://host:port/v1#model."
_ENDPOINT = "Sample rollouts on this vLLM server (sets rl.pipeline.placement=served)."
_ROLLOUTS = "Stores, runs or recorded files, with several rollouts of each question."
_SIMPLE = "The loop that fits on a page: one process, synchronous, nothing is resumed."


@app.command()
def sft(
    files: Annotated[list[Path] | None, argument("DATA...", _DATA)] = None,
    model: Annotated[Path | None, option("--model", _MODEL, "DIR")] = None,
    out: Annotated[Path | None, option("--out", "The run; runs/TITLE by default.", "DIR", RUN)] = None,
    recipe: Annotated[str, option("--recipe", _RECIPE, "NAME")] = "lora-24gb",
    profile: Annotated[str | None, option("--profile", "How trajectories become tokens: dr-venus-4b, ….", "NAME")] = None,
    overrides: Set = None,
    processes: Annotated[int, option("--processes", "Processes here, one a GPU; or use torchrun.", "N", RUN, min=1)] = 1,
    merge: Annotated[bool, option("--merge", "After LoRA, also write base and adapter as one model.")] = False,
    fresh: Fresh = False,
) -> None:
    """Fine-tune a model on trajectories. If interrupted, run the same command again to resume.

    Data and model are checked first. OUT then holds model/ or adapter/, metrics.jsonl and checkpoints/.
    """
    from sanderling.train.config import SftConfig
    from sanderling.train.sft import Order, run_sft_command

    given = {"model": model, "data.files": files or None, "data.profile": profile, "merge": merge or None}
    config = or_help(lambda sets: find_settings("sft", SftConfig, recipe, sets, given), overrides)
    with one_voice() as report:
        run_sft_command(Order(config, out or Path("runs") / config.title, processes, fresh), report)


@app.command()
def rl(
    questions: Annotated[list[Path] | None, option("--questions", _QUESTIONS, "FILE")] = None,
    model: Annotated[Path | None, option("--model", _MODEL, "DIR")] = None,
    worlds: Annotated[list[Path] | None, option("--world", _WORLDS, "DIR", PLACE)] = None,
    recipe: Annotated[str, option("--recipe", _RL_RECIPE, "NAME")] = "dr-venus-4b",
    held_out: Annotated[list[Path] | None, option("--held-out", _HELD_OUT, "FILE")] = None,
    judges: Annotated[list[str] | None, option("--judge", _JUDGES, "JUDGE", JUDGING)] = None,
    endpoint: Annotated[str | None, option("--endpoint", _ENDPOINT, "URL#MODEL")] = None,
    out: Annotated[Path | None, option("--out", "Directory of the run; runs/TITLE by default.", "DIR", RUN)] = None,
    processes: Annotated[int, option("--processes", "Processes here, one a GPU; or use torchrun.", "N", RUN, min=1)] = 1,
    fresh: Fresh = False,
    simple: Annotated[bool, option("--simple", _SIMPLE)] = False,
    overrides: Set = None,
) -> None:
    """Train a model by reinforcement on questions, with an agent that researches worlds.

    If interrupted, run the same command again to resume.

    Everything is checked first. OUT then holds model/, metrics.jsonl, run.db (every rollout) and checkpoints/.
    """
    from sanderling.rl.launch import Order, run_rl_command

    given: dict[str, Any] = {"model": model, "judges": tuple(judges) if judges else None, **served_at(endpoint)}
    for name, paths in (("questions", questions), ("worlds", worlds), ("held_out", held_out)):
        given[name] = tuple(found for path in paths for found in matching(path)) if paths else None
    config = or_help(lambda sets: find_rl_recipe(recipe, sets, given), overrides)
    with one_voice() as report:
        run_rl_command(Order(config, out or Path("runs") / config.title, processes, fresh, simple), report)


def matching(path: Path) -> list[Path]:
    """The files that a path with ``*``, ``?`` or ``[`` stands for, in order; any other is itself. Raises UserError for none."""
    if not glob.has_magic(str(path)) or path.exists():
        return [path]
    if found := sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor) if path.anchor else path))):
        return found
    raise UserError(f"Nothing matches {path}: check the pattern.")


def served_at(endpoint: str | None) -> dict[str, Any]:
    """What ``--endpoint`` sets. Raises UserError where it does not name the model."""
    if endpoint is None:
        return {}
    place, _, name = endpoint.partition("#")
    if not name:
        raise UserError(f"--endpoint {endpoint} names no model: write http://host:port/v1#model, as the server calls it.")
    return {"rl.pipeline.placement": "served", "sampler.endpoint": place, "sampler.served": name}


@learning.command("check-gains")
def check_gains(
    files: Annotated[list[Path] | None, argument("ROLLOUTS...", _ROLLOUTS)] = None,
    model: Annotated[Path | None, option("--model", "Required: the policy's directory.", "DIR")] = None,
    profile: Annotated[str | None, option("--profile", "That of the rollouts by default.", "NAME")] = None,
    recipe: Annotated[str | None, option("--recipe", "Check this recipe's gains and estimator: " + _RL_RECIPE, "NAME")] = None,
    out: Annotated[Path, option("--out", "Where gains.html and gains.json go.", "DIR", RUN)] = Path("runs/check-gains"),
    overrides: Set = None,
) -> None:
    """Say whether information gain can teach a policy, before anything is trained.

    16 rollouts or more of each question are best, as sanderling data generate --attempts 16 makes them.
    """
    from sanderling.rl.gain_report import CheckConfig, rows_of, run_check
    from sanderling.runs.progress import command_line

    given = {"files": files or None, "model": model, "profile": profile}
    text = ""
    if recipe is not None:
        rl = find_rl_recipe(recipe).rl
        if rl.gain is None:
            raise UserError(f"The recipe {recipe} measures no gains: leave --recipe out, and those of IGPO are checked.")
        text = to_toml(CheckConfig.model_construct(gain=rl.gain, estimator=rl.estimator))
    config = or_help(lambda sets: load_config(CheckConfig, text, recipe or "the command", sets, given), overrides, CheckConfig)
    with one_voice() as report:
        check = run_check(config, out, report, command_line())
    found = table("", "")
    for name, words in rows_of(check):
        found.add_row(name, words)
    show(found, check.sentence)


@app.command()
def plan(
    model: Annotated[Path, option("--model", "The directory of the model; its config.json suffices.")],
    recipe: Annotated[str | None, option("--recipe", _PLANNED)] = None,
    overrides: Set = None,
    row_tokens: Annotated[int | None, option("--row-tokens", "Longest row or rollout, at most the recipe's.", min=1)] = None,
    device: Annotated[str | None, option("--device", "Plan for another device, such as H200; with --memory.", "NAME")] = None,
    memory: Annotated[float | None, option("--memory", "Its memory, in GiB.", min=0.1, max=2**40)] = None,
    count: Annotated[int, option("--count", "Number of devices.", min=1)] = 1,
    rl: Annotated[bool, option("--rl", "Plan train rl, sampling included.")] = False,
) -> None:
    """Say what a step needs in memory and time, and what to set when it does not fit; exit status 2 then."""
    from sanderling.rl.fit import plan_rl
    from sanderling.train.config import ParallelConfig, ParallelKind, SftConfig
    from sanderling.train.fit import described, devices_here
    from sanderling.train.sft import plan_sft

    if (device is None) != (memory is None) or (count > 1 and device is None):
        raise UserError("--device and --memory go together, and --count with them: a name such as H200, and the GiB of one.")

    def devices(parallel: ParallelConfig) -> "Devices":
        found = described(device, memory, count) if device and memory else devices_here()
        return replace(found, count=1) if parallel.kind is ParallelKind.NONE and device is None else found

    if rl:
        settings = or_help(lambda sets: find_rl_recipe(recipe or "dr-venus-4b", sets, {"model": model}), overrides)
        found = plan_rl(settings, devices(settings.parallel), row_tokens)
        _show_memory(settings.title, found)
        most = f"{found.load.row_tokens:,} tokens at most"
        show(f"{settings.rl.questions_per_step} questions a step, {settings.rl.group_size} rollouts of each, of {most}.")
    else:
        named = recipe or "lora-24gb"
        config = or_help(lambda sets: find_settings("sft", SftConfig, named, sets, {"model": model}), overrides)
        found = plan_sft(config, devices(config.parallel), row_tokens)
        _show_memory(config.title, found)
        seconds = float(f"{found.step_seconds or 0.0:.3g}")
        time = f", about {seconds:,g} s at 40% of the device's peak" if seconds else ""
        show(f"Rows of up to {found.load.row_tokens:,} tokens; a step of {found.step_tokens:,} tokens at most{time}.")
    if found.sentence:
        raise UserError(found.sentence)


@models.command()
def init(
    out: Annotated[Path, option("--out", "Directory of the new model; must be empty or not exist.")],
    size: Annotated[str, option("--size", _SIZE)] = "tiny",
    world: Annotated[Path | None, option("--world", "A world, on whose pages a tokenizer is trained.")] = None,
    tokenizer: Annotated[Path | None, option("--tokenizer", "A model's directory, whose tokenizer is copied.", "DIR")] = None,
    seed: Annotated[int, option("--seed", "The same seed gives the same weights.", min=0)] = 0,
    dtype: Annotated[str, option("--dtype", "What weights are stored in: bfloat16 or float32.")] = "bfloat16",
) -> None:
    """Make a randomly initialised Qwen3 of any size, for tests and benchmarks: a Hugging Face directory that knows nothing."""
    from sanderling.core.config import check_config
    from sanderling.train.random_model import ModelInit, init_model

    values = {"out": out, "size": size, "world": world, "tokenizer": tokenizer, "seed": seed, "dtype": dtype}
    with one_voice() as report:
        init_model(check_config(ModelInit, values, "the options"), report)


@recipes.command("run")
def run_recipe(
    name: Annotated[str, argument("NAME", "tiny, or a TOML file with other settings.")] = "tiny",
    out: Annotated[Path | None, option("--out", "Directory of the run; runs/NAME by default.")] = None,
    quick: Annotated[bool, option("--quick", "All stages, far too short to learn much; in runs/NAME-quick.")] = False,
    fresh: Fresh = False,
    sets: Set = None,
) -> None:
    """Run a recipe; finished stages are skipped, and an interrupted one resumes."""
    from sanderling.recipes.tiny import find_recipe
    from sanderling.recipes.tiny_stages import run_tiny
    from sanderling.runs.progress import Report, command_line
    from sanderling.runs.stages import command_in

    config = or_help(lambda others: find_recipe(name, quick=quick, overrides=others), sets)
    directory = out or Path("runs") / (Path(name).stem + ("-quick" if quick else ""))
    with command_in(directory, fresh=fresh, reads=[config.base] if config.base else []):
        run_tiny(config, directory, Report(Console()), command_line())


def _show_memory(title: str, plan: "Plan") -> None:
    """What each device has to hold, in GiB."""
    show(f"{title}: {plan.shape.parameters / 1e9:.3g} billion parameters")
    found = table(f"on each of {plan.devices.count} × {plan.devices.name}", ">GiB")
    needs = plan.estimate
    ends = {"altogether": needs.total, "there is": plan.devices.room, "in the host's memory": needs.host}
    for name, size in (*needs.parts.items(), *ends.items()):
        if size:
            found.add_row(name, f"{size / 2**30:,.2f}")
    show(found)
