"""Goodput and throughput of asynchronous RL beside the synchronous run of the same code, on one device.

    OMP_NUM_THREADS=1 python benchmarks/async_rl.py [--quick | --only 0.4 --steps 8 --groups 4]

**Goodput** is the share of the device's time that goes into tokens that reach an optimizer step: sampling of trajectories that
are trained on (but for what was prefilled again), and the updates. The rest is sampling that was discarded (groups without
variance, trajectories too old or denoised), prefilled again, or idle. The synchronous run (``max_staleness`` 0) has its whole
batch under way at once. Goodput counts time: a decode step of two sessions counts as one of twenty does, so what a synchronous
run's last stragglers waste shows in trajectories a second only. ± is a standard error: of a rate over the steps, of a ratio
from those of both. Sampler and trainer take turns with one module on one thread.

What is real: the model (tiny and random), the engine, the trainer, the loop, the pipeline and its ledger. What is drawn: turn
counts (from recorded DR-Venus trajectories), tool latencies (lognormal, median 0.2 s, 99th percentile 20 s) and outcomes (a
share is right); see `async_rl_parts.py`. Tools are not slept for: a clock that counts processor time while the device computes
goes on to the next timer when nothing does, so a busy machine does not blur the figures and host work counts nowhere.

**The assumption** is how long a turn keeps the device, against those latencies; latencies are scaled to the tiny model by it.
For Qwen3-4B on one H200: a recorded turn samples about 280 tokens and reads 800. With contexts of 25,000 tokens (3.7 GB of keys
and values each) 25 sessions fit, and a decode step reads 92 GB of them and 8 GB of weights at about 3.4 TB/s: 1.2 ms a token,
0.33 s a turn; prefill is 13 TFLOP with attention, 0.03 s. So 0.4 s, and 0.1 s where a replica has four such devices, or
contexts are kept short. Nobody has measured these; both are rows here, and so is a device that is four times faster still.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from async_rl_parts import (
    PROFILE,
    TURN_COUNTS,
    Bytes,
    Clock,
    DeviceMeter,
    Directed,
    SkippingLoop,
    Sleeper,
    Watching,
    latency,
    write_model,
)

from sanderling.agent.agent import Agent
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import SystemClock
from sanderling.policy.transformers_policy import TransformersPolicy
from sanderling.rl.config import PipelineConfig, RlConfig
from sanderling.rl.queue import Ledger
from sanderling.rl.rollouts import Actor, Ask, DenoiseConfig, GroupStatus
from sanderling.rl.run import run_rl
from sanderling.rl.step import why_left_out
from sanderling.runs.progress import command_line, machine
from sanderling.train.checkpoint import load_model
from sanderling.train.config import TrainerConfig
from sanderling.train.rows import Encoding

HERE = Path(__file__).parent
GROUP = 8
MEASURED = 8
QUESTIONS = [Question(id=f"q{number}", text="Which?", answers=("yes",)) for number in range(256)]
CALIBRATED = 24
"""Sessions at once by which a turn's device time is measured, about as many as fit in the assumption."""


@dataclass(frozen=True)
class Setting:
    """One run."""

    turn_s: float
    """Seconds that a turn of the model that is stood in for keeps the device."""
    groups: int
    """Groups of a step."""
    staleness: int
    steps: int
    """Steps that are measured, after those in which the queue fills."""

    @property
    def warm(self) -> int:
        return self.staleness + 1


@dataclass(frozen=True)
class Shares:
    """A run's figures; all but the last four are shares of the device's time."""

    goodput: float
    sampling: float
    """Of trajectories that are trained on, nothing counted that was prefilled again."""
    updates: float
    flat: float
    stale: float
    denoised: float
    prefilled_again: float
    idle: float
    trajectories_per_s: float
    """Trained on, by the clock of the model that is stood in for."""
    error: float
    """Its standard error over the steps, as a share of it."""
    oldest: float
    """Mean age of a trajectory's oldest token, in updates."""
    host: float
    """The host's seconds beside one of the device: a tiny model's, and nothing that the clock counts."""


class _EnoughError(Exception):
    """As many steps as were wanted."""


async def episode(policy: Directed, tool: Sleeper, ask: Ask) -> Trajectory:
    """One rollout through the one loop."""
    return await Agent(policy, {"search": tool}, PROFILE, SystemClock()).run(
        ask.question, Seeds(run=0, episode=ask.seed, attempt=ask.attempt), finish_early=ask.finish_early
    )


def policy_over(model: Any) -> Directed:
    """The sampler on the device."""
    return Directed(TransformersPolicy(model, Bytes(), max_batch=1024))


