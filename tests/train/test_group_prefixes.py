"""Rollouts of one question share what they begin with, and no number changes."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_qwen3 import VOCAB, tiny_model

from sanderling.rl.losses import GspoConfig, PpoConfig, build_loss
from sanderling.train.config import Aggregation, Packing, TrainerConfig
from sanderling.train.contract import Row
from sanderling.train.packed import logprobs
from sanderling.train.packed.attention import packed_attention
from sanderling.train.packed.logprobs import distinct, token_logprobs
from sanderling.train.packed.packing import COPIES, Bundling, collate, common, families, lay_out, neighbours, per_token
from sanderling.train.trainer import Trainer

MODEL = tiny_model(seed=4).double()
tokens = st.integers(0, VOCAB - 1)


@st.composite
def groups(draw: st.DrawFn) -> list[Row]:
    """Rollouts of a few questions, some forked, some the same token for token, some the beginning of another."""
    rows: list[Row] = []
    for group in range(draw(st.integers(1, 2))):
        family: list[list[int]] = []
        for number in range(draw(st.integers(1, 5))):
            model = draw(st.sampled_from(family)) if family else []
            kept = model[: draw(st.integers(0, len(model)) | st.just(len(model)))]
            family.append([*kept, *draw(st.lists(tokens, min_size=2 - min(2, len(kept)), max_size=10))])
            ids = np.array(family[-1])
            trained = np.array([False, *draw(st.lists(st.booleans(), min_size=len(ids) - 1, max_size=len(ids) - 1))])
            if family[-1] in family[:-1] and draw(st.booleans()):  # the very same rollout, as temperatures near 0 give
                trained = rows[-len(family) + 1 + family.index(family[-1])].loss_mask
            credit = draw(st.lists(st.sampled_from([-1.0, 0.5, 2.0]), min_size=len(ids), max_size=len(ids)))
            name = f"g{group}-{number - (number == 2)}"  # the third goes on with the second's trajectory
            rows.append(Row(ids, trained, np.array(credit), np.full(len(ids), -2.0), trajectory=name, group=f"g{group}"))
    return draw(st.permutations(rows))


def plain(rows: Sequence[Row]) -> list[Row]:
    """The rows under names of their own: none shares anything."""
    return [replace(row, trajectory=f"alone {index}", group="") for index, row in enumerate(rows)]


def loss_of(rows: Sequence[Row], batches: Sequence[Sequence[int]], chunk: int):
    """Log-probabilities and entropies by row, and the gradients of a loss in which each token has its own weight."""
    MODEL.zero_grad()
    scored: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    with packed_attention(MODEL):
        for indices in batches:
            batch = collate([rows[i] for i in indices], Packing.VARLEN)
            found = token_logprobs(MODEL, batch, temperature=0.7, entropy=True, logit_chunk=chunk)
            credit = per_token(batch, "advantages")
            assert found.entropy is not None and credit is not None
            (found.logprobs * credit).sum().backward()
            for place, i in enumerate(indices):
                own = batch.row_index == place
                scored[i] = found.logprobs[own].detach(), found.entropy[own]
    return [scored[i] for i in range(len(rows))], [p.grad.clone() for p in MODEL.parameters() if p.grad is not None]


@settings(max_examples=60, deadline=None)
@given(groups(), st.sampled_from([1, 12, 30, 1000]), st.sampled_from([VOCAB * 3, 10**9]))
def test_a_group_gives_the_log_probabilities_entropies_and_gradients_of_its_rows_alone(rows, budget: int, chunk: int):
    together, gradients = loss_of(rows, [bundle.rows for bundle in Bundling(rows).cut(budget)], chunk)
    apart, expected = loss_of(plain(rows), [[index] for index in range(len(rows))], 10**9)
    for one, other in zip(together, apart, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@given(groups(), st.integers(1, 40))
def test_bundles_hold_every_row_once_keep_to_the_budget_and_cost_their_distinct_beginnings(rows: list[Row], budget: int):
    found = Bundling(rows).cut(budget)
    assert sorted(i for bundle in found for i in bundle.rows) == list(range(len(rows)))
    for bundle in found:
        own = [rows[i] for i in bundle.rows]
        beginnings = {tuple(row.ids[: end + 1].tolist()) for row in own for end in range(len(row.ids))}
        assert len({row.group for row in own}) == 1
        assert bundle.tokens == len(beginnings) == len(lay_out(own).ids)
        assert bundle.tokens <= budget or bundle.tokens == max(len(row.ids) for row in own), "but for beginnings of the first"
        copies = sum(last - first for stretch in lay_out(own).stretches for first, last in stretch.prefix)
        assert bundle.copied == copies + bundle.tokens <= max(COPIES * budget, bundle.tokens)


@given(groups())
def test_neighbours_share_most(rows: list[Row]):
    order = neighbours([row.ids for row in rows], range(len(rows)))
    assert [rows[i].ids.tolist() for i in order] == sorted((row.ids.tolist() for row in rows), reverse=True)
    for at in range(1, len(order)):
        shares = [common(rows[i].ids, rows[order[at]].ids) for i in order[:at]]
        assert shares[-1] == max(shares)
    equal = [(a, b) for a, b in pairwise(order) if np.array_equal(rows[a].ids, rows[b].ids)]
    assert all(a < b for a, b in equal)


def test_groups_and_trajectories_of_one_name_are_not_the_same():
    def row(trajectory: str, group: str) -> Row:
        return Row(np.array([1, 2]), np.array([False, True]), trajectory=trajectory, group=group)

    rows = [row("a", "x"), row("b", "x"), row("x", ""), row("x", ""), row("", ""), row("", ""), row("a", "y"), row("", "x")]
    assert families(rows) == [[0, 1, 7], [2, 3], [4], [5], [6]]


def rollouts() -> list[Row]:
    """Two questions' eight rollouts each: five the same, one that stops early, two that go their own way late."""
    rng = np.random.default_rng(1)
    rows = []
    for group in range(2):
        common_ids = rng.integers(0, VOCAB, 60)
        ends = (
            [common_ids] * 5 + [common_ids[:45]] + [np.concatenate((common_ids[:50], rng.integers(0, VOCAB, 12))) for _ in "ab"]
        )
        for number, ids in enumerate(ends):
            mask = np.arange(len(ids)) % 4 > 1
            credit = rng.normal(size=len(ids))
            sampler = np.full(len(ids), -3.0)
            rows.append(Row(ids, mask, credit, sampler, trajectory=f"{group}-{number}", group=f"{group}"))
    return [rows[i] for i in rng.permutation(len(rows))]


