"""AgentCPM-Explore's three filters, and the traps of its released code."""

import itertools

import pytest

from sanderling.core.profiles import Profile
from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Ending, Role
from sanderling.rl.config import RlConfig
from sanderling.rl.credit import LeaveOneOutConfig, build_estimator
from sanderling.rl.rollouts import DenoiseConfig, FinishedRollout, Group, Noise, capped_turns, is_flat, is_outage, noise_of
from sanderling.rl.step import graded
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
    assert (noise_of(one, 0.0, OFF) is None) == ending.scored and not any(capped_turns(one, OFF, PROFILE))


@pytest.mark.parametrize("ending", [Ending.TOOL_OUTAGE, Ending.POLICY_OUTAGE, Ending.CANCELLED])
def test_a_zero_that_somebody_gave_an_outage_moves_nobody_s_baseline(ending: Ending):
    # The trap: AgentRL abandons such a trajectory, but its zero stays in the task's scores, which the others are compared with.
    group = [(rollout(ANSWER), 1.0), (rollout(ANSWER), 0.5)]
    broken = rollout(turn("a"), ending=ending)
    assert noise_of(broken, 0.0, OFF) is Noise.OUTAGE and is_outage(broken, 0.0)
    assert credited(OFF, *group, (broken, 0.0)) == [*credited(OFF, *group), 0.0] == [0.5, -0.5, 0.0]


def test_a_judge_that_failed_is_an_outage_and_no_zero():
    assert noise_of(rollout(ANSWER), None, OFF) is Noise.OUTAGE
    assert is_outage(rollout(ANSWER), None) and not is_outage(rollout(ANSWER), 0.0)


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
    mean = credited(config, (rollout(ANSWER), 1.0), (rollout(ANSWER), 0.5), (long, 0.0))[0]
    assert mean == pytest.approx(0.5 if noise else 0.75), "who is left out is in no baseline"


def test_trivially_short_is_a_right_answer_after_too_few_turns():
    config = DenoiseConfig(least_turns=1)
    assert noise_of(rollout(ANSWER), 1.0, config) is Noise.TOO_SHORT
    assert noise_of(rollout(ANSWER, rejected="broken"), 1.0, config) is Noise.TOO_SHORT, "rejected attempts are no turns"
    assert noise_of(rollout(ANSWER), 0.0, config) is noise_of(rollout(turn("a"), ANSWER), 1.0, config) is None


def test_format_errors_and_repeats_keep_blame_and_get_no_praise():
    trajectory = rollout(turn("a"), "no tags at all", turn("a"), ANSWER)
    both = DenoiseConfig(cap_malformed=True, cap_repeated=True)
    assert capped_turns(trajectory, both, PROFILE) == (False, True, True, False)
    assert capped_turns(trajectory, DenoiseConfig(cap_repeated=True), PROFILE) == (False, False, True, False)
    assert credited(both, (trajectory, 1.0), (trajectory, 0.0)) == [1, 0, 0, 1, -1, -1, -1, -1]


@pytest.mark.parametrize(
    ("outcomes", "least", "flat"),
    [
        ([], 0.0, True),
        ([0.0, 0.0, 0.0], 0.0, True),
        ([0.3, 0.2], 0.1, False),
        ([0.3, 0.25], 0.1, True),
        ([0.3, 0.25], 0.0, False),
    ],
)
def test_a_flat_group_says_nothing(outcomes: list, least: float, flat: bool):
    for order in itertools.permutations(outcomes):
        assert is_flat(order, DenoiseConfig(least_spread=least)) is flat
