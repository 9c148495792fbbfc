"""The tiny recipe's supervised stages: the same model and steps, once on everything the teacher wrote, once on what was right.

Both arms run at the same time, one process each, and take the same number of optimizer steps, so that neither has the longer
training. Knows no RL.
"""

from typing import Any

from sanderling.core.chat import load_tokenizer
from sanderling.core.record import Trajectory
from sanderling.recipes.tiny.layout import Layout
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.progress import Report
from sanderling.train.metrics import read_metrics
from sanderling.train.parallel.workers import Task, run_tasks

ARMS = ("sft-all", "sft-correct")
"""On everything the teacher wrote, and on what was judged right."""


def training_set(layout: Layout, arm: str) -> list[Trajectory]:
    """The trajectories of one arm, by id: the store's order depends on which of them ended first."""
    source = layout.data.cleaned if arm == "sft-all" else layout.data.judged
    return sorted(TrajectoryStore(source), key=lambda trajectory: trajectory.id)


def train_arms(layout: Layout, report: Report) -> dict[str, Any]:
    """Train both arms, each in a process of its own."""
    steps = layout.config.sft.max_steps
    if steps is None:
        raise ValueError("the arms are compared at equal steps: sft.max_steps must be set")
    with report.task("SFT, two arms", steps * len(ARMS)) as advance:
        seen = 0

        def poll() -> None:
            nonlocal seen
            done = sum(len(read_metrics(layout.root / arm / "metrics.jsonl")) for arm in ARMS)
            advance(done - seen)
            seen = done

        tasks = [Task(train_arm, (layout, arm)) for arm in ARMS]
        return dict(zip(ARMS, run_tasks(tasks, layout.config.workers, poll), strict=True))


def train_arm(layout: Layout, arm: str) -> dict[str, Any]:
    """One arm, from its trajectories to a model directory; resumes where it was killed."""
    from sanderling.train.encoding import Encoding, Limit
    from sanderling.train.row_source import sft_rows
    from sanderling.train.sft.loop import run_sft

    trajectories = training_set(layout, arm)
    encoding = Encoding(load_tokenizer(layout.base), layout.profile)
    rows, counts = sft_rows(trajectories, encoding, Limit(layout.profile.budgets.max_context_tokens))
    run_sft(layout.config.sft, rows, layout.base, layout.root / arm)
    metrics = read_metrics(layout.root / arm / "metrics.jsonl")
    return {
        "trajectories": len(trajectories),
        "rows": len(rows),
        "too_long": counts.too_long,
        "tokens": int(sum(len(row.ids) for row in rows)),
        "tokens_seen": int(sum(line["tokens"] for line in metrics)),
        "steps": len(metrics),
        "final_nll": metrics[-1]["nll"],
    }
