"""A step's figures: each against a count by hand, and no NaN anywhere."""

import math

import numpy as np
import pytest
import torch
from train_records import record

from sanderling.core.profiles import ToolNames
from sanderling.core.record import Trajectory
from sanderling.core.types import Ending, ToolCall
from sanderling.rl.contract import FinishedRollout, Group
from sanderling.rl.credit import GrpoConfig, build_estimator
from sanderling.rl.credit.table import Components, Graded, build_table
from sanderling.rl.health import (
    age_figures,
    credit_figures,
    queries,
    rollout_figures,
    step_metrics,
    think_tokens,
    update_figures,
)
from sanderling.rl.losses import (
    EDGES,
    CispoConfig,
    CorrectionConfig,
    MinirlConfig,
    PpoConfig,
    RatioTo,
    Watching,
    build_loss,
    fresh_gap,
    ratio_bins,
)
from sanderling.train.loss import LossInputs


def said(trajectory: Trajectory, *turns: dict) -> Trajectory:
    """The record, with what is given put into its turns."""
    left = iter(turns)
    nodes = [n.model_copy(update=next(left, {})) if n.kind == "turn" else n for n in trajectory.nodes]
    return trajectory.model_copy(update={"nodes": tuple(nodes)})


def search(*asked, name: str = "search", key: str = "query") -> dict:
    return {"calls": tuple(ToolCall(name=name, arguments={key: one}) for one in asked)}


def graded(trajectory: Trajectory, outcome: float | None, **more) -> Graded:
    turns = sum(n.kind == "turn" and not n.rejected for n in trajectory.nodes)
    return Graded(trajectory, outcome, **{"penalties": [0.0] * turns, **more})


def test_query_style_counts_every_query_of_every_call():
    trajectory = said(
        record("sssa"),
        search('who was "Anna Berg"', ["tidal flats", "the “Wadden Sea” today"]),
        search('an unfinished "quote'),
        search("elsewhere", name="visit", key="url"),
    )
    assert list(queries(trajectory)) == [
        'who was "Anna Berg"', "tidal flats", "the “Wadden Sea” today", 'an unfinished "quote',
    ]  # fmt: skip
    figures = rollout_figures([FinishedRollout(trajectory, 1.0)])
    assert figures["quoted_queries"] == 0.5 and figures["query_words"] == (4 + 2 + 4 + 3) / 4
    assert figures["queries_per_turn"] == 1.0


def test_queries_are_read_by_the_profile_s_names_and_never_break():
    trajectory = said(record("ssa"), search("a", name="web", key="q"), search(7, None, {"x": 1}, [3, "b"]))
    assert list(queries(trajectory, ToolNames(search="web", search_query="q"))) == ["a"]
    assert list(queries(trajectory)) == ["b"]


def test_no_answer_and_truncation_are_shares_of_what_was_scored():
    def ended(ending: Ending, answer: str | None, outcome: float | None = 0.0) -> FinishedRollout:
        return FinishedRollout(record("sa", ending=ending, answer=answer), outcome)

    rollouts = [
        ended(Ending.ANSWERED, "Oslo", 1.0),
        ended(Ending.ANSWERED_AT_BUDGET, "Bergen"),
        ended(Ending.NO_ANSWER, None),
        ended(Ending.CONTEXT_EXHAUSTED, None),
        ended(Ending.MALFORMED, "  "),
        ended(Ending.TOOL_OUTAGE, None, None),
    ]
    figures = rollout_figures(rollouts)
    assert figures["no_answer"] == 3 / 5 and figures["truncated"] == 3 / 5
    assert figures["unscored"] == pytest.approx(1 / 6) and figures["reward"] == 1 / 5
    assert figures["ending_tool_outage"] == pytest.approx(1 / 6)


def test_reasoning_is_measured_in_tokens_of_the_turn():
    trajectory = record("sa")
    turn = trajectory.nodes[2].model_copy(update={"text": "abcdefgh</think>", "think": "abcdefgh"})
    assert think_tokens(turn) == pytest.approx(len(turn.token_ids or ()) / 2)
    assert think_tokens(turn.model_copy(update={"think": None})) == 0.0
    assert think_tokens(turn.model_copy(update={"text": ""})) == 0.0


def test_repeated_turns_are_a_share_of_turns():
    figures = rollout_figures(
        [FinishedRollout(said(record("sssa"), {"text": "x"}, {"text": "x"}, {"text": "y"}, {"text": "x"}), 0.0)]
    )
    assert figures["repeated_turns"] == 0.5 and figures["turns"] == 4


