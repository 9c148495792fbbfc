"""The three systems' RL recipes, each run with its own combination of settings on a CPU: only sizes are smaller.

Two processes hold shards of a tiny model, or one is a mesh of its own, as on the single card that is planned for; a server that
sleeps while they train samples (`rl_led` leads it). The table of what was made smaller is all that differs from the shipped
recipe: the run's own record is held against it.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from published_credit import check_agentcpm_credit, check_lite_credit, check_venus_credit
from rl_led import Led, Way, asked, led, way_of, write_led
from rl_runs import silent
from sft_runs import weights
from torch import Tensor

from sanderling.core.config import read_config
from sanderling.core.profiles import get_profile
from sanderling.core.record import NodeKind, Question, Trajectory
from sanderling.core.types import Ending
from sanderling.recipes.find import find_rl_recipe
from sanderling.rl.config import RlRecipe
from sanderling.rl.health import HealthPause
from sanderling.rl.launch import Order, run_rl_command
from sanderling.runs.run import records
from sanderling.runs.stages import unlike
from sanderling.train.checkpoint import checkpoints
from sanderling.train.metrics import read_metrics

GIVEN = {"model", "questions", "held_out", "worlds", "sampler.endpoint", "sampler.served", "date"}
"""What no recipe says: the command line does; the day is that of the beginning."""
UNCUT = (-1, 0.0, None)
"""top_k, min_p and presence penalty that servers are asked for."""
DR_VENUS = {
    "rl.steps": 2, "rl.questions_per_step": 4, "rl.save_every": 1, "rl.selection.every": 2, "rl.trainer.lr": 1e-3,
    "rollout.context_tokens": 8000, "rollout.turn_tokens": 160, "rollout.answer_reserve_tokens": 160,
}  # fmt: skip
"""Made smaller; but the learning rate is larger: in two steps the published one hardly moves weights of 16 bits."""

LITERESEARCHER = {
    "rl.steps": 2, "rl.questions_per_step": 2, "rl.selection.every": 2, "rl.health.window": 1,
    "rollout.context_tokens": 6000, "rollout.max_turns": 4, "rollout.turn_tokens": 160,
}  # fmt: skip
"""Made smaller: an alarm's window too, which is longer than this run."""
AGENTCPM = {
    "rl.steps": 6, "rl.questions_per_step": 2, "rl.selection.every": 6, "rl.trainer.lr": 1e-3,
    "rl.trainer.warmup_steps": 2, "rollout.context_tokens": 6000, "rollout.turn_tokens": 160,
    "rollout.answer_reserve_tokens": 160, "rollout.max_turns": 4,
}  # fmt: skip
"""Made smaller, and the learning rate larger, as above."""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Question]]:
    place = tmp_path_factory.mktemp("given")
    return place, write_led(place, 24)


def run(
    name: str,
    shrunk: Mapping[str, Any],
    processes: int,
    place: Path,
    out: Path,
    address: str,
    files: Mapping[str, Path],
    *more: str,
) -> None:
    """The recipe as the command takes it."""
    served = [f"sampler.endpoint={address}", "sampler.served=m"]
    recipe = find_rl_recipe(name, [*(f"{key}={value}" for key, value in shrunk.items()), *served, *more])
    paths = {name: (file,) for name, file in files.items()}
    recipe = recipe.model_copy(update={"model": place / "base", "worlds": (place / "world",), **paths})
    run_rl_command(Order(recipe, out, processes), silent())


def check_record(name: str, shrunk: Mapping[str, Any], out: Path, *more: str) -> None:
    """By its own record a run had every setting of the shipped recipe, but for those of the table and what is given."""
    assert set(unlike(find_rl_recipe(name), read_config(RlRecipe, out / "rl.toml"))) == {*shrunk, *GIVEN, *more}


def rollouts_of(out: Path) -> list[Trajectory]:
    return list(records(out))


def credit_of(out: Path) -> list[list[list[SimpleNamespace]]]:
    """By step and group."""
    found = []
    for file in sorted((out / "credit").iterdir()):
        text = file.read_text(encoding="utf-8")
        lines = [json.loads(line, object_hook=lambda values: SimpleNamespace(**values)) for line in text.splitlines()]
        found.append([[one for one in lines if one.group == group] for group in sorted({one.group for one in lines})])
    return found


