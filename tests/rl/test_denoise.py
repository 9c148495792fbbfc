"""AgentCPM-Explore's three filters, and the traps of its released code."""

import itertools
import random
from statistics import mean

import pytest

from sanderling.core.profiles import Profile
from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Ending, Role
from sanderling.recipes.find import find_rl_recipe
from sanderling.rl.config import RlConfig
from sanderling.rl.credit import LeaveOneOutConfig, build_estimator
from sanderling.rl.rollouts import (
    DenoiseConfig,
    FinishedRollout,
    Group,
    GroupStatus,
    Noise,
    Place,
    broken_turns,
    capped_turns,
    is_flat,
    noise_of,
)
from sanderling.rl.step import graded, group_status
from sanderling.rl.table import build_table

PROFILE = Profile(name="p", source="test", system_prompt="s", force_hint="now", malformed_hint="{problem}", think_prefix="")
ANSWER = "<think>so</think><answer>Oslo</answer>"
OFF = DenoiseConfig()


def turn(query: str) -> str:
    return f'<think>about {query}</think><tool_call>{{"name": "search", "arguments": {{"query": "{query}"}}}}</tool_call>'


def rollout(*texts: str, ending: Ending | None = Ending.ANSWERED, rejected: str | None = None) -> Trajectory:
    question = Question(id="q", text="?", answers=("Oslo",))
    nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text="?", token_ids=(1, 2))]
    for text in texts:
        before = len(nodes) - 1
        if rejected is not None:
            nodes.append(Node(parent=before, role=Role.ASSISTANT, kind=NodeKind.TURN, text=rejected, rejected=True))
        nodes.append(Node(parent=before, role=Role.ASSISTANT, kind=NodeKind.TURN, text=text, token_ids=(0, 1, 2)))
    return Trajectory(id="t", question=question, nodes=tuple(nodes), leaf=len(nodes) - 1, ending=ending)


def credited(config: DenoiseConfig, *rollouts: tuple[Trajectory, float | None]) -> list[float]:
    """Each turn's advantage under leave-one-out."""
    group = Group(0, rollouts[0][0].question, tuple(FinishedRollout(*one) for one in rollouts))
    table = build_table(list(graded(group, 0, RlConfig(denoise=config), PROFILE)))
    return build_estimator(LeaveOneOutConfig(penalty_weight=0.0))(table).tolist()


@pytest.mark.parametrize("ending", list(Ending))
def test_with_everything_off_only_what_is_unscored_is_left_out(ending: Ending):
    one = rollout(turn("a"), turn("a"), "broken", ending=ending)
    assert (noise_of(one, 0.0, OFF) is None) == ending.scored
    assert not any(capped_turns(one, OFF, [True] * 3))


@pytest.mark.parametrize("ending", [Ending.TOOL_OUTAGE, Ending.POLICY_OUTAGE, Ending.CANCELLED])
def test_a_zero_that_somebody_gave_an_outage_moves_nobody_s_baseline(ending: Ending):
    # The trap: AgentRL abandons such a trajectory, but its zero stays in the task's scores, which the others are compared with.
    group = [(rollout(ANSWER), 1.0), (rollout(ANSWER), 0.5)]
    broken = rollout(turn("a"), ending=ending)
    assert noise_of(broken, 0.0, OFF) is Noise.OUTAGE
    assert credited(OFF, *group, (broken, 0.0)) == [*credited(OFF, *group), 0.0] == [0.5, -0.5, 0.0]


def test_a_judge_that_failed_is_an_outage_and_no_zero():
    assert noise_of(rollout(ANSWER), None, OFF) is Noise.OUTAGE


@pytest.mark.parametrize(
    ("ending", "noise"),
    [
        *((one, Noise.OVER_LONG) for one in (Ending.CONTEXT_EXHAUSTED, Ending.TIME_LIMIT, Ending.NO_ANSWER, Ending.TURN_LIMIT)),
        *((one, None) for one in (Ending.ANSWERED_AT_BUDGET, Ending.ANSWERED, Ending.REPETITION, Ending.MALFORMED)),
    ],
)
def test_over_long_is_who_had_no_room_left_and_gave_no_answer(ending: Ending, noise: Noise | None):
    long, config = rollout(turn("a"), ending=ending), DenoiseConfig(over_long=True)
    assert noise_of(long, 0.0, config) is noise
    assert noise_of(long, 0.0, config, stale=True) is Noise.STALE
    rollouts = ((rollout(ANSWER), 1.0), (rollout(ANSWER), 0.5), (long, 0.0))
    advantage = credited(config, *rollouts)[0]
    assert advantage == pytest.approx(0.5 if noise else 0.75), "who is left out is in no baseline"
    assert credited(DenoiseConfig(over_long=True, place=Place.BASELINE), *rollouts) == [0.75, 0.0, 0.0 if noise else -0.75]


def test_trivially_short_is_a_right_answer_after_too_few_turns():
    config = DenoiseConfig(least_turns=1)
    assert noise_of(rollout(ANSWER), 1.0, config) is Noise.TOO_SHORT
    assert noise_of(rollout(ANSWER, rejected="broken"), 1.0, config) is Noise.TOO_SHORT, "rejected attempts are no turns"
    assert noise_of(rollout(ANSWER), 0.0, config) is noise_of(rollout(turn("a"), ANSWER), 1.0, config) is None
    assert noise_of(rollout(ANSWER), 0.2, config) is Noise.TOO_SHORT, "AgentRL asks for a score above 0"


