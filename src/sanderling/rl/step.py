"""One step of learning, from groups of rollouts to an update of the weights. Everything here computes; nothing waits.

    groups ─▶ filter ─▶ gains ─▶ table ─▶ credit ─▶ rows ─▶ update

:meth:`Learner.learn` is that line; what it calls stands below it in the same order. *Filtering* says which rollouts are trained
on and which turns get no positive credit (`rollouts`, and the bound on staleness). *Gains* are measured under the very version
that the step updates. The *table* of turns becomes advantages by an estimator (`credit`). *Rows* are the ids that were sampled,
with log-probabilities and advantages: nothing is ever cut or rendered anew.

Under distributed training every method is collective and is given the same arguments on every rank.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile
from sanderling.core.record import Trajectory, turn_indices
from sanderling.rl.check_gains import GainCheck, check_gains
from sanderling.rl.config import RlConfig
from sanderling.rl.credit import Components, build_estimator
from sanderling.rl.gain import Target, find_targets, information_gains
from sanderling.rl.health import age_figures, credit_figures, step_metrics, update_figures
from sanderling.rl.losses import RatioTo, build_loss
from sanderling.rl.rollouts import (
    Group,
    GroupStatus,
    Noise,
    Place,
    broken_turns,
    capped_turns,
    is_flat,
    noise_of,
    oldest_version,
)
from sanderling.rl.table import Graded, TurnTable, build_table
from sanderling.train.checkpoint import load_state, open_weights, save_checkpoint
from sanderling.train.packing import TokenLogprobs
from sanderling.train.rows import Encoding, FloatArray, Row, branch_leaves, check_tokenizer
from sanderling.train.scorer import ModelScorer
from sanderling.train.team import Team
from sanderling.train.trainer import Trainer, row_logprobs

_COMPARABLE = 2  # scored rollouts that a group needs at least to compare
_DIGITS = 6


class Learner:
    """The module that is trained, its optimizer, and how a step's groups change it."""

    def __init__(
        self,
        config: RlConfig,
        encoding: Encoding,
        model_dir: Path,
        checkpoint: Path | None,
        team: Team,
        device: torch.device | str,
    ) -> None:
        """``model_dir``: of the initial model. ``checkpoint``: what it resumes from; None: it begins."""
        self.config, self.encoding, self.model_dir, self.team = config, encoding, model_dir, team
        torch.manual_seed(config.seed)
        self.model = _opened(checkpoint or model_dir, team, device)
        total = config.trainer.total_steps or config.steps * config.updates_per_step
        self.trainer = Trainer(self.model, config.trainer.model_copy(update={"total_steps": total}), team)
        self.step = 0
        """Steps done; with ``updates_per_step`` updates each, or none where nothing was informative."""
        self.credit: list[dict[str, Any]] = []
        """Of the last step, a line for each rollout of the groups that were used."""
        self.gain_check: GainCheck | None = None
        """Whether gains can teach, by the last step, where nothing was updated before it."""
        if checkpoint is not None:
            state = load_state(checkpoint)
            self.trainer.load_state(state)
            self.step = int(state["rl_step"])
        self.reference: TokenLogprobs | None = None
        """A frozen model, laid out over the ranks like the one that is trained."""
        if config.loss.needs_reference:
            self.reference = TokenLogprobs(_opened(model_dir, team, device).requires_grad_(False).eval())
            team.prepare(self.reference)
        self.estimator, self.loss = build_estimator(config.estimator), build_loss(config.loss)
        self.model.eval()

    @property
    def version(self) -> int:
        """Updates behind the weights."""
        return self.trainer.steps

    def learn(self, decided: Sequence[tuple[Group, GroupStatus]]) -> dict[str, float]:
        """One step: credit and updates from the groups that are used; returns its figures.

        Without an informative row nothing is updated. Groups that were dropped show in the figures of behaviour.
        """
        config, profile, version = self.config, self.encoding.profile, self.version
        used = [group for group, status in decided if status is GroupStatus.USED]
        batch, targets = self._measured([one for group in used for one in graded(group, version, config, profile)])
        table = build_table(batch)
        credit = self.estimator.components(table)
        rows = credit_rows(batch, table, credit.total, self.encoding, config.drop_zero_advantage)
        self.credit = list(credit_lines(batch, table, credit, targets, version))
        self.gain_check = None
        if config.gain is not None and version == 0:
            self.gain_check = check_gains(batch, table, credit, targets, self.encoding.tokenizer, self._scorer(), config.gain)
        figures = step_metrics(table, [group for group, _ in decided], profile.tools)
        figures |= credit_figures(credit) | group_figures(decided, version, config)
        trained = {row.trajectory for row in rows}
        figures |= age_figures((one.trajectory for one in batch if one.trajectory.id in trained), version)
        rows = self._with_logprobs(rows)
        updates = [self.trainer.step(share, self.loss) for share in split_updates(rows, config.updates_per_step)]
        self.step += 1
        return {**figures, **update_figures(updates), "updates": len(updates), "version": self.version}

    def _measured(self, batch: list[Graded]) -> tuple[list[Graded], dict[str, tuple[Target, ...]]]:
        """The batch with its gains, and what they are of."""
        if self.config.gain is None:
            return batch, {}
        scored = [index for index, one in enumerate(batch) if one.outcome is not None]
        trajectories = [batch[index].trajectory for index in scored]
        targets = find_targets(trajectories, self.config.gain)
        gains = information_gains(trajectories, self.encoding.tokenizer, self._scorer(), self.config.gain, targets)
        found = dict(zip(scored, gains, strict=True))
        return [replace(one, gains=found.get(index)) for index, one in enumerate(batch)], targets

    def _scorer(self) -> ModelScorer:
        return ModelScorer(self.trainer.scored, self.config.trainer, self.team)

    def _with_logprobs(self, rows: list[Row]) -> list[Row]:
        """Rows with proximal and reference log-probabilities, where the loss reads them.

        With one update a step the weights that are updated are the proximal policy, and losses know that.
        """
        if rows and self.config.loss.ratio_to is RatioTo.PROXIMAL and self.config.updates_per_step > 1:
            found = self.trainer.logprobs(rows)
            rows = [replace(row, proximal_logprobs=values) for row, values in zip(rows, found, strict=True)]
        if rows and self.reference is not None:
            found = row_logprobs(self.reference, rows, self.config.trainer, self.team)
            rows = [replace(row, reference_logprobs=values) for row, values in zip(rows, found, strict=True)]
        return rows

    def weights(self) -> dict[str, Any] | None:
        """The weights by name, not copied; of a sharded model gathered on rank 0, None on the others."""
        return self.trainer.weights() if self.team.sharded else dict(self.model.state_dict())

    def save(self, root: Path) -> None:
        """A checkpoint, from which another process goes on to the same weights."""
        weights, state = (self.trainer.weights(), self.trainer.state())
        if self.team.rank == 0:
            state |= {"rl_step": self.step}
            save_checkpoint(root, self.step, self.model, state, self.model_dir, self.config.keep, weights)


