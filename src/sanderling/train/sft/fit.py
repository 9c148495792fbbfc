"""Whether a run fits its devices, judged before the model is loaded, with the rows that there are.

A plan is an estimate: a GPU that is too small by it is a refusal that a person may overrule; memory of the machine, which other
programs share and which may be swapped, is a warning. Importable without torch.
"""

import warnings
from collections.abc import Iterator
from dataclasses import replace

from sanderling.core.errors import UserError
from sanderling.train.config import Packing
from sanderling.train.devices import Devices
from sanderling.train.fit import read_shape
from sanderling.train.row_source import RowIndex
from sanderling.train.sft.plan import Plan, plan_run
from sanderling.train.sft.schedule import schedule
from sanderling.train.sft.settings import SftConfig


def check_fit(config: SftConfig, index: RowIndex, processes: int, devices: Devices, *, anyway: bool) -> None:
    """Raises UserError with what would help when the longest row is too much for a GPU; ``anyway``: warns of it."""
    if not _known(config):
        return
    found = plan_run(_as_they_are(config, index), replace(devices, count=processes), index.survey.longest)
    here = min(processes, devices.count) if devices.gpus else processes
    if devices.gpus and not found.verdict.fits:
        said = found.verdict.sentence.removesuffix(".")
        if not anyway:
            raise UserError(
                f"{said}; --anyway tries it, since this is reckoned (longest row: {index.survey.longest:,} tokens)."
            )
        warnings.warn(f"{said}; going on all the same.", stacklevel=2)
    there = devices.host if devices.gpus else devices.bytes
    if there is None:
        return
    for need, knob in _of_the_machine(found, here, there):
        if need > there:
            warnings.warn(
                f"By the plan this takes {need / 2**30:,.1f} GiB of the machine's memory and there are {there / 2**30:,.1f}: "
                f"if it is killed, try {knob}.",
                stacklevel=2,
            )
            return


def _known(config: SftConfig) -> bool:
    """Whether the model's sizes can be read; one that cannot be planned for may still be trained."""
    try:
        return config.model is not None and read_shape(config.model).parameters > 0
    except UserError:
        return False


def _as_they_are(config: SftConfig, index: RowIndex) -> SftConfig:
    """The settings with a pass no larger than the largest batch, where few or short rows do not fill one."""
    if config.trainer.packing is not Packing.VARLEN:
        return config
    largest = max(int(index.lengths[batch].sum()) for batch in schedule(index.lengths, config))
    most = min(config.trainer.micro_batch_tokens, largest)
    return config.model_copy(update={"trainer": config.trainer.model_copy(update={"micro_batch_tokens": most})})


def _of_the_machine(found: Plan, here: int, there: int) -> Iterator[tuple[int, str]]:
    """Bytes of the machine's memory at the times when they are most, and what makes them fewer.

    Beside GPUs: while the model is read, and while what waits for the backward pass lies beside what is saved.
    """
    estimate = found.verdict.estimate
    if not found.devices.gpus:
        yield here * (estimate.total + estimate.host), "a smaller trainer.micro_batch_tokens or shorter rows"
        return
    less = "a smaller model" if found.load.sharded or here == 1 else "parallel.kind=fsdp, where one process reads the model"
    yield estimate.read * (1 if found.load.sharded else here), less
    less = "trainer.memory.offload=false" if estimate.gathered <= there else "a LoRA (lora.rank), which gathers less to save"
    yield here * estimate.host + estimate.gathered, less
