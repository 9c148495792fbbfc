"""One step of learning, from groups of rollouts to an update of the weights. Everything here computes; nothing waits.

    groups ─▶ filter ─▶ gains ─▶ table ─▶ credit ─▶ rows ─▶ update

:meth:`Learner.learn` is that line; what it calls stands below it in the same order. *Filtering* says which rollouts are trained
on, which count only in their group's baseline, and which turns get no positive credit (`denoise`, and the bound on staleness).
*Gains* and *proximal* log-probabilities are measured under the very version that the step updates, in one pass where both are
wanted. The *table* of turns is what an estimator (`credit`) turns into advantages. *Rows* are the ids that were sampled, with
log-probabilities, versions and advantages: nothing is ever cut or rendered anew.

Under distributed training every method is collective and is given the same arguments on every rank.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile
from sanderling.core.record import CreditLine, CreditParts, Trajectory, turn_indices
from sanderling.policy.model_directory import load_empty
from sanderling.rl import denoise
from sanderling.rl.config import RlConfig
from sanderling.rl.contract import FinishedRollout, Group, GroupStatus, oldest_version
from sanderling.rl.credit import build_estimator
from sanderling.rl.credit.table import Components, Graded, TurnTable, build_table
from sanderling.rl.gain import gains_and_logprobs, information_gains
from sanderling.rl.health import age_figures, credit_figures, step_metrics, update_figures
from sanderling.rl.losses import Watching, build_loss
from sanderling.runs.files import replace_file
from sanderling.train.checkpoint import load_model, load_state, reads_weights, save_checkpoint
from sanderling.train.contract import FloatArray, Row
from sanderling.train.encoding import Encoding, branch_leaves, check_tokenizer
from sanderling.train.packed.logprobs import TokenLogprobs
from sanderling.train.packed.scorer import ModelScorer
from sanderling.train.parallel.team import Team
from sanderling.train.trainer import Trainer, row_logprobs

STALE = "stale"
"""Why a rollout is left out that is older than the bound on staleness."""
_COMPARABLE = 2
"""Scored rollouts that a group needs at least to compare."""
_DIGITS = 6


@dataclass(frozen=True)
class Source:
    """Where the weights come from."""

    model_dir: Path
    """The initial model directory."""
    checkpoint: Path | None
    """The checkpoint that it resumes from; None: it begins."""


class Learner:
    """The module that is trained, its optimizer, and how a step's groups change it."""

    def __init__(self, config: RlConfig, encoding: Encoding, source: Source, team: Team, device: torch.device | str) -> None:
        self.config, self.encoding, self.source, self.team = config, encoding, source, team
        torch.manual_seed(config.seed)
        self.model = _opened(source.checkpoint or source.model_dir, team, device)
        total = config.trainer.total_steps or config.steps * config.updates_per_step
        self.trainer = Trainer(self.model, config.trainer.model_copy(update={"total_steps": total}), team)
        self.step = 0
        """Steps done; with ``updates_per_step`` updates each, or none where nothing was informative."""
        self.credit: tuple[CreditLine, ...] = ()
        """Of the last step, a line for each rollout of the groups that were used."""
        if source.checkpoint is not None:
            state = load_state(source.checkpoint)
            self.trainer.load_state(state)
            self.step = int(state["rl_step"])
        self.reference = _frozen(source.model_dir, team, device) if config.loss.needs_reference else None
        self.estimator, self.loss = build_estimator(config.estimator), Watching(build_loss(config.loss))
        self.model.eval()

    @property
    def version(self) -> int:
        """Updates behind the weights."""
        return self.trainer.steps

    def learn(self, decided: Sequence[tuple[Group, GroupStatus]]) -> dict[str, float]:
        """One step: credit and updates from the groups that are used; returns its figures.

        Without an informative row nothing is updated. Groups that were dropped show in the figures of behaviour.
        """
        config, encoding, groups = self.config, self.encoding, [group for group, _ in decided]
        filtered = self._filtered([group for group, status in decided if status is GroupStatus.USED])
        measured = measure(filtered, config, encoding, self.trainer, self.team)
        batch = [_graded(one, gains, encoding.profile) for one, gains in zip(filtered, measured.gains, strict=True)]
        table = build_table(batch)
        credit = self.estimator.components(table)
        rows = credit_rows(batch, table, credit.total, encoding, config.drop_zero_advantage)
        self.credit = tuple(credit_lines(filtered, batch, table, credit, self.version))
        figures = step_metrics(batch, table, credit.total, groups=groups, tools=encoding.profile.tools)
        figures |= left_out(self._filtered(groups)) | credit_figures(credit) | status_counts(decided)
        trained = {row.trajectory for row in rows}
        figures |= age_figures([one.trajectory for one in batch if one.trajectory.id in trained], self.version)
        rows = with_proximal(rows, measured, config, self.trainer)
        rows = with_reference(rows, self.reference, config, self.team)
        updates = [self.trainer.step(share, self.loss) for share in split_updates(rows, config.updates_per_step)]
        self.step += 1
        return {**figures, **update_figures(updates), "updates": len(updates), "version": self.version}

    def weights(self) -> dict[str, Any] | None:
        """The weights by name, not copied; of a sharded model gathered on rank 0, None on the others."""
        return self.trainer.weights() if self.team.sharded else dict(self.model.state_dict())

    def save(self, root: Path) -> None:
        """A checkpoint, from which another process goes on to the same weights."""
        weights, state = (self.trainer.weights(), self.trainer.state())
        if self.team.rank == 0:
            state |= {"rl_step": self.step}
            save_checkpoint(root, self.step, self.model, state, self.source.model_dir, self.config.keep, weights)

    def _filtered(self, groups: Sequence[Group]) -> "list[FilteredRollout]":
        return [one for group in groups for one in filter_group(group, self.version, self.config, self.encoding.profile)]