def _opened(directory: Path, team: Team, device: torch.device | str) -> PreTrainedModel:
    model = open_weights(directory, team)
    return model if team.sharded else model.to(device)


# -- who counts ------------------------------------------------------------------------------------------------------------


def why_left_out(group: Group, version: int, config: RlConfig) -> list[Noise | None]:
    """Why each rollout of a group is left out by a step that updates ``version``; None: it is trained on."""
    most = config.pipeline.max_staleness * config.updates_per_step
    found: list[Noise | None] = []
    for one in group.rollouts:
        oldest = oldest_version(one.trajectory)
        stale = oldest is not None and version - oldest > most
        found.append(noise_of(one.trajectory, one.outcome, config.denoise, stale=stale))
    return found


def group_status(group: Group, version: int, config: RlConfig) -> GroupStatus:
    """What becomes of a group that could be taken by a step that updates ``version``."""
    left_out = why_left_out(group, version, config)
    outcomes = [outcome for outcome in compared(group, left_out, config) if outcome is not None]
    enough = min(_COMPARABLE, config.group_size)
    if len(group.outcomes) < max(enough, config.denoise.least_scored * len(group.rollouts)):
        return GroupStatus.UNSCORED
    if len(outcomes) < enough or None not in left_out:
        return GroupStatus.STALE if Noise.STALE in left_out else GroupStatus.NOISY
    return GroupStatus.FLAT if config.denoise.drop_flat and is_flat(outcomes, config.denoise) else GroupStatus.USED


def compared(group: Group, left_out: Sequence[Noise | None], config: RlConfig) -> list[float | None]:
    """The outcomes that the group's statistics are of; None for a rollout that counts in none."""
    counted = {None, Noise.OVER_LONG, Noise.TOO_SHORT} if config.denoise.place is Place.BASELINE else {None}
    return [one.outcome if noise in counted else None for one, noise in zip(group.rollouts, left_out, strict=True)]


def graded(group: Group, version: int, config: RlConfig, profile: Profile) -> Iterator[Graded]:
    """What credit reads of a group's rollouts, but for gains. One without an outcome here counts nowhere."""
    left_out = why_left_out(group, version, config)
    for one, noise, outcome in zip(group.rollouts, left_out, compared(group, left_out, config), strict=True):
        broken = broken_turns(one.trajectory, profile)
        penalties, capped = [-1.0 if bad else 0.0 for bad in broken], capped_turns(one.trajectory, config.denoise, broken)
        yield Graded(one.trajectory, group.number, outcome, penalties, capped, noise and noise.value)


def group_figures(decided: Sequence[tuple[Group, GroupStatus]], version: int, config: RlConfig) -> dict[str, float]:
    """How many groups were used, and dropped for each reason, and how many rollouts are not trained on."""
    statuses = Counter(status for _, status in decided)
    left_out = Counter(noise for group, _ in decided for noise in why_left_out(group, version, config))
    groups = {f"groups_{status.value}": float(statuses[status]) for status in GroupStatus}
    return groups | {f"left_out_{noise.value}": float(left_out[noise]) for noise in Noise}


