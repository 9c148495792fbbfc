"""The learning half of an RL run: a step's groups to gains, credit, rows and updates. Everything here computes; nothing waits.

In a team every method is collective and is handed the same on every rank. All gains of a step are measured under the version
that it updates.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from sanderling.data.show import CreditLine
from sanderling.policy.model_directory import load_empty
from sanderling.rl.config import RlConfig
from sanderling.rl.contract import Fate, Group
from sanderling.rl.credit import build_estimator
from sanderling.rl.credit.table import Graded, build_table
from sanderling.rl.credit_lines import credit_lines
from sanderling.rl.denoise import turn_penalties
from sanderling.rl.figures import age_figures, credit_figures, step_metrics, update_figures
from sanderling.rl.losses import Watching, build_loss
from sanderling.rl.measuring import Measured, measure, with_proximal, with_reference
from sanderling.rl.rows import rl_rows
from sanderling.rl.sifting import Sifted, left_out, sift
from sanderling.train.checkpoint import load_model, load_state, reads_weights, save_checkpoint
from sanderling.train.contract import FloatArray, Row
from sanderling.train.encoding import Encoding
from sanderling.train.packed.logprobs import TokenLogprobs
from sanderling.train.parallel.team import Team
from sanderling.train.row_source import grouped
from sanderling.train.trainer import Trainer


@dataclass(frozen=True)
class Source:
    """Where the weights come from."""

    model_dir: Path
    """What the run began with."""
    checkpoint: Path | None
    """Where it goes on from; None: from the beginning."""


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

    def weights(self) -> dict[str, Any] | None:
        """The weights by name, not copied; of a sharded model gathered on rank 0, None on the others."""
        return self.trainer.weights() if self.team.sharded else dict(self.model.state_dict())

    def learn(self, settled: Sequence[tuple[Group, Fate]]) -> dict[str, float]:
        """One step: credit and updates from the groups that are used; returns its figures.

        Without an informative row nothing is updated. Groups that were dropped show in the figures of behaviour.
        """
        profile, used = self.encoding.profile, [group for group, fate in settled if fate is Fate.USED]
        sifted = self._sifted(used)
        measured = measure(sifted, self.config, self.encoding, self.trainer, self.team)
        batch = self._graded(sifted, measured)
        table = build_table(batch)
        parts = self.estimator.components(table)
        self.credit = tuple(credit_lines(sifted, batch, table, parts, self.version))
        advantages = parts.total
        groups = [group for group, _ in settled]
        metrics = step_metrics(batch, table, advantages, groups=groups, tools=profile.tools)
        metrics |= left_out(self._sifted(groups))
        metrics |= credit_figures(parts) | fates(settled)
        rows = credit_rows(batch, table.trajectory, advantages, self.encoding, self.config.drop_zero_advantage)
        trained = {row.trajectory for row in rows}
        metrics |= age_figures([one.trajectory for one in batch if one.trajectory.id in trained], self.version)
        rows = with_proximal(rows, measured, self.config, self.trainer)
        rows = with_reference(rows, self.reference, self.config, self.team)
        updates = [self.trainer.step(share, self.loss) for share in dealt(rows, self.config.updates_per_step)]
        self.step += 1
        return {**metrics, **update_figures(updates), "updates": len(updates), "version": self.version}

    def _sifted(self, groups: Sequence[Group]) -> list[Sifted]:
        profile = self.encoding.profile
        return [one for group in groups for one in sift(group, self.version, self.config, profile)]

    def save(self, root: Path) -> None:
        """A checkpoint, from which another process goes on to the same weights."""
        weights, state = (self.trainer.weights(), self.trainer.state())
        if self.team.rank == 0:
            state |= {"rl_step": self.step}
            save_checkpoint(root, self.step, self.model, state, self.source.model_dir, self.config.keep, weights)

    def _graded(self, sifted: Sequence[Sifted], measured: Measured) -> list[Graded]:
        """What credit reads."""
        return [
            Graded(
                one.ended.trajectory,
                one.outcome,
                turn_penalties(one.ended.trajectory, self.encoding.profile),
                gains,
                trained=one.left_out is None,
                capped=one.capped,
                group=one.group,
            )
            for one, gains in zip(sifted, measured.gains, strict=True)
        ]


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


def credit_rows(
    batch: Sequence[Graded], trajectory: FloatArray | np.ndarray, advantages: FloatArray, encoding: Encoding, drop_zero: bool
) -> list[Row]:
    """Rows of the trajectories that are trained on. ``trajectory`` and ``advantages`` are a table's columns [K]."""
    rows: list[Row] = []
    for number, graded in enumerate(batch):
        own = advantages[trajectory == number]
        if graded.outcome is None or not graded.trained or not own.size or (drop_zero and not own.any()):
            continue
        rows.extend(rl_rows(graded.trajectory, own, encoding))
    return rows


def dealt(rows: Sequence[Row], shares: int) -> list[list[Row]]:
    """Rows in so many parts, trajectory by trajectory in turn: the branches of one stay together. Empty parts are left out."""
    families = grouped([row.trajectory for row in rows])
    parts = [[rows[index] for family in families[start::shares] for index in family] for start in range(shares)]
    return [part for part in parts if part]


def fates(settled: Sequence[tuple[Group, Fate]]) -> dict[str, float]:
    """How many groups were used, and dropped for each reason."""
    counts = Counter(fate for _, fate in settled)
    return {f"groups_{fate.value}": counts[fate] for fate in Fate}
