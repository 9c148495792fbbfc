"""AgentCPM-Explore's three filters, and the traps of its released code."""

import itertools
import random
from collections.abc import Sequence

import pytest

from sanderling.core.profiles import Profile
from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Ending, Role
from sanderling.rl.denoise import (
    DenoiseConfig,
    ExtremeConfig,
    FormatConfig,
    Noise,
    Place,
    capped_turns,
    denoise_group,
    is_flat,
    is_outage,
    repeated_turns,
)

PROFILE = Profile(name="p", source="test", system_prompt="s", force_hint="now", malformed_hint="{problem}", think_prefix="")
CALL = '<tool_call>{"name": "search", "arguments": {"query": "%s"}}</tool_call>'
ANSWER = "<think>so</think><answer>Oslo</answer>"
OFF = DenoiseConfig()


def turn(query: str) -> str:
    return f"<think>about {query}</think>{CALL % query}"


def rollout(
    *texts: str, name: str = "t", ending: Ending | None = Ending.ANSWERED, ids_a_turn: int = 3, rejected: str | None = None
) -> Trajectory:
    nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text="?", token_ids=(1, 2))]
    for text in texts:
        ids = tuple(range(ids_a_turn))
        if rejected is not None:
            nodes.append(Node(parent=len(nodes) - 1, role=Role.ASSISTANT, kind=NodeKind.TURN, text=rejected, rejected=True))
        parent = len(nodes) - (1 if rejected is None else 2)
        nodes.append(Node(parent=parent, role=Role.ASSISTANT, kind=NodeKind.TURN, text=text, token_ids=ids))
    question = Question(id="q", text="?", answers=("Oslo",))
    return Trajectory(id=name, question=question, nodes=tuple(nodes), leaf=len(nodes) - 1, ending=ending)


def noises(group: Sequence[tuple[Trajectory, float | None]], seed: int = 0, **extreme) -> list[Noise | None]:
    config = DenoiseConfig(extreme=ExtremeConfig(**extreme))
    return [one.noise for one in denoise_group(group, config, PROFILE, seed)]


@pytest.mark.parametrize("ending", list(Ending))
def test_with_everything_off_only_what_is_unscored_is_left_out(ending: Ending):
    (one,) = denoise_group([(rollout(turn("a"), turn("a"), "broken", ending=ending), 0.0)], OFF, PROFILE)
    assert (one.noise is None) == ending.scored == one.trained
    assert not any(one.capped)


@pytest.mark.parametrize("place", list(Place))
@pytest.mark.parametrize("ending", [Ending.TOOL_OUTAGE, Ending.POLICY_OUTAGE, Ending.CANCELLED])
def test_a_zero_that_somebody_gave_an_outage_never_enters_the_baseline(ending: Ending, place: Place):
    # The trap: AgentRL abandons such a trajectory, but its zero stays in the task's scores, which the others are compared with.
    group = [(rollout(ANSWER), 1.0), (rollout(turn("a"), ending=ending), 0.0), (rollout(ANSWER), 0.0)]
    found = denoise_group(group, DenoiseConfig(extreme=ExtremeConfig(over_long=True, place=place)), PROFILE)
    assert [one.outcome for one in found] == [1.0, None, 0.0]
    assert found[1].noise is Noise.OUTAGE
    assert is_outage(*group[1])


def test_a_judge_that_failed_is_an_outage_and_no_zero():
    (one,) = denoise_group([(rollout(ANSWER), None)], OFF, PROFILE)
    assert one.noise is Noise.OUTAGE and one.outcome is None
    assert is_outage(rollout(ANSWER), None) and not is_outage(rollout(ANSWER), 0.0)


@pytest.mark.parametrize(
    ("ending", "noise"),
    [
        (Ending.CONTEXT_EXHAUSTED, Noise.OVER_LONG),
        (Ending.TIME_LIMIT, Noise.OVER_LONG),
        (Ending.NO_ANSWER, Noise.OVER_LONG),
        (Ending.TURN_LIMIT, Noise.OVER_TURNED),
        (Ending.ANSWERED_AT_BUDGET, None),
        (Ending.ANSWERED, None),
        (Ending.REPETITION, None),
        (Ending.MALFORMED, None),
    ],
)
def test_over_long_is_who_had_no_room_left_and_gave_no_answer(ending: Ending, noise: Noise | None):
    assert noises([(rollout(turn("a"), ending=ending), 0.0)], over_long=True) == [noise]


@pytest.mark.parametrize("place", list(Place))
def test_where_an_extreme_one_stands_is_a_setting(place: Place):
    group = [(rollout(ANSWER), 1.0), (rollout(turn("a"), ending=Ending.TURN_LIMIT), 0.0)]
    found = denoise_group(group, DenoiseConfig(extreme=ExtremeConfig(over_long=True, place=place)), PROFILE)
    assert not found[1].trained
    assert found[1].outcome == (0.0 if place is Place.BASELINE else None)
    assert is_flat([one.outcome for one in found], OFF) == (place is Place.OUT)