def _opened(directory: Path, team: Team, device: torch.device | str) -> PreTrainedModel:
    """The model in a directory; where ranks hold shards, without weights on those that do not read them."""
    if not reads_weights(team):
        with torch.device("meta"):
            return load_empty(directory, torch.float32)
    model = load_model(directory)
    return model if team.sharded else model.to(device)


def _frozen(directory: Path, team: Team, device: torch.device | str) -> TokenLogprobs:
    """A model that is only asked, laid out over the ranks like the one that is trained."""
    scored = TokenLogprobs(_opened(directory, team, device).requires_grad_(False).eval())
    team.prepare(scored)
    return scored


# -- who counts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FilteredRollout:
    """A rollout, and what it counts for."""

    rollout: FinishedRollout
    group: int
    """Its group's number."""
    left_out: str | None
    """Why it is not trained on: a Noise, or STALE."""
    outcome: float | None
    """What counts in its group's statistics; None: nothing does."""
    capped: tuple[bool, ...]
    """For each turn: it gets no positive credit."""


def filter_group(group: Group, version: int, config: RlConfig, profile: Profile) -> list[FilteredRollout]:
    """Each rollout of a group, seen from a step that updates ``version``; the stale ones are out of its statistics, too."""
    stale = [_is_stale(one, version, config) for one in group.rollouts]
    fresh = [(one.trajectory, one.outcome) for one, old in zip(group.rollouts, stale, strict=True) if not old]
    # Denoised without the stale ones, which take no other's place among those that are kept.
    others = iter(denoise.denoise_group(fresh, config.denoise, profile, config.seed))
    found = []
    for rollout, old in zip(group.rollouts, stale, strict=True):
        if old:
            found.append(FilteredRollout(rollout, group.number, STALE, None, (False,) * len(turn_indices(rollout.trajectory))))
        else:
            one = next(others)
            found.append(FilteredRollout(rollout, group.number, one.noise and one.noise.value, one.outcome, one.capped))
    return found


def _is_stale(rollout: FinishedRollout, version: int, config: RlConfig) -> bool:
    """Whether its oldest token is too old. An outage is never stale: it is counted as an outage."""
    oldest = oldest_version(rollout.trajectory)
    if oldest is None or denoise.is_outage(rollout.trajectory, rollout.outcome):
        return False
    return version - oldest > config.pipeline.max_staleness * config.updates_per_step


def group_status(group: Group, version: int, config: RlConfig, profile: Profile) -> GroupStatus:
    """What becomes of a group that could be taken by a step that updates ``version``."""
    filtered = filter_group(group, version, config, profile)
    outcomes = [one.outcome for one in filtered if one.outcome is not None]
    enough = min(_COMPARABLE, config.group_size)
    if len(group.outcomes) < max(enough, config.denoise.least_scored * len(group.rollouts)):
        return GroupStatus.UNSCORED
    if len(outcomes) < enough:
        return GroupStatus.STALE if any(one.left_out == STALE for one in filtered) else GroupStatus.NOISY
    return GroupStatus.FLAT if config.denoise.drop_flat and denoise.is_flat(outcomes, config.denoise) else GroupStatus.USED


def status_counts(decided: Sequence[tuple[Group, GroupStatus]]) -> dict[str, float]:
    """How many groups were used, and dropped for each reason."""
    counts = Counter(status for _, status in decided)
    return {f"groups_{status.value}": counts[status] for status in GroupStatus}