def seconds_a_turn(base: Path) -> float:
    """What a turn of the tiny model takes of the device in a full batch."""
    clock = Clock()

    async def rollouts() -> float:
        model = load_model(base).eval()
        policy, meter = policy_over(model), DeviceMeter(model, clock)
        asks = [Ask(QUESTIONS[0], 0, attempt) for attempt in range(CALIBRATED)]
        await asyncio.gather(*(episode(policy, Sleeper(0.0), ask) for ask in asks))
        return (meter.prefill_seconds + meter.decode_seconds) / policy.turns

    with asyncio.Runner(loop_factory=lambda: SkippingLoop(clock)) as runner:
        return runner.run(rollouts())


def measure(setting: Setting, base: Path, turn: float) -> Shares:
    """Run until the steps are done; ``turn``: the tiny model's seconds a turn."""
    config = RlConfig(
        trainer=TrainerConfig(lr=1e-6),
        steps=10_000,  # the run is stopped: none of its groups is the last, so the queue never drains
        questions_per_step=setting.groups,
        group_size=GROUP,
        save_every=10_000,
        denoise=DenoiseConfig(drop_flat=True),
        pipeline=PipelineConfig(max_staleness=setting.staleness),
    )
    clock = Clock()
    made: list[tuple[Directed, Watching]] = []

    def connect(model: Any) -> Actor:
        policy, tool = policy_over(model), Sleeper(turn / setting.turn_s)
        made.append((policy, Watching(policy, DeviceMeter(model, clock), clock)))
        return Actor(lambda ask: episode(policy, tool, ask), made[0][1])

    def heard(step: int, metrics: Mapping[str, float]) -> None:
        if step == setting.warm + setting.steps:
            raise _EnoughError

    with tempfile.TemporaryDirectory() as out, asyncio.Runner(loop_factory=lambda: SkippingLoop(clock)) as runner:
        running = run_rl(config, QUESTIONS, connect, Encoding(Bytes(), PROFILE), base, Path(out), progress=heard)
        try:
            runner.run(running)
        except _EnoughError:
            return figures(setting, config, Path(out), *made[0], turn / setting.turn_s)
    raise AssertionError


def figures(setting: Setting, config: RlConfig, ledger: Path, policy: Directed, sync: Watching, scale: float) -> Shares:
    """Shares of the time between the last update of the warm-up and the last one."""
    first, last = sync.moments[setting.warm], sync.moments[setting.warm + setting.steps]
    spent: dict[str, float] = defaultdict(float)
    trained, ages = 0, 0.0
    files = Ledger(ledger)
    for step, batch in enumerate(files.batches()[setting.warm :], setting.warm):
        for number, status in batch.items():
            group = files.group(number)
            for rollout, noise in zip(group.rollouts, why_left_out(group, step, config), strict=True):
                trajectory = rollout.trajectory
                used = status is GroupStatus.USED and noise is None
                why = "used" if used else status.value if status is not GroupStatus.USED else str(noise)
                prefilled, sampled = policy.tokens[trajectory.question.id, trajectory.seeds.attempt]
                # What its tokens took, by what one takes in the mean.
                spent[why] += prefilled * last.prefill / last.prefilled + sampled * last.decode / last.sampled
                if used:
                    trained += 1
                    ages += step - min(min(node.versions) for node in trajectory.turns() if node.versions)
    seconds, prefill, decode = last.at - first.at, last.prefill - first.prefill, last.decode - first.decode
    times = [later.at - earlier.at for earlier, later in pairwise(sync.moments[setting.warm :])]
    again = prefill * (last.again - first.again) / max(1, last.prefilled - first.prefilled)
    engine = (prefill + decode - again) / seconds
    share = {why: engine * value / sum(spent.values()) for why, value in spent.items()}
    updates = (last.paused - first.paused) / seconds
    return Shares(
        goodput=share["used"] + updates,
        sampling=share["used"],
        updates=updates,
        flat=share.pop("flat", 0.0),
        stale=share.pop("stale", 0.0),
        denoised=sum(value for why, value in share.items() if why != "used"),
        prefilled_again=again / seconds,
        idle=(last.idle - first.idle) / seconds,
        trajectories_per_s=trained / seconds * scale,
        error=error(times),
        oldest=ages / max(1, trained),
        host=(last.host - first.host) / seconds,
    )


def error(times: Sequence[float]) -> float:
    """Standard error of a rate over steps of these times, relative."""
    return statistics.stdev(times) / statistics.mean(times) / len(times) ** 0.5


