"""Metrics as JSON lines, one object a step, and where a run can be watched beside them: TensorBoard, trackio, Weights & Biases.

``metrics.jsonl`` is the record; on resuming, lines past the checkpoint are cut off. The others are views, asked for by name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

from sanderling.core.errors import UserError
from sanderling.core.record import encode_record
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import JsonlLog

METRICS = "metrics.jsonl"


OnProgress = Callable[[int, Mapping[str, float]], None]
"""Called with each step that was taken, and its figures."""


class MetricsLog:
    """An append-only ``metrics.jsonl``, every line with its ``step``."""

    def __init__(self, path: Path, resume_step: int = 0) -> None:
        """Open for appending; lines of steps after ``resume_step``, and a torn last line, are dropped."""
        kept = [line for line in read_metrics(path) if line["step"] <= resume_step]
        replace_file(path, b"".join(encode_record(line) + b"\n" for line in kept))
        self._log = JsonlLog(path)

    def append(self, values: Mapping[str, float | int | str]) -> None:
        """Add one step's figures durably. Raises UserError when the file cannot be written."""
        self._log.append(dict(values))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All lines of a metrics file, but for a torn last one; none when it does not exist."""
    return list(JsonlLog(path))


@dataclass(frozen=True)
class Watcher:
    """One view of a run."""

    log: Callable[[int, Mapping[str, float]], object]
    close: Callable[[], object]


def _tensorboard(out_dir: Path, settings: dict[str, Any], step: int) -> Watcher:
    from torch.utils.tensorboard import SummaryWriter

    # What an interrupted run wrote past its last checkpoint is hidden, as in metrics.jsonl.
    writer = SummaryWriter(str(out_dir / "tensorboard"), purge_step=step + 1)
    return Watcher(lambda at, metrics: [writer.add_scalar(name, value, at) for name, value in metrics.items()], writer.close)


def _trackio(out_dir: Path, settings: dict[str, Any], step: int) -> Watcher:
    import trackio  # pyright: ignore[reportMissingImports]

    # What a machine does belongs to no run's record, and is logged by threads that outlive it.
    quiet = {"embed": False, "auto_log_cpu": False, "auto_log_gpu": False}
    run = trackio.init("sanderling", name=_run_name(out_dir), config=settings, resume="allow", **quiet)
    return Watcher(lambda at, metrics: run.log(dict(metrics), step=at), run.finish)


def _wandb(out_dir: Path, settings: dict[str, Any], step: int) -> Watcher:
    import wandb  # pyright: ignore[reportMissingImports]

    name = _run_name(out_dir)
    run = wandb.init(project="sanderling", name=name, id=name, dir=str(out_dir), config=settings, resume="allow")
    return Watcher(lambda at, metrics: run.log(dict(metrics), step=at), run.finish)


WATCHERS = {"tensorboard": _tensorboard, "trackio": _trackio, "wandb": _wandb}


def _run_name(out_dir: Path) -> str:
    """The directory's name, and what tells it from others of that name and from what stood there before ``--fresh``."""
    file = out_dir / "watched_as.txt"
    if not file.is_file():
        replace_file(file, f"{out_dir.name}-{uuid4().hex[:8]}")
    return file.read_text(encoding="utf-8")


def check_watchers(names: Sequence[str]) -> None:
    """Before long work: raises UserError for unknown names and missing libraries. Imports none of them."""
    for name in names:
        if name not in WATCHERS:
            raise UserError(f"There is no view {name!r}: choose {', '.join(WATCHERS)}.")
        if find_spec(name) is None:
            raise UserError(f"{name} is not installed: pip install {name}, or leave it out of watch.")