def differ(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether weights do; a tied head may be there once or twice."""
    names = set(ours) & set(theirs)
    assert len(names) >= len(theirs) - 1
    return any(not np.array_equal(np.asarray(ours[name]), np.asarray(theirs[name])) for name in names)


def share_of(ways: Collection[int], out: Path, lines: Sequence[SimpleNamespace]) -> float:
    """The share of these ways' tokens among those that were trained."""
    trained = {one.id for one in lines if one.left_out is None}
    tokens: Counter[bool] = Counter()
    for one in rollouts_of(out):
        said = [node for node in one.nodes if node.kind is NodeKind.TURN]
        if one.id in trained:
            tokens[way_of(said[0].text) in ways] += sum(len(node.token_ids or ()) for node in said)
    return tokens[True] / tokens.total()


def check_updates(lines: Sequence[Mapping[str, float]], steps: int) -> None:
    """Every step has made one update, with a gradient."""
    assert [line["step"] for line in lines] == [line["version"] for line in lines] == list(range(1, steps + 1))
    assert all(line["updates"] == 1 and 0 < line["grad_norm"] < np.inf for line in lines)
    assert all(line["entropy"] > 0 for line in lines), "it is measured in all three"


def check_gap(line: Mapping[str, float], double: Led, *taken: int) -> None:
    """Temperature and weights are one for trainer and sampler: but for what it told otherwise, only 16 bits lie between."""
    turns = {seed: doubt for number in taken for seed, doubt in double.doubts[number].items()}
    told = sum(turns.values()) / line["trained_tokens"]
    assert told > 0 and 1e-3 < line["sampler_gap"] - told < 0.1


def check_served(double: Led, steps: int, top_p: float, still: int = 0) -> None:
    """The server slept in every step and took every version; it was asked for what is published.

    ``still``: steps at the beginning whose learning rate is 0.
    """
    assert not double.spoke_asleep and double.paths.count("/sleep") == double.paths.count("/wake_up") == steps
    started, *versions = double.taken
    assert len(versions) == steps + 1 and not differ(versions[0], started)
    assert [differ(now, before) for before, now in pairwise(versions)] == [False] * still + [True] * (steps - still)
    assert {(temperature, *cuts) for _, temperature, *cuts in double.sampling} == {(1.0, top_p, *UNCUT)}


def check_goes_on(again: Callable[[], None], double: Led, out: Path) -> None:
    """As killed when all was trained and nothing said so: updates since the last checkpoint are made again, nothing else is."""
    last, credit, asked_for = double.taken[-1], credit_of(out), double.paths.count("/v1/completions")
    (out / "model").rename(out / "best")
    assert checkpoints(out / "checkpoints")
    again()
    assert not differ(double.taken[-1], last), "bit for bit"
    assert credit_of(out) == credit and double.paths.count("/v1/completions") == asked_for


def unsure(logprobs: Tensor) -> Tensor:
    """Told by a sampler that takes a turn's tokens for twenty times less likely than the trainer does."""
    return logprobs - 3.0


def slipped(logprobs: Tensor) -> Tensor:
    """By one that was sure of the token that the trainer least expects."""
    return torch.where(logprobs == logprobs.min(), 0.0, logprobs)


def less(logprobs: Tensor) -> Tensor:
    """Ratios of 1.65: beyond the strict bound of 1.3, and not beyond that of 1 + 0.3 * 4."""
    return logprobs - 0.5


def more(logprobs: Tensor) -> Tensor:
    """Ratios of 0.61, but for tokens that are nearly sure: below the strict bound of 0.8, and not below 1 - 0.2 * 4."""
    return (logprobs + 0.5).clamp(max=0.0)


# -- DR-Venus --------------------------------------------------------------------------------------------------------------

LOST = 8
VENUS_WAYS = (
    Way(("search", "visit", "right")), Way(("search", "visit", "wrong")),
    Way(("search", "visit", "search", "visit", "right")), Way(("broken", "search", "visit", "right")),
    Way(("search", "noise", "wrong")), Way(("search", "wrong")), Way(("search", "visit", "right"), unsure),
    Way(("search", "search", "wrong")), Way(("search", "again")),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_dr_venus_runs_as_it_is_shipped(given: tuple[Path, list[Question]], tmp_path: Path, processes: int):
    """IGPO as released over vLLM and FSDP in turns: gains, penalties, KL, the cap, stragglers, the best checkpoint."""
    place, questions = given
    trained, held = questions[:8], questions[8:10]
    each = 4 // processes
    # All but the straggler: at the published share two that are merely slow could be cut off, too, by the clock.
    changes = {**DR_VENUS, "rl.pipeline.cut_off_share": 1 - processes / 32}
    files = {"questions": asked(tmp_path, "q.jsonl", trained), "held_out": asked(tmp_path, "dev.jsonl", held)}
    out = tmp_path / "out"

    def choose(question: Question, attempt: int, taken: int) -> int:
        if question in held:  # better after two steps than before
            return 1 if taken == 2 else 0
        group, place = divmod(attempt, 8)
        return LOST if place == 7 and group % each == 0 else place

    profile = get_profile("dr-venus-4b")
    with led(place, profile=profile, ways=VENUS_WAYS, questions=questions, choose=choose) as (address, double):
        again = partial(run, "dr-venus-4b", changes, processes, place, out, address, files)
        again()
        check_served(double, steps=2, top_p=0.95)
        check_goes_on(again, double, out)
    lines, credit = read_metrics(out / "metrics.jsonl"), credit_of(out)
    check_updates(lines, steps=2)
    check_record("dr-venus-4b", changes, out)
    check_venus_credit(credit)
    for line, groups in zip(lines, credit, strict=True):
        assert (line["gains_scored"], line["rows"], line["unscored"], line["age_oldest"]) == (4 * 5 + 4, 32, 0, 0)
        assert line["gain"] != 0 and min(line["credit_outcome"], line["credit_gain"], line["credit_penalty"]) > 0
        odd = share_of({6}, out, [*chain(*groups)])
        assert line["importance"] == pytest.approx(1 + odd, abs=0.01), "the cap is 2, and the ratio of these was 20"
        check_gap(line, double, 1 + line["step"])
        assert line["ratio"] == 1 and line["stopped"] == 0, "one update, and its ratio is to the weights before it"
    assert lines[0]["kl_reference"] == 0 < lines[1]["kl_reference"]
    late = [one for one in rollouts_of(out) if one.ending is Ending.ANSWERED_AT_BUDGET]
    assert all("asked for early" in one.detail for one in late), "it had turns and context left"
    assert {one.seeds.attempt // 8 for one in late if one.seeds} == {*range(0, 8, each)}, "each process' straggler in each step"
    assert [line["held_out"] for line in read_metrics(out / "selection.jsonl")] == [0.0, 1.0]
    assert not differ(weights(out / "model"), double.taken[-1]), "the better of the two"


# -- LiteResearcher --------------------------------------------------------------------------------------------------------

LITE_WAYS = (
    Way(("search", "visit", "right")), Way(("search", "visit", "wrong")), Way(("search",)), Way(("search", "broken")),
    Way(("search", "right"), slipped), Way(("search", "wrong"), unsure), Way(("search", "visit", "search", "right")),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_literesearcher_runs_as_it_is_shipped(given: tuple[Path, list[Question]], tmp_path: Path, processes: int):
    """GRPO with the veto and the cap; the alarm pauses it, and it goes on."""
    place, questions = given
    trained, held = questions[:4], questions[10:12]
    files = {"questions": asked(tmp_path, "q.jsonl", trained), "held_out": asked(tmp_path, "dev.jsonl", held)}
    out = tmp_path / "out"

    def choose(question: Question, attempt: int, taken: int) -> int:
        if question in held:  # the last model is the better one
            return 0 if taken == 5 else 1
        return (*range(7), 3)[attempt % 8]

    profile = get_profile("literesearcher-4b")
    with led(place, profile=profile, ways=LITE_WAYS, questions=questions, choose=choose) as (address, double):
        again = partial(run, "literesearcher-4b", LITERESEARCHER, processes, place, out, address, files)
        with pytest.raises(
            HealthPause, match=r"Paused after step 1\. Share of rollouts without an answer: 0\.375 .* to resume"
        ):
            again()
        again()
    started, first, second, resumed, last = double.taken
    assert not differ(first, started) and differ(second, first) and not differ(resumed, second) and differ(last, second)
    assert not differ(weights(out / "model"), last)
    sampled = {tuple(asked_for) for _, *asked_for in double.sampling}
    assert sampled - {(None,) * 5} == {(0.7, 0.95, *UNCUT)}, "but for requests that the pause took back"
    assert not double.spoke_asleep and double.paths.count("/sleep") == double.paths.count("/wake_up") == 2
    assert [line["held_out"] for line in read_metrics(out / "selection.jsonl")] == [0.0, 1.0]
    check_record("literesearcher-4b", LITERESEARCHER, out)
    lines = read_metrics(out / "metrics.jsonl")
    check_updates(lines, steps=2)
    for taken, line, groups in zip(([2], [3, 4]), lines, credit_of(out), strict=True):
        check_lite_credit([groups])
        own = [*chain(*groups)]
        assert (len(own), line["rows"], line["reward"]) == (16, 16, 3 / 8), "who gave no answer is wrong, and trained"
        assert (line["no_answer"], line["alarm_no_answer"]) == (3 / 8, 1)
        assert line["ending_turn_limit"] == 1 / 8 and line["ending_malformed"] == line["no_answer"] - 1 / 8
        assert line["vetoed"] == line["stopped"] == pytest.approx(share_of({4}, out, own)), "the whole row"
        assert line["importance"] == pytest.approx(1 + share_of({5}, out, own), abs=0.02), "2 of 20"
        assert line["age_oldest"] == 0 and line["ratio"] == 1
        check_gap(line, double, *taken)


# -- AgentCPM-Explore ------------------------------------------------------------------------------------------------------

AGENTCPM_WAYS = (
    Way(("search", "visit", "right")), Way(("search", "visit", "wrong")), Way(("right",)), Way(("search",)),
    Way(("broken", "search", "right")), Way(("search", "again", "again", "right")), Way(("search", "right"), less),
    Way(("search", "wrong"), more),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_agentcpm_explore_runs_as_it_is_shipped(given: tuple[Path, list[Question]], tmp_path: Path, processes: int):
    """MINIRL as far as four steps ahead: what is left out, capped and dropped, strict bounds, ages, the schedule."""
    place, questions = given
    trained, flat_ones, held = questions[:16], questions[:3], questions[16:18]
    files = {"questions": asked(tmp_path, "q.jsonl", trained), "held_out": asked(tmp_path, "dev.jsonl", held)}
    out = tmp_path / "out"

    def choose(question: Question, attempt: int, taken: int) -> int:
        if question in held:
            return 1 if taken == 2 else 0
        return 1 if question in flat_ones else attempt % 8

    profile = get_profile("agentcpm-explore-4b")
    with led(place, profile=profile, ways=AGENTCPM_WAYS, questions=questions, choose=choose) as (address, double):
        again = partial(run, "agentcpm-explore-4b", AGENTCPM, processes, place, out, address, files)
        again()
        check_served(double, steps=6, top_p=1.0, still=1)
        check_goes_on(again, double, out)
    lines, credit = read_metrics(out / "metrics.jsonl"), credit_of(out)
    check_updates(lines, steps=6)
    check_record("agentcpm-explore-4b", AGENTCPM, out)
    check_agentcpm_credit(credit)
    rates = [line["lr"] for line in lines]
    assert rates == pytest.approx([1e-3 * part for part in (0, 0.5, 1, 0.85355, 0.5, 0.14645)], rel=1e-3)
    for line, groups in zip(lines, credit, strict=True):
        assert (line["groups_used"], line["rows"]) == (2, 12)
        assert (line["left_out_too_short"], line["left_out_over_long"]) == (2, 2)
        assert {one.question for one in chain(*groups)} <= {one.id for one in trained[3:]}
        assert {one.left_out for one in chain(*groups)} == {None, "too_short", "over_long"}
        assert line["age_oldest"] <= 4
    assert sum(line["groups_flat"] for line in lines) >= 1
    odd = share_of({6, 7}, out, [*chain(*credit[0])])
    assert lines[0]["masked"] == lines[0]["stopped"] == pytest.approx(odd, abs=0.03), "strict bounds, on the side of credit"
    assert lines[0]["sampler_gap"] == pytest.approx(0.5 * odd, abs=0.1), "all is fresh in the first step"
    assert max(line["age_oldest"] for line in lines) >= 2, "it did run ahead"
    assert max(line["sampler_gap"] for line in lines) > 1.2 * lines[0]["sampler_gap"], "older tokens are further off"
    assert not differ(weights(out / "model"), double.taken[-1])
