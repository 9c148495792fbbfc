"""What a supervised run was started with: which settings may differ when it goes on, and what stands for what it reads.

Into how many parts batches are dealt stands among the inputs. Settings that change no result
beyond rounding may be changed between a kill and going on. Importable without torch.
"""

from pathlib import Path
from typing import Any

from sanderling.core.config import load_config
from sanderling.core.errors import UserError
from sanderling.data.importing import find_places
from sanderling.runs.run_record import RunRecord, content_hash, flat, model_files, unlike
from sanderling.train.config import Aggregation
from sanderling.train.sft.rows import ROWS
from sanderling.train.sft.settings import SftConfig

_HANDS = "hands"
"""Where the inputs say into how many parts batches are dealt."""
_FREE = (
    "title",
    "model",
    "data.files",
    "save_every",
    "keep",
    "save_dtype",
    "merge",
    "parallel.",
    "trainer.memory.",
    "trainer.logit_chunk",
    "watch",
)
"""Settings that may differ: paths (their content may not) and what only says how the work is done."""
_CHANGEABLE = ("trainer.", "epochs", "max_steps", "guard.")
"""Settings that a person may change on purpose and go on."""


def record_of(out: Path) -> RunRecord:
    """A directory of supervised training."""
    return RunRecord(out, "sft", (ROWS, f".{ROWS}"))


def check_same_run(config: SftConfig, out: Path, *, change: bool) -> None:
    """Raises UserError, saying what differs, when a directory holds a run with other settings, data or model.

    ``change``: how it trains may differ (trainer, epochs, max_steps, guard); data, batches and adapters never do.
    """
    record = record_of(out)
    before, now = flat(load_config(SftConfig, record.settings(), str(out))), flat(_in_text(config))
    free = _FREE if config.trainer.aggregation is Aggregation.MICRO_BATCH_MEAN else (*_FREE, "trainer.micro_batch_tokens")
    differing = [key for key in unlike(before, now) if not key.startswith(free)]
    if change:
        differing = [key for key in differing if not key.startswith(_CHANGEABLE)]
    told = [f"{key} {before.get(key)}, now {now.get(key)}" for key in differing]
    inputs = record.inputs()
    told += [f"other {name}" for name, content in _inputs(config).items() if inputs.get(name) != content]
    changeable = differing and all(key.startswith(_CHANGEABLE) for key in differing)
    record.refuse(told, ", or --change to go on with them" if changeable else "")


def check_same_parts(config: SftConfig, out: Path, hands: int, *, change: bool) -> None:
    """Raises UserError when batches were dealt into other parts than ``hands`` and the loss depends on that."""
    before = record_of(out).inputs()[_HANDS]
    if config.trainer.aggregation is Aggregation.MICRO_BATCH_MEAN and before != hands and not change:
        raise UserError(
            f"{out} holds a run of {before} parts a batch, now {hands}, and micro_batch_mean depends on that: "
            "start as many processes as before, or add --change to go on all the same."
        )


def write_record(config: SftConfig, out: Path, hands: int) -> None:
    """Remember what the run is made with."""
    record_of(out).write(_in_text(config), {**_inputs(config), _HANDS: hands})


def _in_text(config: SftConfig) -> SftConfig:
    """The settings with paths that can be written; paths that are no text are told apart by content only."""

    def text(path: Path) -> Path:
        return Path(str(path).encode("utf-8", "replace").decode())

    files = config.data.model_copy(update={"files": tuple(map(text, config.data.files))})
    return config.model_copy(update={"data": files, "model": config.model and text(config.model)})


def _inputs(config: SftConfig) -> dict[str, Any]:
    model = model_files(config.model) if config.model else []
    return {
        "data": [[place.name, content_hash(place.path)] for place in find_places(config.data.files).files],
        "model": [[path.name, content_hash(path)] for path in model],
    }