def left_out(filtered: Iterable[FilteredRollout]) -> dict[str, float]:
    """How many rollouts are not trained on, by reason, and how many turns are capped; all reasons, for a log."""
    rollouts = list(filtered)
    counts = Counter(one.left_out for one in rollouts)
    reasons = (*(noise.value for noise in denoise.Noise), STALE)
    return {**{f"left_out_{name}": counts[name] for name in reasons}, "capped_turns": sum(sum(one.capped) for one in rollouts)}


# -- gains and log-probabilities before credit ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Information gains and log-probabilities before the update."""

    gains: list[list[float | None] | None]
    """For each rollout its turns' gains; None: not measured."""
    proximal: dict[str, list[FloatArray]] = field(default_factory=dict)
    """By trajectory, for each of its rows [T]; empty: not asked, or not yet."""


def measure(
    filtered: Sequence[FilteredRollout], config: RlConfig, encoding: Encoding, trainer: Trainer, team: Team
) -> Measured:
    """Gains of every rollout that counts, and proximal log-probabilities where they come in the same pass."""
    gains: list[list[float | None] | None] = [None] * len(filtered)
    if config.gain is None:
        return Measured(gains)
    counted = [index for index, one in enumerate(filtered) if one.outcome is not None]
    trajectories = [filtered[index].rollout.trajectory for index in counted]
    scorer = ModelScorer.of(trainer.scored, config.trainer, team)
    proximal: dict[str, list[FloatArray]] = {}
    if needs_proximal(config):
        rows = [rl_rows(one, np.zeros(len(turn_indices(one))), encoding) for one in trajectories]  # before there is credit
        found, logprobs = gains_and_logprobs(trajectories, rows, encoding.tokenizer, scorer, config.gain)
        proximal = {trajectory.id: own for trajectory, own in zip(trajectories, logprobs, strict=True)}
    else:
        found = information_gains(trajectories, encoding.tokenizer, scorer, config.gain)
    for index, values in zip(counted, found, strict=True):
        gains[index] = values
    return Measured(gains, proximal)


def needs_proximal(config: RlConfig) -> bool:
    """Whether rows bring the log-probabilities before the step's first update.

    With one update a step the weights that are updated are the proximal policy, and losses know that.
    """
    return config.loss.needs_proximal and config.updates_per_step > 1


def with_proximal(rows: list[Row], measured: Measured, config: RlConfig, trainer: Trainer) -> list[Row]:
    """Rows with proximal log-probabilities, where the loss reads them."""
    if not rows or not needs_proximal(config):
        return rows
    if not measured.proximal:
        found = trainer.logprobs(rows)
        return [replace(row, proximal_logprobs=values) for row, values in zip(rows, found, strict=True)]
    ahead = {name: iter(own) for name, own in measured.proximal.items()}
    return [replace(row, proximal_logprobs=next(ahead[row.trajectory])) for row in rows]


def with_reference(rows: list[Row], reference: TokenLogprobs | None, config: RlConfig, team: Team) -> list[Row]:
    """Rows with the log-probabilities under a frozen model, where there is one."""
    if not rows or reference is None:
        return rows
    found = row_logprobs(reference, rows, config.trainer, team)
    return [replace(row, reference_logprobs=values) for row, values in zip(rows, found, strict=True)]


# -- credit ----------------------------------------------------------------------------------------------------------------


def _graded(one: FilteredRollout, gains: list[float | None] | None, profile: Profile) -> Graded:
    """What credit reads of a rollout."""
    trajectory = one.rollout.trajectory
    penalties = denoise.turn_penalties(trajectory, profile)
    return Graded(trajectory, one.outcome, penalties, gains, one.left_out is None, one.capped, one.group)


def credit_lines(
    filtered: Sequence[FilteredRollout], batch: Sequence[Graded], table: TurnTable, parts: Components, version: int
) -> Iterator[CreditLine]:
    """What each turn was credited with, for a person to read: a line for each rollout, in their order.

    ``filtered`` and ``batch`` are parallel, ``table`` and ``parts`` are of the batch. ``version``: updates behind the weights
    that gains were measured under.
    """

    def rounded(values: FloatArray) -> tuple[float, ...]:
        return tuple(round(float(value), _DIGITS) for value in values)

    for number, (one, graded) in enumerate(zip(filtered, batch, strict=True)):
        own = np.flatnonzero(table.trajectory == number)
        yield CreditLine(
            id=graded.trajectory.id,
            question=graded.trajectory.question.id,
            group=one.group,
            outcome=graded.outcome,
            left_out=one.left_out,
            tools=tuple(map(str, table.tool[own])),
            gains=tuple(float(table.gain[turn]) if table.gain_scored[turn] else None for turn in own),
            malformed=tuple(map(bool, table.penalty[own] < 0)),
            capped=tuple(map(bool, table.capped[own])),
            credit=CreditParts(
                outcome=rounded(parts.outcome[own]), gain=rounded(parts.gain[own]), penalty=rounded(parts.penalty[own])
            ),
            version=version,
        )


