"""What a run of RL was started with: which settings may differ when it goes on, and what stands for what it reads.

How many processes share the work stands among the inputs. Settings that only say how the work
is done, or when somebody is asked, may be changed between a kill and going on. Importable without torch.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sanderling.core.config import load_config
from sanderling.core.errors import UserError
from sanderling.recipes.rl.config import RlRecipe
from sanderling.runs.run_record import RunRecord, content_hash, flat, model_files, unlike

_PROCESSES = "processes"
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
    "rl.denoise.outage_",
    "rl.denoise.judge_patience_s",
    "rl.denoise.least_scored",
    "rl.selection.least_scored",
    "rl.pipeline.placement",
    "rl.trainer.memory.",
    "rl.trainer.logit_chunk",
)
"""Settings that may differ: paths (their content may not), where and how the work is done, when it is paused, how long an
outage is waited for and how much of one is borne."""
_UNORDERED = ("tools", "pause_on")


def record_of(out: Path) -> RunRecord:
    """A directory of RL."""
    return RunRecord(out, "rl")


def started_with(out: Path) -> RlRecipe:
    """A begun run's settings. Raises UserError where there is none."""
    return load_config(RlRecipe, record_of(out).settings(), str(out))


def check_same_run(recipe: RlRecipe, inputs: Mapping[str, Any], processes: int, out: Path) -> None:
    """Raises UserError, saying what differs, when a directory holds a run with other settings or of other input."""
    record = record_of(out)
    before, now = flat(started_with(out), _UNORDERED), flat(recipe, _UNORDERED)
    told = [f"{key} {before.get(key)}, now {now.get(key)}" for key in unlike(before, now) if not _is_free(key)]
    earlier = record.inputs()
    longer = any(key.endswith("steps") and key.startswith(("rl.steps", "stages.")) for key in unlike(before, now))
    more = f"; to train its model further, begin with --model {out / 'model'} in another --out" if longer else ""
    record.refuse([*told, *(f"other {name}" for name, content in inputs.items() if earlier.get(name) != content)], more)
    if earlier[_PROCESSES] != processes:
        raise UserError(
            f"{out} holds a run of {earlier[_PROCESSES]} processes, now {processes}, and each has rollouts under way: start as "
            "many as before."
        )


def write_record(recipe: RlRecipe, inputs: Mapping[str, Any], processes: int, out: Path) -> None:
    """Remember what the run is made with."""
    record_of(out).write(recipe, {**inputs, _PROCESSES: processes})


def inputs_of(recipe: RlRecipe, model: Path, files: Mapping[str, Sequence[Path]], worlds: Mapping[str, str]) -> dict[str, Any]:
    """What stands for the content of everything that a run reads. ``worlds``: fingerprints by name."""
    found: dict[str, Any] = {
        name: [[path.name, content_hash(path)] for path in paths] for name, paths in files.items() if paths
    }
    model_content = [[path.name, content_hash(path)] for path in model_files(model)]
    return {"model": model_content, "worlds": dict(worlds), **found}


def _is_free(key: str) -> bool:
    return key.startswith(_FREE) or (key.startswith("stages.") and key.endswith(".questions"))
