"""`sanderling rl check-gains`: rollouts that were made before, measured under a model, and the page that says what came of it.

Rollouts are read from stores, runs, or recorded files. Ids of the model's own tokenizer are used as they are; text is rendered
as the loop would have sent it. What is beyond the model's positions is left out of a rollout.
"""

import itertools
import json
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from sanderling.core.chat import load_tokenizer, strip_think_prefix
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.plugins import resolve
from sanderling.core.profiles import get_profile
from sanderling.core.record import NodeKind, Trajectory, turn_indices
from sanderling.core.text import counted_as
from sanderling.data.importing import open_trajectories
from sanderling.judge.rules import OUTCOMES, score_trajectory
from sanderling.judge.verdict import verdict_of
from sanderling.policy.model_directory import check_model, check_vocabulary, load_model, positions_of, read_model_config
from sanderling.report.charts import Bar, Line, bars, curves, figure, legend, note
from sanderling.report.page import render
from sanderling.rl.check_gains import FOREIGN, LEAST_ADDED, LEAST_AUC, GainCheck, check_gains
from sanderling.rl.credit import Assignment, EstimatorConfig, IgpoConfig, build_estimator
from sanderling.rl.gain import GainConfig, find_targets, information_gains
from sanderling.rl.rollouts import broken_turns
from sanderling.rl.table import Graded, build_table
from sanderling.runs.files import or_cannot, replace_file
from sanderling.runs.progress import Report
from sanderling.train.rows import Encoding, branch_pieces

_AT_ONCE = 32  # rollouts between two signs of life


class CheckConfig(Frozen):
    """What is measured."""

    files: tuple[Path, ...] = Field(min_length=1)  # stores, runs or recorded files of rollouts, of each question several
    model: Path  # directory of the model whose gains these are
    profile: str = ""  # how text becomes tokens; by default the rollouts' own profile
    gain: GainConfig = GainConfig()
    estimator: EstimatorConfig = IgpoConfig(assignment=Assignment.OWN_TURN, gamma=0.9)
    """Makes credit of gains, which is held against turns' worth; by default IGPO's ``returns`` by ``own_turn``, γ 0.9."""
    group_size: int | None = Field(default=None, ge=2)
    """Rollouts within which credit is made, as in training; by default all of a question. Turns' worth is by all of them."""
    outcome: str = "exact"  # who scores answers that nobody judged
    most: int = Field(default=1024, ge=1)  # rollouts that are measured, at most


def run_check(config: CheckConfig, out: Path, report: Report, command: str) -> GainCheck:
    """Measure, and write ``gains.json`` and ``gains.html``. Raises UserError."""
    import torch

    from sanderling.train.config import TrainerConfig
    from sanderling.train.scorer import ModelScorer

    with or_cannot(f"write in {out}"):  # told before the work
        out.mkdir(parents=True, exist_ok=True)
    check_model(config.model)
    tokenizer, settings = load_tokenizer(config.model), read_model_config(config.model)
    check_vocabulary(tokenizer.vocab_size, settings.get("vocab_size"))
    rollouts = read_rollouts(config)
    encoding = Encoding(tokenizer, get_profile(config.profile or rollouts[0][0].profile or "dr-venus-4b"))
    rollouts = [(with_ids(one, encoding), outcome) for one, outcome in rollouts]
    targets = find_targets([one for one, _ in rollouts], config.gain)
    batch, cut = graded(rollouts, encoding, positions_of(settings))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    scorer = ModelScorer(load_model(config.model).to(device).eval(), TrainerConfig())
    found: list[Graded] = []
    with report.task("Gains", len(batch)) as advance:
        for at in range(0, len(batch), _AT_ONCE):
            part = batch[at : at + _AT_ONCE]
            gains = information_gains([one.trajectory for one in part], tokenizer, scorer, config.gain, targets)
            found += [replace(one, gains=own) for one, own in zip(part, gains, strict=True)]
            advance(len(part))
    table = build_table(dealt(found, config.group_size))
    credit = build_estimator(config.estimator).components(table)
    check = check_gains(found, table, credit, targets, tokenizer, scorer, config.gain, cut)
    report.say(f"The page is {write_check(check, out, command)}.")
    return check