# -- credit ----------------------------------------------------------------------------------------------------------------


def credit_lines(
    batch: Sequence[Graded],
    table: TurnTable,
    parts: Components,
    targets: Mapping[str, Sequence[Target]],
    version: int,
) -> Iterator[dict[str, Any]]:
    """For a person to read, of each rollout: its outcome, and by turn its tool, gain and credit in parts.

    All are of the batch. ``version``: updates behind the weights that gains were measured under.
    """
    for number, one in enumerate(batch):
        own = np.flatnonzero(table.trajectory == number)
        yield {
            "id": one.trajectory.id,
            "question": one.trajectory.question.id,
            "group": one.group,
            "outcome": one.outcome,
            "left_out": one.left_out,
            "version": version,
            "tools": table.tool[own].tolist(),
            "probe": targets[one.trajectory.question.id][0].probe.prefix if one.trajectory.question.id in targets else None,
            "gains": [float(table.gain[turn]) if table.gain_scored[turn] else None for turn in own],
            "malformed": (table.penalty[own] < 0).tolist(),
            "capped": table.capped[own].tolist(),
            "credit": {part.name: np.round(getattr(parts, part.name)[own], _DIGITS).tolist() for part in fields(parts)},
        }


# -- rows ------------------------------------------------------------------------------------------------------------------


def credit_rows(
    batch: Sequence[Graded], table: TurnTable, advantages: FloatArray, encoding: Encoding, drop_zero: bool
) -> list[Row]:
    """Rows of the trajectories that are trained on; ``advantages`` are of the table's turns [K]."""
    rows: list[Row] = []
    for number, one in enumerate(batch):
        own = advantages[table.trajectory == number]
        if one.outcome is None or one.left_out or not own.size or (drop_zero and not own.any()):
            continue
        rows.extend(rl_rows(one.trajectory, own, encoding))
    return rows


def rl_rows(trajectory: Trajectory, advantages: Sequence[float] | FloatArray, encoding: Encoding) -> list[Row]:
    """One row for each branch; a turn that lies on several is trained on the first only, a rejected attempt on none.

    ``advantages`` has one entry for each of :func:`sanderling.core.record.turn_indices`. Raises UserError for records
    without ids or log-probabilities, or with ids of another tokenizer; ValueError for a wrong number of advantages.
    """
    left = dict(zip(turn_indices(trajectory), map(float, advantages), strict=True))
    check_tokenizer(trajectory, encoding.tokenizer)
    rows: list[Row] = []
    for leaf in branch_leaves(trajectory):
        path = trajectory.path(leaf)
        row = _rl_row(trajectory, path, {node: left.pop(node) for node in path if node in left})
        if row.loss_mask.any():
            rows.append(row)
    return rows


def _rl_row(trajectory: Trajectory, path: Sequence[int], trained: Mapping[int, float]) -> Row:
    """One branch; ``trained`` maps the nodes trained here to their advantages."""
    columns: list[tuple[Sequence[Any], ...]] = []
    """Of each node its ids, which of them are trained, their log-probabilities, and their advantage."""
    for index in path:
        node = trajectory.nodes[index]
        if node.token_ids is None:
            raise UserError(
                f"Trajectory {trajectory.id} has text only, and RL needs the ids that were sampled: "
                "use an in-process policy or an endpoint that returns token ids."
            )
        size = len(node.token_ids)
        if index not in trained:
            columns.append((node.token_ids, [False] * size, [0.0] * size, [0.0] * size))
            continue
        if node.logprobs is None or node.versions is None:
            raise UserError(
                f"Trajectory {trajectory.id} lacks log-probabilities or policy versions, which RL needs: "
                "use a policy that reports them."
            )
        columns.append((node.token_ids, node.loss_mask or [True] * size, node.logprobs, [trained[index]] * size))
    kinds: tuple[Any, ...] = (np.int64, np.bool_, np.float64, np.float64)
    ids, loss_mask, logprobs, advantages = (
        np.concatenate([np.array(part, dtype=kind) for part in parts])
        for parts, kind in zip(zip(*columns, strict=True), kinds, strict=True)
    )
    found = Row(ids, loss_mask, advantages, logprobs)
    return replace(found, trajectory=trajectory.id, group=trajectory.question.id)


def split_updates(rows: Sequence[Row], shares: int) -> list[list[Row]]:
    """Rows in so many parts, trajectory by trajectory in turn: the branches of one stay together. Empty parts are left out."""
    families: dict[str, list[Row]] = {}
    for row in rows:
        families.setdefault(row.trajectory, []).append(row)
    parts = [[row for family in list(families.values())[start::shares] for row in family] for start in range(shares)]
    return [part for part in parts if part]