def test_behaviour_is_measured_on_dropped_groups_too():
    # All of a group without an answer is flat: dynamic sampling drops it, and a collapse would be out of sight.
    silent = record("s", ending=Ending.NO_ANSWER, answer=None, question="silent")
    right, wrong = record("sa", name="r", question="q"), record("sa", name="w", question="q", answer="Bergen")
    used = Group(0, right.question, (FinishedRollout(right, 1.0), FinishedRollout(wrong, 0.0)))
    flat = Group(1, silent.question, (FinishedRollout(silent, 0.0), FinishedRollout(silent, 0.0)))
    batch = [graded(right, 1.0), graded(wrong, 0.0)]
    table = build_table(batch)
    blind = step_metrics(batch, table, np.ones(len(table)))
    seeing = step_metrics(batch, table, np.ones(len(table)), groups=[used, flat])
    assert (blind["no_answer"], blind["groups_with_signal"], blind["reward"]) == (0.0, 1.0, 0.5)
    assert (seeing["no_answer"], seeing["groups_with_signal"], seeing["reward"]) == (0.5, 0.5, 0.25)
    assert seeing["outcome_spread"] == 0.25 and blind["outcome_spread"] == 0.5
    assert seeing["turns"] == 1.5, "turns of all rollouts, whatever is trained on"


def test_turns_gains_and_caps_come_from_the_table():
    batch = [
        graded(record("svma"), 1.0, gains=[0.5, 0.0, None, None], penalties=[0, 0, -1, 0], capped=[False, False, True, False]),
        graded(record("vba", name="u"), 0.0, gains=[None, -1.0, None]),
    ]
    table = build_table(batch)
    figures = step_metrics(batch, table, np.linspace(-1, 1, len(table)))
    assert figures["gains_scored"] == 3 and figures["gain"] == pytest.approx(-0.5 / 3)
    assert figures["gain_size"] == pytest.approx(0.5) and figures["gain_positive"] == pytest.approx(1 / 3), "zero is no gain"
    assert figures["malformed_share"] == figures["capped_share"] == pytest.approx(1 / 7)
    assert figures["browse_share"] == pytest.approx(3 / 4)


def test_ages_are_of_the_oldest_token():
    def of(*versions: int) -> Trajectory:
        trajectory = record("s" * len(versions))
        return said(trajectory, *({"versions": (v,) * len(trajectory.nodes[2].token_ids or ())} for v in versions))

    figures = age_figures([of(3, 3), of(1, 2, 3), of(2)], version=3)
    assert (figures["age"], figures["age_oldest"]) == (1.0, 2.0)
    assert figures["versions"] == pytest.approx(5 / 3) and figures["several_versions"] == pytest.approx(1 / 3)
    assert age_figures([record("sa", ids=False)], 3)["age"] == 0.0


def test_nothing_at_all_gives_figures_and_no_nan():
    table = build_table([])
    for figures in (step_metrics([], table, np.zeros(0)), rollout_figures([]), age_figures([], 0)):
        assert all(math.isfinite(value) for value in figures.values())
    empty = record("sa", ending=Ending.POLICY_OUTAGE, answer=None).model_copy(update={"nodes": (), "leaf": None})
    batch = [graded(empty, None)]
    figures = step_metrics(batch, build_table(batch), np.zeros(0))
    assert all(math.isfinite(value) for value in figures.values()) and figures["unscored"] == 1.0
    assert credit_figures(Components(*[np.zeros(0)] * 3))["credit_outcome_share"] == 1.0


def test_what_outweighs_the_outcome_is_seen():
    batch = [graded(record("mma"), 1.0, penalties=[-1, -1, 0]), graded(record("mma", name="u"), 1.0, penalties=[-1, -1, 0])]
    figures = credit_figures(build_estimator(GrpoConfig()).components(build_table(batch)))
    assert figures["credit_outcome_share"] == 0.0 and figures["credit_penalty"] == pytest.approx(2 / 3)


def test_ratios_fall_into_bins_that_sum_to_all():
    ratio = torch.tensor([1e-9, 0.5, 0.79, 0.8, 1.0, 1.3, 2.0, 1e8])
    bins = ratio_bins({"ratio": ratio})
    far = bins.pop("ratio_far")
    assert torch.equal(torch.stack(list(bins.values())).sum(0), torch.ones(8)) and len(bins) == len(EDGES) - 1
    assert far.tolist() == [1, 0, 0, 0, 0, 0, 0, 1]
    assert bins["ratio_0.5_0.8"].tolist() == [0, 1, 1, 0, 0, 0, 0, 0] and bins["ratio_2_inf"].tolist() == [0] * 6 + [1, 1]


