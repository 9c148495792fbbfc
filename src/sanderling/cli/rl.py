"""``sanderling train rl``: reinforcement learning, from questions to a trained model. Thin: `rl.launch` works."""

import glob
from pathlib import Path
from typing import Annotated, Any

from sanderling.cli.options import JUDGING, PLACE, RUN, Fresh, Set, one_voice, option, or_help
from sanderling.core.errors import UserError
from sanderling.recipes.find import find_rl_recipe


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


_NEEDED = "Required, here or in the recipe:"
_QUESTIONS = f"{_NEEDED} a file, or a quoted pattern. Repeatable."
_MODEL = f"{_NEEDED} the Hugging Face directory to start from."
_WORLDS = "A world, or a quoted pattern; needed unless questions name theirs in meta.world. Repeatable."
_RECIPE = "dr-venus-4b, literesearcher-4b, literesearcher-4b-two, agentcpm-explore-4b, tiny, or a TOML file."
_HELD_OUT = "Questions that select the checkpoint and are never trained on."
_JUDGES = "Who scores answers, in place of the recipe's: a rule, or http://host:port/v1#model."
_ENDPOINT = "Sample rollouts on this vLLM server (sets rl.pipeline.placement=served)."
_SIMPLE = "The loop that fits on a page: one process, synchronous, nothing is resumed."


def rl(
    questions: Annotated[list[Path] | None, option("--questions", _QUESTIONS, "FILE")] = None,
    model: Annotated[Path | None, option("--model", _MODEL, "DIR")] = None,
    worlds: Annotated[list[Path] | None, option("--world", _WORLDS, "DIR", PLACE)] = None,
    recipe: Annotated[str, option("--recipe", _RECIPE, "NAME")] = "dr-venus-4b",
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