def settings(quick: bool, only: float | None, steps: int, groups: int) -> list[list[Setting]]:
    """Runs that are compared: the first of each list is synchronous."""
    if quick:
        return [[Setting(0.1, 1, staleness, 2) for staleness in (0, 2)]]
    found = [
        [
            Setting(0.1, groups, 0, steps),
            Setting(0.1, groups, 2, steps),
            Setting(0.1, groups, 4, steps),
        ],
        [
            Setting(0.4, groups, 0, steps),
            Setting(0.4, groups, 2, steps),
        ],
        [Setting(0.025, groups, 0, steps), Setting(0.025, groups, 8, steps)],
    ]
    return [case for case in found if only in (None, case[0].turn_s)]


INTRODUCTION = """# Asynchronous RL on one device

What is measured, and what is assumed, stands in `benchmarks/async_rl.py`. Sampling and updates make goodput; shares are of the
device's time. *Host beside*: the host's seconds for each of the device's, a tiny model's on one thread; no clock counts them.
"""
HEADER = (
    "| device s a turn | rollouts a step | max_staleness | under way | goodput | sampling | updates | flat | stale | "
    "prefilled again | idle | trajectories/s | to synchronous | mean oldest | host beside |\n"
    "|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def line(setting: Setting, found: Shares, synchronous: Shares) -> str:
    """A row of the table."""
    parts = (found.goodput, found.sampling, found.updates, found.flat, found.stale, found.prefilled_again, found.idle)
    most = setting.groups * (setting.staleness + 1)
    ratio = found.trajectories_per_s / synchronous.trajectories_per_s
    within = "" if found is synchronous else f" ± {ratio * (found.error**2 + synchronous.error**2) ** 0.5:.2f}"
    return (
        f"| {setting.turn_s:g} | {setting.groups * GROUP} | {setting.staleness} | {most * GROUP} | "
        + " | ".join(f"{part:.1%}" for part in parts)
        + f" | {found.trajectories_per_s:.3f} ± {found.error:.0%} | {ratio:.2f}{within} | {found.oldest:.2f} "
        + f"| {found.host:.0%} |"
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one pair of short runs; nothing is written")
    parser.add_argument("--only", type=float, help="the runs of one figure of device seconds a turn")
    parser.add_argument("--steps", type=int, default=MEASURED, help="steps that are measured of each run")
    parser.add_argument("--groups", type=int, default=1, help=f"groups of {GROUP} rollouts a step")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        base = write_model(Path(directory))
        turn = seconds_a_turn(base)
        print(f"a turn of the tiny model: {turn * 1000:.2f} ms\n\n{HEADER}", flush=True)
        rows: list[dict[str, Any]] = []
        for case in settings(given.quick, given.only, given.steps, given.groups):
            synchronous = None
            for setting in case:
                found = measure(setting, base, turn)
                synchronous = synchronous or found
                rows.append({**asdict(setting), **asdict(found)})
                print(line(setting, found, synchronous), flush=True)
                if not given.quick:
                    write(rows, turn)


def write(rows: list[dict[str, Any]], turn: float) -> None:
    """The results, as data and as a table, beside those of other commands."""
    file = HERE / "results" / "async_rl.json"
    drawn = sorted(latency("q", attempt, 0) for attempt in range(20_000))
    about = {
        "command": command_line(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "tiny_turn_s": turn,
        "turn_counts": TURN_COUNTS,
        "latency_s": {"median": drawn[10_000], "p99": drawn[19_800], "mean": sum(drawn) / len(drawn)},
        "runs": rows,
    }
    known = json.loads(file.read_text()) if file.is_file() else []
    reports = [*(one for one in known if one["command"] != about["command"]), about]
    file.write_text(json.dumps(reports, indent=1) + "\n")
    file.with_suffix(".md").write_text(tables(reports))


def tables(reports: Sequence[dict[str, Any]]) -> str:
    """What every command found, for reading."""
    text = INTRODUCTION
    for report in reports:
        text += f"\n`{report['command']}`; {report['machine']}; {report['date']}."
        text += f" {report.get('note', '')}".rstrip() + f"\n\n{HEADER}\n"
        synchronous: dict[float, Shares] = {}
        for row in report["runs"]:
            setting = Setting(**{name: row[name] for name in Setting.__dataclass_fields__ if name in row})
            found = Shares(**{name: row[name] for name in Shares.__dataclass_fields__})
            text += line(setting, found, synchronous.setdefault(setting.turn_s, found)) + "\n"
    return text


if __name__ == "__main__":
    main()
