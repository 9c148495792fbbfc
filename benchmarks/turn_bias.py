"""Does a policy that controls when it stops gain from mere extra turns? One figure for each estimator and world.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/turn_bias.py

A policy goes on with probability theta at each of its decisions, else it stops; an extra turn brings nothing, and the outcome
does not depend on the number of turns. With s_k the derivative of log pi(a_k) by the logit of going on, the figure is

    pay = E[sum_k A_k s_k] / (theta (1 - theta) E[decisions])

which is the mean advantage of going on less that of stopping, in the advantage's own unit (an outcome's z-score is about 1):
above 0 extra turns are paid, below 0 punished. ``failing`` and ``succeeding`` are the same over trajectories of that outcome
only: what a policy is paid that can tell how it stands. Advantages are those of the package's estimators over whole batches (of
128 trajectories).

An estimator passes in a world when the 95% intervals of all three figures lie within ±0.05. Writes results/turn_bias.{json,md}.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from sanderling.rl.credit import Assignment, Discount, EstimatorConfig, GrpoConfig, IgpoConfig, IgpoMode, build_estimator
from sanderling.rl.table import TurnTable, TurnTool
from sanderling.runs.progress import command_line, machine
from sanderling.train.rows import BoolArray, FloatArray

GROUPS, SIZE, MOST_EXTRA = 16, 8, 30
TOLERANCE = 0.05
SHOWN = ("all", "failing", "succeeding")


@dataclass(frozen=True)
class World:
    """Informative visits (but for noise), extra turns, and an answer."""

    says: str
    before: bool = False
    """Extra turns come before the informative visits and put them off, else after them."""
    visits: bool = True
    """Extra turns are visits, with a gain of 0 or noise, else searches, which have none."""
    facts: int = 1
    """Informative visits: with milestone gains each brings a fact, and its gain is the mean's share of that."""
    gain: float = 1.0
    """Mean of informative visits' gains together, with a standard deviation of half of each's."""
    noise: float = 0.0
    """Standard deviation of extra visits' gains."""
    theta: float = 0.5


WORLDS = {
    "after, unscored": World("visit, extra searches, answer", visits=False),
    "after, zero": World("visit, extra visits with gain 0, answer"),
    "after, zero, bad": World("visit with a negative gain, extra visits with gain 0, answer", gain=-1.0),
    "after, noise": World("visits with gains of mean 0, answer", gain=0.0, noise=1.0),
    "before, unscored": World("extra searches, visit, answer", before=True, visits=False),
    "before, zero": World("extra visits with gain 0, visit, answer", before=True),
    "milestones, after": World("visits that bring a fact each of four, extra visits with gain 0, answer", facts=4),
    "milestones, noise": World(
        "visits that bring a fact each of four, extra visits with gains of mean 0, answer", facts=4, noise=0.1
    ),
    "milestones, before": World(
        "extra visits with gain 0, visits that bring a fact each of four, answer", facts=4, before=True
    ),
    "before, zero, bad": World("extra visits with gain 0, visit with a negative gain, answer", before=True, gain=-1.0),
}


@dataclass(frozen=True)
class Batch:
    """A table, and what the policy's decisions were."""

    table: TurnTable
    score: FloatArray
    """[K] the derivative of log pi by the logit of going on; 0 where nothing was decided."""
    decides: BoolArray
    succeeds: BoolArray
    """[N]"""