def test_a_loss_that_is_watched_is_the_same_loss():
    logprobs = torch.tensor([-1.0, -2.0, -0.1], requires_grad=True)
    tokens = LossInputs(logprobs, torch.full((3,), 1 / 3), torch.tensor([1.0, -1.0, 2.0]), torch.tensor([-1.1, -0.3, -3.0]))
    value, metrics = Watching(build_loss(PpoConfig()))(tokens)
    expected, before = build_loss(PpoConfig())(tokens)
    assert value == expected and set(before) < set(metrics) and metrics["ratio_far"].tolist() == [0, 1, 1]
    assert Watching(lambda tokens: (tokens.logprobs.sum(), {}))(tokens)[1] == {}


@pytest.mark.parametrize(
    ("loss", "stopping"),
    [
        (MinirlConfig(correction=CorrectionConfig(low=0.5, high=2.0)), "masked"),
        (PpoConfig(correction=CorrectionConfig(low=0.5, high=2.0), ratio_to=RatioTo.PROXIMAL), "masked"),
        (PpoConfig(correction=CorrectionConfig(veto=0.1), ratio_to=RatioTo.PROXIMAL), "vetoed"),
        (PpoConfig(), "clipped"),
    ],
)
def test_tokens_that_nothing_is_learnt_from_are_told_whatever_the_loss_calls_it(loss, stopping: str):
    new, sampler = torch.full((3,), -4.0), torch.tensor([-4.0, -1.0, -4.0])
    tokens = LossInputs(
        new, torch.full((3,), 1 / 3), -torch.ones(3), sampler, new.clone(), sequence=torch.arange(3), age=torch.ones(3)
    )
    metrics = Watching(build_loss(loss))(tokens)[1]
    assert metrics[stopping].tolist() == metrics["stopped"].tolist() == [0, 1, 0]


def test_a_token_whose_weight_is_capped_is_learnt_from():
    new = torch.tensor([-1.0, -1.0], requires_grad=True)
    tokens = LossInputs(new, torch.full((2,), 0.5), torch.ones(2), torch.tensor([-4.0, -1.0]), sequence=torch.arange(2))
    value, metrics = Watching(build_loss(CispoConfig(cap=2.0)))(tokens)
    value.backward()
    assert metrics["weight_capped"].tolist() == [1, 0] and metrics["stopped"].tolist() == [0, 0]
    assert new.grad is not None and bool((new.grad != 0).all())


def test_the_gap_to_the_sampler_is_of_tokens_that_the_updated_weights_sampled():
    sampler = torch.tensor([-1.1, -0.3, -3.0, -1.0])
    tokens = LossInputs(
        torch.tensor([-1.0, -2.0, -0.1, -1.0]), torch.ones(4), sampler=sampler, age=torch.tensor([0.0, 1, 2, 0])
    )
    gaps = fresh_gap(tokens)
    means = {name: float(values.mean()) for name, values in gaps.items()}
    assert update_figures([means])["sampler_gap_fresh"] == pytest.approx(0.05), "not the 1.7 and 2.9 that updates made"
    assert "sampler_gap_fresh" not in update_figures([{"fresh": 0.0, "fresh_gap": 0.0, "loss": 1.0}])
    assert fresh_gap(LossInputs(tokens.logprobs, tokens.weights, sampler=sampler)) == {}


def test_a_token_after_older_ones_is_not_fresh_for_their_keys_are_of_other_weights():
    age, sequence = torch.tensor([0.0, 2, 0, 0, 0, 1, 0]), torch.tensor([1, 0, 1, 0, 2, 2, 1])
    tokens = LossInputs(torch.zeros(7), torch.ones(7), sampler=torch.ones(7), age=age, sequence=sequence)
    gaps = fresh_gap(tokens)
    assert gaps["fresh"].tolist() == gaps["fresh_gap"].tolist() == [1, 0, 1, 0, 1, 0, 1]
    none = LossInputs(*[torch.zeros(0)] * 2, sampler=torch.zeros(0), age=torch.zeros(0), sequence=torch.zeros(0).long())
    assert fresh_gap(none)["fresh"].tolist() == []


def test_figures_of_updates_are_means_and_absent_without_one():
    assert update_figures([{"loss": 1.0}, {"loss": 2.0}]) == {"loss": 1.5} and update_figures([]) == {}
    counted = update_figures([{"tokens": 4, "computed_tokens": 2}, {"tokens": 6, "computed_tokens": 4}])
    assert counted == {"tokens": 10, "computed_tokens": 6}, "counts add up"
