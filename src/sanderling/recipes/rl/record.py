"""What a run of RL in a directory was started with, so that it goes on with the same or not at all. Importable without torch.

``rl.toml`` holds the resolved settings (and can be given as a recipe again), ``inputs.json`` what stands for the content of
model, questions and worlds, and how many processes share the work. Settings that only say how the work is done, or when
somebody is asked, may be changed between a kill and going on.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sanderling.config import read_config, to_toml
from sanderling.errors import UserError
from sanderling.files import replace_file
from sanderling.locks import LOCK, locked
from sanderling.recipes.data.inputs import content_hash
from sanderling.recipes.rl.config import RlRecipe

SETTINGS, INPUTS = "rl.toml", "inputs.json"
_PROCESSES = "processes"
_BEFORE = (LOCK, INPUTS, f"{SETTINGS}.partial")
"""How the names begin of what a run that was killed before it was begun may leave."""
_FREE = (
    "title",
    "model",
    "questions",
    "held_out",
    "worlds",
    "expected.",
    "watch",
    "sampler.",
    "parallel.",
    "rl.health.",
    "rl.keep",
    "rl.save_every",
    "rl.pipeline.placement",
    "rl.trainer.memory.",
    "rl.trainer.logit_chunk",
)
"""Settings that may differ: paths (their content may not), where and how the work is done, and when it is paused."""


def is_begun(out: Path) -> bool:
    """Whether a run was begun in a directory."""
    return (out / SETTINGS).is_file()


def check_empty(out: Path) -> None:
    """Raises UserError when a directory without a run holds what would be taken for one's results, or be written over."""
    strange = _strange(out)
    if strange:
        raise UserError(f"{out} holds other things ({strange[0]}) and no run: choose another --out.")


def check_same_run(recipe: RlRecipe, inputs: Mapping[str, Any], processes: int, out: Path) -> None:
    """Raises UserError, saying what differs, when a directory holds a run with other settings or of other input."""
    before, now = _flat(read_config(RlRecipe, out / SETTINGS)), _flat(recipe)
    unlike = [key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key) and not _is_free(key)]
    told = [f"{key} {before.get(key)}, now {now.get(key)}" for key in unlike]
    earlier = _read_inputs(out)
    told += [f"other {name}" for name, content in inputs.items() if earlier.get(name) != content]
    if told:
        listed = "; ".join(told[:4]) + (f"; and {len(told) - 4} more" if len(told) > 4 else "")
        raise UserError(f"{out} holds another run ({listed}): choose another --out, or add --fresh to begin again.")
    if earlier.get(_PROCESSES, processes) != processes:
        raise UserError(
            f"{out} holds a run of {earlier[_PROCESSES]} processes, now {processes}, and each has rollouts under way: start as "
            "many as before."
        )


def write_record(recipe: RlRecipe, inputs: Mapping[str, Any], processes: int, out: Path) -> None:
    """Remember what the run is made with; the settings last, since they say that it was begun."""
    try:
        replace_file(out / INPUTS, json.dumps({**inputs, _PROCESSES: processes}, indent=1) + "\n", durable=True)
        replace_file(out / SETTINGS, to_toml(recipe), durable=True)
    except OSError as error:
        raise UserError(f"Cannot write in {out} ({error.strerror}): free some space, or choose another --out.") from error


def inputs_of(recipe: RlRecipe, model: Path, files: Mapping[str, Sequence[Path]], worlds: Mapping[str, str]) -> dict[str, Any]:
    """What stands for the content of everything that a run reads. ``worlds``: fingerprints by name."""
    weights = [model / "config.json", model / "tokenizer.json", *sorted(model.glob("*.safetensors"))]
    found: dict[str, Any] = {
        name: [[path.name, content_hash(path)] for path in paths] for name, paths in files.items() if paths
    }
    model_content = [[path.name, content_hash(path)] for path in weights if path.is_file()]
    return {"model": model_content, "worlds": dict(worlds), **found}


def clear(out: Path) -> None:
    """Delete what a run left in its directory. Raises UserError when the directory is not one of a run, or in use."""
    if not is_begun(out) and not _strange(out):
        return
    if not is_begun(out):
        raise UserError(f"{out} is not the directory of a run, so --fresh leaves it alone: choose another --out.")
    with locked(out):
        # The settings go last: cut short, the directory is still known as one of a run.
        for path in sorted(out.iterdir(), key=lambda path: path.name == SETTINGS):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()


def _is_free(key: str) -> bool:
    return key.startswith(_FREE) or (key.startswith("stages.") and key.endswith(".questions"))


def _strange(out: Path) -> list[str]:
    """What a directory holds that is no beginning of a run."""
    return sorted(path.name for path in out.iterdir() if not path.name.startswith(_BEFORE)) if out.is_dir() else []


def _read_inputs(out: Path) -> dict[str, Any]:
    try:
        return json.loads((out / INPUTS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{out / INPUTS} is damaged: add --fresh to begin again, or choose another --out.") from error


def _flat(recipe: RlRecipe) -> dict[str, Any]:
    """Settings by dotted name; lists without order as lists with one."""

    def walk(values: dict[str, Any], path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in values.items():
            if isinstance(value, dict):
                found |= walk(value, f"{path}{key}.")
            else:
                found[f"{path}{key}"] = sorted(value) if isinstance(value, list) and _unordered(key) else value
        return found

    return walk(recipe.model_dump(mode="json"), "")


def _unordered(key: str) -> bool:
    return key in ("tools", "pause_on")
