"""``sanderling train rl``: reinforcement learning, from questions to a trained model. All logic is in `recipes.rl`."""

import glob
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sanderling.cli import exits
from sanderling.core.errors import UserError

_LAST_WORDS_S = 5
"""torchrun ends all processes as soon as one has failed: the first gets so long to say why."""


def _each(paths: list[Path] | None) -> list[Path]:
    """What paths and patterns stand for."""
    return [found for path in paths or () for found in matching(path)]


def matching(path: Path) -> list[Path]:
    """The files that a path with ``*``, ``?`` or ``[`` stands for, in order; any other is itself. Raises UserError for none."""
    if not glob.has_magic(str(path)) or path.exists():
        return [path]
    found = sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor) if path.anchor else path)))
    if not found:
        raise UserError(f"Nothing matches {path}: check the pattern.")
    return found


def served_at(endpoint: str | None, served: str | None) -> list[str]:
    """What the two options of a server set. Raises UserError where there is one of them alone."""
    if (endpoint is None) != (served is None):
        raise UserError("--endpoint and --model-served go together: where the model is served, and its name there.")
    return ["rl.pipeline.placement=served", f"sampler.endpoint={endpoint}", f"sampler.served={served}"] if endpoint else []


def rl(
    questions: Annotated[
        list[Path] | None,
        typer.Option("--questions", help="A file of questions and answers, or a quoted pattern. Repeatable."),
    ] = None,
    model: Annotated[Path | None, typer.Option("--model", help="The Hugging Face directory to start from.")] = None,
    worlds: Annotated[
        list[Path] | None,
        typer.Option("--world", help="A world, or a quoted pattern. Repeatable: questions then name theirs in meta.world."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Directory of the run; runs/TITLE by default.")] = None,
    recipe: Annotated[
        str,
        typer.Option("--recipe", help="dr-venus-4b, literesearcher-4b, agentcpm-explore-4b, tiny, or a TOML file."),
    ] = "dr-venus-4b",
    held_out: Annotated[
        list[Path] | None, typer.Option("--held-out", help="Questions that select the checkpoint and are never trained on.")
    ] = None,
    judges: Annotated[
        list[str] | None,
        typer.Option("--judge", help="Who scores answers, in place of the recipe's: a rule, or http://host:port/v1#model."),
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", help="Prompt, tools and budgets; the recipe's by default.")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", help="Where the model is served (vLLM): http://host:port/v1; placement served.")
    ] = None,
    served: Annotated[str | None, typer.Option("--model-served", help="What the server calls it.")] = None,
    extractor: Annotated[
        str | None, typer.Option("--extractor", help="A model that reads visited pages: http://host:port/v1#model.")
    ] = None,
    dynamics: Annotated[
        str | None, typer.Option("--dynamics", help="How worlds behave: a profile's name or a TOML file.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, such as rl.steps=20; as often as you like."),
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", min=1, help="Processes on this machine, one for each GPU; or start with torchrun.")
    ] = 1,
    watch: Annotated[
        list[str] | None, typer.Option("--watch", help="A view of the run: tensorboard, trackio, wandb. Repeatable.")
    ] = None,
    anyway: Annotated[
        bool,
        typer.Option("--anyway", help="Try even where the plan (sanderling train plan --rl) says that a GPU is too small."),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Once all is checked, delete what the directory holds and begin again.")
    ] = False,
) -> None:
    """Train a model by reinforcement on questions, with an agent that researches worlds. Killed, the same command goes on.

    Everything is checked first. OUT then holds model/, metrics.jsonl, run.db (every rollout) and checkpoints/, by stage.
    """
    from sanderling.recipes.rl.find import find_rl_recipe
    from sanderling.recipes.rl.prepare import Order
    from sanderling.recipes.rl.run import run_rl_command
    from sanderling.runs.progress import Report
    from sanderling.train.parallel.launch import speaks

    given: dict[str, Any] = {
        "questions": _each(questions),
        "model": model,
        "worlds": _each(worlds),
        "held_out": _each(held_out),
        "judges": judges,
        "watch": watch,
        "profile": profile,
        "extractor": extractor,
        "dynamics": dynamics,
    }
    config = find_rl_recipe(recipe, [*served_at(endpoint, served), *(overrides or [])])
    update = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items() if value}
    config = config.model_copy(update=update)
    directory = out or Path("runs") / config.title
    first = speaks()
    if not first:
        warnings.simplefilter("ignore")
    try:
        run_rl_command(Order(config, directory, processes, anyway, fresh), Report(Console(quiet=not first)))
    except UserError:
        if first:
            raise
        time.sleep(_LAST_WORDS_S)
        raise typer.Exit(exits.USER_ERROR) from None
    except KeyboardInterrupt:
        if first:
            Console(stderr=True).print(
                "Interrupted: the same command without --fresh goes on where it stopped.", soft_wrap=True
            )
        raise typer.Exit(exits.INTERRUPTED) from None