def read_rollouts(config: CheckConfig) -> list[tuple[Trajectory, float]]:
    """Rollouts with their outcomes: as recorded, by a judge or in an RL run, else by the rule. Raises UserError for none.

    Questions are numbered: in several files, and worlds, an id may name several.
    """
    rule, found = resolve(config.outcome, OUTCOMES, "outcome"), list[tuple[Trajectory, float]]()
    names: dict[tuple[str, str, str], int] = {}
    seen, copies = set[int](), 0
    for one in itertools.chain.from_iterable(map(open_trajectories, config.files)):
        if len(found) == config.most:
            warnings.warn(f"Only the first {config.most:,} rollouts are measured: --set most=… says how many.", stacklevel=2)
            break
        key = hash((one.id, one.seeds, one.model, one.world, one.question.text, *(node.text for node in one.nodes)))
        copies += key in seen
        if one.question.answers and turn_indices(one) and key not in seen:
            seen.add(key)
            verdict, outcome = verdict_of(one), one.meta.get("rl", {}).get("outcome")
            outcome = float(verdict) if verdict is not None else outcome
            outcome = score_trajectory(one, rule) if outcome is None else outcome
            if outcome is not None:
                name = str(names.setdefault((one.question.id, one.question.text, one.world), len(names)))
                question = one.question.model_copy(update={"id": name})
                found.append((one.model_copy(update={"question": question}), outcome))
    if copies:
        warnings.warn(f"Left out, as copies of earlier ones: {counted_as(copies, 'rollout')}.", stacklevel=2)
    if not found:
        raise UserError(
            "No rollout has an outcome and a question with accepted answers: gains cannot be measured without them."
        )
    return found


def graded(rollouts: Sequence[tuple[Trajectory, float]], encoding: Encoding, most: int | None) -> tuple[list[Graded], int]:
    """Rollouts as credit reads them, each up to ``most`` tokens, and how many of them were longer."""
    batch, cut = list[Graded](), 0
    for whole, outcome in rollouts:
        one = within(whole, most)
        cut += one is not whole
        if turn_indices(one):
            penalties = [-1.0 if bad else 0.0 for bad in broken_turns(one, encoding.profile)]
            batch.append(Graded(one, int(one.question.id), outcome, penalties, [False] * len(penalties)))
    if not batch:
        raise UserError(f"Already the first turn of every rollout is beyond the {most or 0:,} tokens that the model reads.")
    return batch, cut