def stepped(rows: Sequence[Row], loss, **settings):
    """A step's figures, the weights after it, and the tokens of each forward."""
    model, sizes = tiny_model(seed=1), []
    model.model.embed_tokens.register_forward_hook(lambda _, given, out: sizes.append(given[0].numel()))
    settings = {"micro_batch_tokens": 100, "lr": 1e-3, "eps": 1e-2, "entropy": True, **settings}
    figures = Trainer(model, TrainerConfig(**settings)).step(rows, loss)
    return figures, [p.detach().clone() for p in model.parameters()], sizes


@pytest.mark.parametrize("loss", [build_loss(PpoConfig()), build_loss(GspoConfig())], ids=["ppo", "gspo"])
@pytest.mark.parametrize("aggregation", [Aggregation.TOKEN_MEAN, Aggregation.TRAJECTORY_MEAN])
def test_a_step_over_groups_is_the_step_over_single_rows_and_costs_distinct_tokens(loss, aggregation: Aggregation):
    rows = rollouts()
    figures, weights, sizes = stepped(rows, loss, aggregation=aggregation)
    plain_figures, expected, plain_sizes = stepped(plain(rows), loss, aggregation=aggregation)
    assert sorted(sizes) == [60 + 12 + 12] * 2, "what is the same stands there once"
    assert sum(plain_sizes) == 2 * (5 * 60 + 45 + 2 * 62)
    assert (figures["computed_tokens"], plain_figures["computed_tokens"]) == (sum(sizes), sum(plain_sizes))
    assert figures["tokens"] == sum(plain_sizes), "rows' tokens, shared or not"
    for name in set(figures) - {"seconds", "tokens_per_second", "computed_tokens"}:
        assert figures[name] == pytest.approx(plain_figures[name], abs=2e-5, rel=2e-5), name
    for one, other in zip(weights, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def test_where_each_micro_batch_weighs_the_same_trajectories_are_put_together_as_without_groups():
    rows = rollouts()
    micro = Aggregation.MICRO_BATCH_MEAN
    figures, weights, _ = stepped(rows, build_loss(PpoConfig()), aggregation=micro)
    plain_figures, expected, _ = stepped([replace(row, group="") for row in rows], build_loss(PpoConfig()), aggregation=micro)
    assert figures["loss"] == pytest.approx(plain_figures["loss"], rel=1e-5)
    for one, other in zip(weights, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def test_the_head_sees_each_prediction_once(monkeypatch: pytest.MonkeyPatch):
    rows, seen, real = rollouts(), [], logprobs._scores

    def scores(hidden, *others):
        seen.append(len(hidden))
        return real(hidden, *others)

    monkeypatch.setattr(logprobs, "_scores", scores)
    stepped(rows, build_loss(PpoConfig()), micro_batch_tokens=1000)
    trained = {(row.group, tuple(row.ids[: at + 1].tolist())) for row in rows for at in np.flatnonzero(row.loss_mask)}
    assert sum(seen) == len(trained)


def test_predictions_at_different_temperatures_are_different():
    row = Row(np.array([1, 2, 3]), np.array([False, True, True]), trajectory="a", group="q")
    batch = collate([row, replace(row, trajectory="b"), replace(row, trajectory="c")], Packing.VARLEN)
    heat = torch.tensor([1.0, 1.0, 0.5, 1.0, 1.0, 1.0])
    asked = distinct(replace(batch, temperatures=heat), VOCAB)
    assert asked.spread is not None and asked.temperatures is not None
    assert len(asked.source) == 3
    for every, once in ((batch.source, asked.source), (batch.target, asked.target), (heat, asked.temperatures)):
        assert torch.equal(once[asked.spread], every)
    assert distinct(collate([row], Packing.VARLEN), VOCAB).spread is None


def test_where_nothing_is_predicted_nothing_is_sorted_by_temperature():
    row = Row(np.array([1, 2]), np.zeros(2, dtype=np.bool_))
    batch = replace(collate([row], Packing.VARLEN), temperatures=torch.zeros(0))
    found = distinct(batch, VOCAB)
    assert found.spread is None and len(found.source) == len(found.target) == 0 and found.temperatures is batch.temperatures