def test_kept_over_long_ones_are_chosen_by_seed_and_not_by_order():
    group = [(rollout(turn("a"), name=f"t{i}", ending=Ending.CONTEXT_EXHAUSTED), 0.0) for i in range(6)]

    def kept(seed: int, order: list) -> set[str]:
        found = noises(order, seed, over_long=True, keep_over_long=2)
        return {t.id for (t, _), noise in zip(order, found, strict=True) if noise is None}

    chosen = {seed: kept(seed, group) for seed in range(20)}
    assert all(len(names) == 2 for names in chosen.values()) and len(set(map(frozenset, chosen.values()))) > 5
    shuffled = random.Random(1).sample(group, len(group))
    assert all(kept(seed, shuffled) == names for seed, names in chosen.items())


def test_a_bound_in_numbers_is_never_lifted():
    group = [(rollout(turn("a"), ending=Ending.CONTEXT_EXHAUSTED, ids_a_turn=90, name=f"t{i}"), 0.0) for i in range(3)]
    assert noises(group, over_long=True, keep_over_long=3, most_tokens=50) == [Noise.OVER_LONG] * 3
    assert noises(group, over_long=True, keep_over_long=3, most_tokens=92) == [None] * 3


def test_tokens_and_turns_are_counted_on_what_was_answered_too():
    long = rollout(turn("a"), turn("b"), ANSWER, ids_a_turn=4)
    assert noises([(long, 1.0)], most_tokens=13) == [Noise.OVER_LONG] and noises([(long, 1.0)], most_tokens=14) == [None]
    assert noises([(long, 1.0)], most_turns=2) == [Noise.OVER_TURNED] and noises([(long, 1.0)], most_turns=3) == [None]


def test_trivially_short_is_a_right_answer_after_too_few_turns():
    lucky, wrong, worked = rollout(ANSWER), rollout(ANSWER), rollout(turn("a"), ANSWER)
    group = [(lucky, 1.0), (wrong, 0.0), (worked, 1.0)]
    assert noises(group, least_turns=1) == [Noise.TOO_SHORT, None, None]
    assert noises(group, least_turns=0) == [None] * 3


def test_rejected_attempts_are_no_turns():
    assert noises([(rollout(ANSWER, rejected="broken"), 1.0)], least_turns=1, most_turns=1) == [Noise.TOO_SHORT]


def test_repetition_is_told_by_the_loop_or_by_equal_turns():
    circling = rollout(turn("a"), turn("a"), turn("b"), turn("a"), ending=Ending.REPETITION)
    assert repeated_turns(circling) == [False, True, False, True]
    assert noises([(circling, 0.0)], repetition=True) == [Noise.REPETITIVE]
    assert noises([(circling, 0.0)], most_repeated=1) == [Noise.REPETITIVE]
    assert noises([(circling, 0.0)], most_repeated=2) == [None]


def test_format_errors_and_repeats_are_capped_and_stay():
    trajectory = rollout(turn("a"), "no tags at all", turn("a"), ANSWER)
    both = DenoiseConfig(format=FormatConfig(no_positive_credit=True, repeated=True))
    assert capped_turns(trajectory, both, PROFILE) == (False, True, True, False)
    assert capped_turns(trajectory, DenoiseConfig(format=FormatConfig(repeated=True)), PROFILE) == (False, False, True, False)
    one = denoise_group([(trajectory, 1.0)], both, PROFILE)[0]
    assert one.trained and one.outcome == 1.0, "signals are removed, not corrected"


@pytest.mark.parametrize(
    ("outcomes", "least", "flat"),
    [
        ([], 0.0, True),
        ([1.0], 0.0, True),
        ([0.0, 0.0, 0.0], 0.0, True),
        ([0.0, 1.0], 0.1, False),
        ([0.3, 0.2], 0.1, False),
        ([0.3, 0.25], 0.1, True),
        ([0.3, 0.25], 0.0, False),
        ([1.0, None], 0.0, True),
        ([None, 1.0, 0.0], 0.0, False),
    ],
)
def test_a_flat_group_says_nothing(outcomes: list, least: float, flat: bool):
    for order in itertools.permutations(outcomes):
        assert is_flat(order, DenoiseConfig(least_spread=least)) is flat


def test_a_rollout_s_fate_does_not_depend_on_its_group():
    group = [(rollout(*[turn(str(i))] * n, ANSWER, name=f"t{i}{n}"), i % 2) for i in range(3) for n in range(4)]
    extreme = {"most_turns": 3, "least_turns": 1, "most_repeated": 1}
    assert noises(group, **extreme) == [noises([one], **extreme)[0] for one in group]