def dealt(batch: Sequence[Graded], size: int | None) -> Sequence[Graded]:
    """The rollouts of each question in groups of ``size``, as they come."""
    if size is None:
        return batch
    count, found = Counter[int](), list[Graded]()
    for one in batch:
        found.append(replace(one, group=one.group * len(batch) + count[one.group] // size))
        count[one.group] += 1
    return found


# -- rollouts as the model reads them ----------------------------------------------------------------------------------------


def with_ids(trajectory: Trajectory, encoding: Encoding) -> Trajectory:
    """The main branch in the model's own ids: those it has, or its text as the loop would have sent it."""
    path, leaf = trajectory.path(), trajectory.leaf
    if trajectory.tokenizer == encoding.tokenizer.fingerprint and trajectory.token_ids() is not None:
        return trajectory
    bare: dict[str, Any] = dict.fromkeys(("token_ids", "loss_mask", "logprobs", "versions"))
    texts = [node.model_copy(update=bare) for node in trajectory.nodes]
    plain = trajectory.model_copy(update={"nodes": tuple(texts), "tokenizer": None})
    assert leaf is not None, "a trajectory with turns has a branch"
    pieces = branch_pieces(plain, leaf, encoding)
    opened = encoding.profile.think_prefix
    nodes = []
    for number, (index, piece) in enumerate(zip(path, pieces, strict=False)):
        node, parent = texts[index], number - 1 if number else None
        text = strip_think_prefix(node.text, opened) if node.kind is NodeKind.TURN else node.text
        nodes.append(node.model_copy(update={"parent": parent, "text": text, "token_ids": tuple(piece.ids)}))
    return plain.model_copy(update={"nodes": tuple(nodes), "leaf": len(nodes) - 1, "tokenizer": encoding.tokenizer.fingerprint})


def within(trajectory: Trajectory, most: int | None) -> Trajectory:
    """A rollout up to the turn with which its main branch would be longer than ``most`` tokens."""
    sizes = itertools.accumulate(len(node.token_ids or ()) for node in trajectory.branch())
    if most is None or sum(len(node.token_ids or ()) for node in trajectory.branch()) <= most:
        return trajectory
    kept = sum(size <= most for size in sizes)
    path = trajectory.path()[:kept]
    nodes = [trajectory.nodes[index].model_copy(update={"parent": at - 1 if at else None}) for at, index in enumerate(path)]
    return trajectory.model_copy(update={"nodes": tuple(nodes), "leaf": kept - 1 if kept else None, "ending": None})


# -- for a person ---------------------------------------------------------------------------------------------------------


def rows_of(check: GainCheck) -> list[tuple[str, str]]:
    """The figures in words."""
    probe = check.probe

    def written(value: object, form: str = "{}") -> str:
        return "these rollouts do not tell" if value is None else form.format(value)

    return [
        (
            "rollouts",
            f"{check.rollouts:,} of {check.questions:,} questions, {check.right:.1%} right, {check.scored:,} turns scored",
        ),
        ("wrong rollouts that miss a needed page", written(check.missed, "{:.0%}")),
        ("milestones measured", f"{check.facts:,}" if check.config.milestones else "not asked for"),
        ("commonest probe", repr(probe.prefix)),
        ("answering turns that hold their probe", written(probe.written, "{:.0%}")),
        ("nats a token of the probe itself", written(probe.probe, "{:.2f}")),
        ("nats a token of answers behind it", written(probe.behind, "{:.2f}")),
        (f"nats a token of answers as written (foreign from {FOREIGN:g} apart)", written(probe.own, "{:.2f}")),
        ("AUC for visits that bring the answer", written(check.auc_final)),
        (f"AUC for visits that bring a fact before it (seen from {LEAST_AUC:g})", written(check.auc_before)),
        ("share of gains' credit within trajectories", written(check.within, "{:.0%}")),
        ("turns whose worth is known", f"{check.known:.0%}"),
        ("R² of outcomes' credit over turns' worth", written(check.outcome_r2)),
        (f"R² that gains' credit adds (worth it from {LEAST_ADDED:g})", written(check.added_r2)),
        ("R² that each turn's own gain would add, which credit may lose", written(check.own_r2)),
        ("R² that knowing needed visits would add", written(check.needed_r2)),
        ("correlation of GRPO's advantages with turns' worth", written(check.outcome_r)),
        ("and of this estimator's, gains and outcomes together", written(check.advantage_r)),
        ("turns that another rollout took after the same calls, as the mode state needs", f"{check.company:.0%}"),
    ]


def write_check(check: GainCheck, directory: Path, command: str) -> Path:
    """``gains.json``, and one page with the figures, plots and the sentence."""
    values: dict[str, Any] = {
        "sentence": check.sentence,
        "worth_it": check.is_worth_it,
        **asdict(check),
        "config": check.config.model_dump(mode="json"),
    }
    replace_file(directory / "gains.json", json.dumps(values, indent=1) + "\n")
    page = directory / "gains.html"
    lines = [
        Line(f"{kind} ({len(values):,})", values, [(at + 1) / len(values) for at in range(len(values))])
        for kind, values in check.gains.items()
        if values
    ]
    aucs = {"brings the answer": check.auc_final, "brings a fact before it": check.auc_before}
    plots = [
        (
            "gains",
            "Gains by what a visit brings",
            figure(
                "Share of visits with at most this gain",
                legend([line.name for line in lines]),
                curves(lines, title="Gains", x_label="gain", y_label="share", percent=True),
                note("Gains that see needed visits keep the lines apart."),
            ),
        ),
        (
            "auc",
            "How well gains tell needed visits from others",
            figure(
                "AUC; 50% is chance",
                bars([Bar(name, auc and auc.value, auc and auc.interval) for name, auc in aucs.items()], title="AUC"),
            ),
        ),
    ]
    replace_file(
        page,
        render(
            "gains.html",
            title="Can information gain teach?",
            summary=check.sentence,
            command=command,
            figures=rows_of(check),
            plots=plots,
        ),
    )
    return page
