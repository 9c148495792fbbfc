"""What a person sees of a run under way: a line of figures below the bar, and a sentence before each stage. Pure."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sanderling.recipes.rl.config import Stage

ALARM = "alarm_"
"""How the names of alarms begin in metrics."""


def figures(lines: Sequence[Mapping[str, Any]]) -> str:
    """The last step's line: reward, groups with signal, age in updates, the trainer's share of time that it did not wait."""
    last = lines[-1]
    parts = [f"reward {last.get('reward', 0.0):.2f}"]
    held_out = next((line["held_out"] for line in reversed(lines) if "held_out" in line), None)
    if held_out is not None:
        parts.append(f"held out {held_out:.2f}")
    parts.append(f"signal {last.get('groups_with_signal', 0.0):.0%}")
    parts.append(f"age {last.get('age', 0.0):.1f}")
    if last.get("seconds"):
        parts.append(f"learning {1 - last.get('wait_seconds', 0.0) / last['seconds']:.0%}")
    alarms = [name.removeprefix(ALARM) for name, value in last.items() if name.startswith(ALARM) and value]
    return ", ".join(parts) + (f"; ALARM: {', '.join(alarms)}" if alarms else "")


def told(stage: Stage, questions: int, model: Path, done: int) -> str:
    """What a stage is about to do."""
    rl = stage.rl
    where = f"Stage {stage.name}: " if stage.name else ""
    again = f" Goes on after step {done:,}." if done else ""
    return (
        f"{where}{questions:,} questions, {rl.questions_per_step} a step with {rl.group_size} rollouts each, {rl.steps:,} "
        f"steps from {model}.{again}"
    )


def chosen(stage: Stage, measured: Sequence[Mapping[str, Any]]) -> str:
    """Which model held-out questions have chosen; empty where nothing was measured."""
    if not measured:
        return ""
    best = max(measured, key=lambda line: line["held_out"])  # the first of several, as it was kept
    where = f"Stage {stage.name}: held-out" if stage.name else "Held-out"
    if best["step"] == 0:
        return (
            f"{where} questions chose the model that training began with ({best['held_out']:.1%} right): none of the "
            f"{stage.rl.steps:,} steps led to a better one."
        )
    began = f", {measured[0]['held_out']:.1%} before any" if measured[0]["step"] == 0 else ""
    return (
        f"{where} questions chose the model after step {best['step']:,} of {stage.rl.steps:,} "
        f"({best['held_out']:.1%} right{began})."
    )