def sample(world: World, rng: np.random.Generator) -> Batch:
    """One optimizer batch of trajectories."""
    count = GROUPS * SIZE
    extra = np.minimum(rng.geometric(1.0 - world.theta, count) - 1, MOST_EXTRA)
    turns = extra + world.facts + 1
    owner = np.repeat(np.arange(count), turns)
    turn = np.arange(len(owner)) - (np.cumsum(turns) - turns)[owner]
    answers = turn == turns[owner] - 1
    informs = ~answers & (turn >= extra[owner] if world.before else turn < world.facts)
    decision = turn if world.before else turn - world.facts
    decides = (decision >= 0) & (decision <= extra[owner]) & (decision < MOST_EXTRA)
    goes_on = decision < extra[owner]
    scored = ~answers & (informs | world.visits)
    one = world.gain / world.facts
    gain = np.where(informs, rng.normal(one, 0.5 / world.facts, len(owner)), world.noise * rng.normal(size=len(owner)))
    succeeds = rng.random(count) < 0.5
    visits = np.where(scored, TurnTool.VISIT, TurnTool.SEARCH)
    everywhere = np.ones(len(owner), dtype=np.bool_)
    # Extra turns are all the same call: what was done is told by the turn and, where they come first, by their number so far.
    # That is as much company as `state` can have; where calls differ it pays and charges less.
    done = np.stack([owner // SIZE, turn, np.minimum(extra[owner], turn) if world.before else turn])
    table = TurnTable(
        trajectory=owner,
        group=owner // SIZE,
        turn=turn,
        state=np.unique(done, axis=1, return_inverse=True)[1].reshape(-1),
        tokens=np.ones_like(turn),
        tool=np.where(answers, TurnTool.ANSWER, visits),
        outcome=succeeds[owner].astype(np.float64),
        scored=everywhere,
        gain=np.where(scored, gain, 0.0),
        gain_scored=scored,
        penalty=np.zeros(len(owner)),
        trained=everywhere,
        capped=~everywhere,
    )
    return Batch(table, np.where(decides, np.where(goes_on, 1.0 - world.theta, -world.theta), 0.0), decides, succeeds)


@dataclass(frozen=True)
class Pay:
    """Of a going on, with its standard error."""

    mean: float
    error: float

    @property
    def passes(self) -> bool:
        """Whether the 95% interval is within the tolerance."""
        return abs(self.mean) + 1.96 * self.error <= TOLERANCE

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {1.96 * self.error:.3f}"


def measure(
    configs: Mapping[str, EstimatorConfig], world: World, batches: int, seed: int = 0, *, by_trajectory: bool = False
) -> dict[str, dict[str, Pay]]:
    """Pay by estimator, over all trajectories, failing and succeeding ones; all estimators see the same batches.

    ``by_trajectory``: turns weigh as in a loss that is the mean of each trajectory's mean, not as in the mean over tokens.
    """
    rng = np.random.default_rng(seed)
    estimators = {name: build_estimator(config) for name, config in configs.items()}
    sums = {name: np.zeros((batches, 2)) for name in configs}
    decisions, scores = np.zeros((batches, 2)), np.zeros((batches, 2))
    for number in range(batches):
        batch = sample(world, rng)
        owner = batch.table.trajectory
        weight = 1.0 / np.bincount(owner)[owner] if by_trajectory else np.ones(len(owner))
        of = np.stack([~batch.succeeds, batch.succeeds]).astype(np.float64)
        decisions[number] = of @ np.bincount(owner, weight * batch.decides)
        scores[number] = of @ np.bincount(owner, batch.score)
        for name, estimator in estimators.items():
            sums[name][number] = of @ np.bincount(owner, weight * estimator(batch.table) * batch.score)
    unit = world.theta * (1.0 - world.theta)
    return {name: _pays(values, scores, decisions * unit) for name, values in sums.items()}


def _pays(values: FloatArray, scores: FloatArray, units: FloatArray) -> dict[str, Pay]:
    """By failing and succeeding trajectories of each batch [batches, 2].

    A policy's scores have mean zero, whatever the outcome, so what goes along with them is noise, and taken out.
    """
    for column in (0, 1):
        slope = np.cov(values[:, column], scores[:, column])
        values[:, column] -= slope[0, 1] / slope[1, 1] * scores[:, column]
    found = {}
    for name, columns in zip(SHOWN, ([0, 1], [0], [1]), strict=True):
        value, unit = values[:, columns].sum(1), units[:, columns].sum(1)
        mean = value.sum() / unit.sum()
        found[name] = Pay(float(mean), float((value - mean * unit).std(ddof=1) * np.sqrt(len(value)) / unit.sum()))
    return found


MODES: dict[str, EstimatorConfig] = {
    "grpo (no gains)": GrpoConfig(),
    "state, own_turn, gamma 0": IgpoConfig(mode=IgpoMode.STATE, assignment=Assignment.OWN_TURN),
    **{
        f"{mode.value}, gamma {gamma:g}": IgpoConfig(mode=mode, gamma=gamma)
        for mode in IgpoMode
        if mode is not IgpoMode.STATE
        for gamma in (0.95, 1.0)
    },
}
ASSIGNMENTS: dict[str, EstimatorConfig] = {
    f"{mode.value}, {assignment.value}, gamma {gamma:g}": IgpoConfig(mode=mode, assignment=assignment, gamma=gamma)
    for mode in (IgpoMode.RETURNS, IgpoMode.SCALED_SEPARATE)
    for assignment in Assignment
    for gamma in (0.95, 1.0)
}
DISCOUNTS: dict[str, EstimatorConfig] = {
    "returns, per segment, gamma 0.95": IgpoConfig(discount=Discount.PER_SEGMENT, gamma=0.95),
    "scaled_separate, per segment, gamma 0.95": IgpoConfig(mode=IgpoMode.SCALED_SEPARATE, discount=Discount.PER_SEGMENT),
}
WEIGHED: dict[str, EstimatorConfig] = {
    "grpo (no gains)": GrpoConfig(),
    **{f"returns, gamma {gamma:g}": IgpoConfig(gamma=gamma) for gamma in (0.95, 1.0)},
}
STUDIES: dict[str, tuple[dict[str, EstimatorConfig], Sequence[str], bool]] = {
    "Modes": (MODES, tuple(WORLDS), False),
    "Assignments": (ASSIGNMENTS, ("before, unscored",), False),
    "Discounts": (DISCOUNTS, ("after, zero", "after, unscored", "before, zero", "before, unscored"), False),
    "Losses that are means over trajectories": (WEIGHED, ("after, unscored", "before, unscored"), True),
}
Found = dict[str, dict[str, dict[str, dict[str, Pay]]]]
"""By study, world, estimator and trajectories."""


def report(found: Found) -> str:
    """Tables in Markdown."""
    lines = []
    for study, worlds in found.items():
        lines += [f"## {study}", "", "| world | estimator | all | failing | succeeding | passes |", "|---|---|---|---|---|---|"]
        for world, estimators in worlds.items():
            for name, pays in estimators.items():
                verdict = "yes" if all(pay.passes for pay in pays.values()) else "**no**"
                lines.append(f"| {world} | {name} | " + " | ".join(str(pays[of]) for of in SHOWN) + f" | {verdict} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    began, found = time.perf_counter(), Found()
    for study, (configs, worlds, by_trajectory) in STUDIES.items():
        found[study] = {}
        for world in worlds:
            found[study][world] = measure(configs, WORLDS[world], asked.batches, asked.seed, by_trajectory=by_trajectory)
            print(report({study: {world: found[study][world]}}), flush=True)
    setting = {"batches": asked.batches, "trajectories": asked.batches * GROUPS * SIZE, "group": SIZE, "seed": asked.seed}
    worlds = {name: asdict(world) for name, world in WORLDS.items()}
    figures = {
        study: {
            w: {name: {of: asdict(pay) for of, pay in pays.items()} for name, pays in e.items()} for w, e in by_world.items()
        }
        for study, by_world in found.items()
    }
    told = {
        "command": command_line(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "seconds": round(time.perf_counter() - began),
        "settings": setting,
        "worlds": worlds,
        "pay": figures,
    }
    (asked.out / "turn_bias.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    size = f"{setting['trajectories']:,} trajectories a line, groups of {SIZE}, batches of {GROUPS * SIZE}, seed {asked.seed}"
    head = (
        f"# What a mere extra turn is paid\n\n`{told['command']}`: {size}. Mean ± half a 95% interval; the script's beginning "
    )
    head += "says what it is.\n\n"
    kinds = "\n".join(f"- *{name}*: {world.says}" for name, world in WORLDS.items())
    (asked.out / "turn_bias.md").write_text(head + kinds + "\n\n" + report(found), encoding="utf-8")


if __name__ == "__main__":
    main()