def write_credit(path: Path, lines: Sequence[CreditLine]) -> None:
    """Put the file there, whole or not at all; a step that is made again after a kill writes the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, "".join(line.model_dump_json() + "\n" for line in lines))


# -- rows ------------------------------------------------------------------------------------------------------------------


def credit_rows(
    batch: Sequence[Graded], table: TurnTable, advantages: FloatArray, encoding: Encoding, drop_zero: bool
) -> list[Row]:
    """Rows of the trajectories that are trained on; ``advantages`` are of the table's turns [K]."""
    rows: list[Row] = []
    for number, graded in enumerate(batch):
        own = advantages[table.trajectory == number]
        if graded.outcome is None or not graded.trained or not own.size or (drop_zero and not own.any()):
            continue
        rows.extend(rl_rows(graded.trajectory, own, encoding))
    return rows


def rl_rows(trajectory: Trajectory, advantages: Sequence[float] | FloatArray, encoding: Encoding) -> list[Row]:
    """One row for each branch; a turn that lies on several is trained on the first only, a rejected attempt on none.

    ``advantages`` has one entry for each of :func:`sanderling.core.record.turn_indices`. Raises UserError for records
    without ids or log-probabilities, or with ids of another tokenizer; ValueError for a wrong number of advantages.
    """
    turns = {node: turn for turn, node in enumerate(turn_indices(trajectory))}
    if len(advantages) != len(turns):
        raise ValueError(f"trajectory {trajectory.id}: {len(advantages)} advantages for {len(turns)} turns")
    check_tokenizer(trajectory, encoding.tokenizer)
    rows: list[Row] = []
    trained: set[int] = set()
    for leaf in branch_leaves(trajectory):
        path = trajectory.path(leaf)
        row = _rl_row(trajectory, path, {n: t for n, t in turns.items() if n in path and n not in trained}, advantages)
        trained.update(n for n in path if n in turns)
        if row.loss_mask.any():
            rows.append(row)
    return rows


def _rl_row(
    trajectory: Trajectory, path: Sequence[int], turns: dict[int, int], advantages: Sequence[float] | FloatArray
) -> Row:
    """One branch; ``turns`` maps the nodes trained here to their turn index."""
    ids: list[int] = []
    mask, advantage, logprobs, versions, turn = ([] for _ in range(5))
    for index in path:
        node = trajectory.nodes[index]
        if node.token_ids is None:
            raise UserError(
                f"Trajectory {trajectory.id} has text only, and RL needs the ids that were sampled: "
                "use an in-process policy or an endpoint that returns token ids."
            )
        size = len(node.token_ids)
        ids += node.token_ids
        if index not in turns:
            mask += [False] * size
            advantage += [0.0] * size
            logprobs += [0.0] * size
            versions += [-1] * size
            turn += [-1] * size
            continue
        if node.logprobs is None or node.versions is None:
            raise UserError(
                f"Trajectory {trajectory.id} lacks log-probabilities or policy versions, which RL needs: "
                "use a policy that reports them."
            )
        mask += node.loss_mask or [True] * size
        advantage += [float(advantages[turns[index]])] * size
        logprobs += node.logprobs
        versions += node.versions
        turn += [turns[index]] * size
    return Row(
        ids=np.array(ids, dtype=np.int64),
        loss_mask=np.array(mask, dtype=np.bool_),
        advantages=np.array(advantage, dtype=np.float64),
        sampler_logprobs=np.array(logprobs, dtype=np.float64),
        versions=np.array(versions, dtype=np.int64),
        turn=np.array(turn, dtype=np.int64),
        trajectory=trajectory.id,
        group=trajectory.question.id,
    )


def split_updates(rows: Sequence[Row], shares: int) -> list[list[Row]]:
    """Rows in so many parts, trajectory by trajectory in turn: the branches of one stay together. Empty parts are left out."""
    families: dict[str, list[Row]] = {}
    for row in rows:
        families.setdefault(row.trajectory, []).append(row)
    parts = [[row for family in list(families.values())[start::shares] for row in family] for start in range(shares)]
    return [part for part in parts if part]