RIGHT, WRONG, SHORT = (rollout(turn("a"), ANSWER), 1.0), (rollout(turn("a"), ANSWER), 0.0), (rollout(ANSWER), 1.0)
LONG = (rollout(turn("a"), ending=Ending.TURN_LIMIT), 0.0)


@pytest.mark.parametrize(
    ("rollouts", "out", "baseline"),
    [
        ([RIGHT, WRONG], GroupStatus.USED, GroupStatus.USED),
        ([RIGHT, RIGHT, LONG], GroupStatus.FLAT, GroupStatus.USED),
        ([WRONG, SHORT, SHORT], GroupStatus.NOISY, GroupStatus.USED),
        ([SHORT, LONG], GroupStatus.NOISY, GroupStatus.NOISY),
        ([WRONG, WRONG, LONG], GroupStatus.FLAT, GroupStatus.FLAT),
    ],
)
def test_what_a_group_is_used_for_depends_on_where_its_filtered_rollouts_count(rollouts, out, baseline):
    group = Group(0, RIGHT[0].question, tuple(FinishedRollout(*one) for one in rollouts))
    for place, status in ((Place.OUT, out), (Place.BASELINE, baseline)):
        config = DenoiseConfig(place=place, over_long=True, least_turns=1, drop_flat=True)
        assert group_status(group, 0, RlConfig(denoise=config)) is status


def agentrl_advantages(scores: list[float], abandoned: list[bool], marked: list[list[bool]]) -> list[float] | None:
    """Of every turn, as AgentRL at 844c007 has them; None for a group that it abandons. ``marked``: bad or repeated turns."""
    if max(scores) - min(scores) < 0.1:
        return None
    found: list[float] = []
    for at, score in enumerate(scores):
        own = 0.0 if abandoned[at] else score - mean(scores[:at] + scores[at + 1 :])
        for bad in marked[at]:
            capped = min(0.0, own) if bad else own
            found.append(2.0 * (max(capped, 0.0) if score > 0.5 else min(capped, 0.0)))
    return found


def test_the_recipe_of_agentcpm_explore_credits_random_groups_as_agentrl_does():
    """Its functions themselves are run by benchmarks/originals.py."""
    recipe, rng = find_rl_recipe("agentcpm-explore-4b").rl, random.Random(5)
    used = 0
    for _ in range(500):
        rollouts, abandoned, marked = [], [], []
        for _ in range(recipe.group_size):
            texts = [rng.choice([turn("a"), turn("b"), turn("c"), "<think>x</think> {"]) for _ in range(rng.randrange(5))]
            ending = rng.choice([Ending.ANSWERED] * 3 + [Ending.TURN_LIMIT, Ending.CONTEXT_EXHAUSTED])
            answered = ending is Ending.ANSWERED
            score = rng.choice([0.0, 0.0, 1.0, 1.0, 0.3]) if answered else 0.0
            texts += [ANSWER] if answered or not texts else []
            rollouts.append((rollout(*texts, ending=ending), score))
            abandoned.append(not answered or (score > 0 and len(texts) <= 1))
            marked.append(["{" in text[:18] or text in texts[:at] for at, text in enumerate(texts)])
        wanted = agentrl_advantages([score for _, score in rollouts], abandoned, marked)
        group = Group(0, rollouts[0][0].question, tuple(FinishedRollout(*one) for one in rollouts))
        status = group_status(group, 0, recipe)
        if wanted is None or all(abandoned):
            assert status in (GroupStatus.FLAT, GroupStatus.NOISY)
            continue
        used += 1
        table = build_table(list(graded(group, 0, recipe, PROFILE)))
        assert status is GroupStatus.USED and build_estimator(recipe.estimator)(table).tolist() == pytest.approx(wanted)
    assert used > 400


def test_format_errors_and_repeats_keep_blame_and_get_no_praise():
    trajectory = rollout(turn("a"), "no tags at all", turn("a"), ANSWER)
    both = DenoiseConfig(cap_malformed=True, cap_repeated=True)
    broken = broken_turns(trajectory, PROFILE)
    assert capped_turns(trajectory, both, broken) == [False, True, True, False]
    assert capped_turns(trajectory, DenoiseConfig(cap_repeated=True), broken) == [False, False, True, False]
    assert credited(both, (trajectory, 1.0), (trajectory, 0.0)) == [1, 0, 0, 1, -1, -1, -1, -1]


@pytest.mark.parametrize(
    ("outcomes", "least", "flat"),
    [
        ([], 0.0, True), ([0.0, 0.0, 0.0], 0.0, True), ([0.3, 0.2], 0.1, False), ([0.3, 0.25], 0.1, True),
        ([0.3, 0.25], 0.0, False),
    ],
)  # fmt: skip
def test_a_flat_group_says_nothing(outcomes: list, least: float, flat: bool):
    for order in itertools.permutations(outcomes):
        assert is_flat(order, DenoiseConfig(least_spread=least)) is flat
