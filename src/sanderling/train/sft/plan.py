"""``sanderling train plan``: what a run of supervised fine-tuning will take on the devices that are here, or on ones described.

All arithmetic is in `train.plan`; here settings become its questions. Importable without torch.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.train.config import Precision
from sanderling.train.devices import Devices, devices_here
from sanderling.train.fit import Load, Shape, Verdict, judge, lora_parameters, read_shape
from sanderling.train.parallel.launch import check_parallel
from sanderling.train.sft.checks import check_context
from sanderling.train.sft.settings import ParallelKind, SftConfig


@dataclass(frozen=True)
class Plan:
    """A run's needs, and what they were reckoned from."""

    shape: Shape
    load: Load
    devices: Devices
    verdict: Verdict
    batch: str
    """An optimizer step's size, in words."""
    step_tokens: int
    """Most tokens of an optimizer step where every trajectory has one row; nothing says how many rows a forked one has."""

    @property
    def step_seconds(self) -> float | None:
        """About that of such a step, over all devices; None where their speed is not known."""
        peak = self.devices.peak_flops
        if peak is None:
            return None
        per_token = self.verdict.estimate.seconds(peak) / self.verdict.estimate.tokens
        hands = self.load.ranks // self.load.context
        return per_token * max(self.step_tokens / hands, self.load.row_tokens) / self.load.context


def taken_here(config: SftConfig, look: Callable[[], Devices] = devices_here) -> Devices:
    """The devices of this machine that a run of these settings can take: of several GPUs one, where it is one process."""
    found = look()
    return replace(found, count=1) if config.parallel.kind is ParallelKind.NONE else found


def plan_run(config: SftConfig, devices: Devices, row_tokens: int | None = None) -> Plan:
    """What a run of these settings takes. ``row_tokens``: the longest row; None: the limit in the settings.

    Raises UserError when no model is named, nothing says how long rows are, or `train sft` would refuse so many devices.
    """
    if config.model is None:
        raise UserError("There is no model to plan for: give --model, a directory with config.json.")
    shape = read_shape(config.model)
    check_parallel(config.parallel, devices.count)
    check_context(config, config.model)
    longest = row_tokens or config.data.max_tokens or _context(config)
    alone = config.trainer.precision is Precision.BFLOAT16  # then one process is a mesh of one
    sharded = config.parallel.kind is ParallelKind.FSDP and (devices.count > 1 or alone)
    adapters = lora_parameters(shape, config.lora) if config.lora.rank else None
    load = Load(longest, devices.count, sharded, config.parallel.context, adapters)
    # A batch is closed by the trajectory that reaches its tokens.
    tokens = longest * config.batch_trajectories if config.batch_trajectories else config.batch_tokens - 1 + longest
    batch = f"{config.batch_trajectories} trajectories" if config.batch_trajectories else f"{config.batch_tokens:,} tokens"
    return Plan(shape, load, devices, judge(shape, config.trainer, load, devices.room), batch, tokens)


def _context(config: SftConfig) -> int:
    if not config.data.profile:
        raise UserError("Nothing says how long rows are: give --row-tokens, --profile, or data.max_tokens.")
    return get_profile(config.data.profile).budgets.max_context_tokens
