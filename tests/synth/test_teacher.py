"""The teacher through the one loop: right without faults, and each fault visible where a student could learn it."""

import datetime
from collections import Counter
from collections.abc import Sequence

import pytest

from sanderling.agent.agent import Agent
from sanderling.core.errors import UserError
from sanderling.core.grammar import check_turn
from sanderling.core.profiles import Profile, get_profile
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Ending, FixedClock
from sanderling.policy.contract import SampleKey
from sanderling.runs.work import in_parallel
from sanderling.synth.chains import Path, chain_questions
from sanderling.synth.head import ModeShares
from sanderling.synth.teacher import TeacherPolicy
from sanderling.tools.world_tools import world_tools
from sanderling.world.encyclopedia import RELATIONS, Encyclopedia, Names, Site, generate_encyclopedia
from sanderling.world.local import LocalWorld

TINY = get_profile("tiny")
NO_FAULTS = {"first_result": 0.0, "trust_snippet": 0.0, "stop_early": 0.0, "repeat_call": 0.0, "slip": 0.0}


def shares(**forced: float) -> ModeShares:
    return ModeShares(**{**NO_FAULTS, **forced})


@pytest.fixture(scope="module")
def world() -> Encyclopedia:
    return generate_encyclopedia(150, 4, Names.HELD_OUT)


@pytest.fixture(scope="module")
def local(world: Encyclopedia) -> LocalWorld:
    return LocalWorld.in_memory((item.page for item in world.pages), name=world.name)


@pytest.fixture(scope="module")
def questions(world: Encyclopedia) -> list[Question]:
    return chain_questions(world, 60, 1, {1: 0.3, 2: 0.4, 3: 0.3})


async def teach(
    world: Encyclopedia,
    local: LocalWorld,
    questions: Sequence[Question],
    modes: ModeShares,
    profile: Profile = TINY,
    attempt: int = 0,
) -> list[Trajectory]:
    agent = Agent(
        TeacherPolicy(world, {question.id: question for question in questions}, modes),
        world_tools(local, profile),
        profile,
        FixedClock(datetime.date(2026, 1, 1)),
    )
    return await in_parallel(lambda question: agent.run(question, Seeds(run=3, attempt=attempt)), questions, 4)


def right(found: Sequence[Trajectory]) -> float:
    return sum(trajectory.answer in trajectory.question.answers for trajectory in found) / len(found)


def visited(trajectory: Trajectory) -> list[str]:
    return [url for node in trajectory.turns() for call in node.calls if call.name == "visit" for url in call.arguments["url"]]


async def test_a_faultless_teacher_is_right(world: Encyclopedia, local: LocalWorld, questions: list[Question]) -> None:
    found = await teach(world, local, questions, shares())
    assert right(found) == 1.0
    for trajectory in found:
        turns = list(trajectory.turns())
        assert trajectory.ending is Ending.ANSWERED
        assert len(turns) == 2 * (trajectory.question.hops or 0) + 1
        assert not any(check_turn(turn.text, think_open=False) for turn in turns)
        assert not any(turn.problems for turn in turns)
        assert all(url.startswith(Site.ATLAS) for url in visited(trajectory))


async def test_a_retry_draws_anew(world: Encyclopedia, local: LocalWorld, questions: list[Question]) -> None:
    # A rejected attempt rewinds the teacher: drawn from the same numbers, the slip would come back until retries are used up.
    patient = TINY.model_copy(update={"guards": TINY.guards.model_copy(update={"max_retries": 4})})
    found = await teach(world, local, questions, shares(slip=0.4), profile=patient)
    rejected = [node for trajectory in found for node in trajectory.nodes if node.rejected]
    assert len(rejected) > 20
    standing = [node for trajectory in found for node in trajectory.turns()]
    assert sum(bool(check_turn(node.text, think_open=False)) for node in standing) < 0.1 * len(rejected)
    assert right(found) == 1.0


async def test_questions_of_another_world_are_refused(world: Encyclopedia, questions: list[Question]) -> None:
    other = generate_encyclopedia(150, 5, Names.HELD_OUT)
    policy = TeacherPolicy(other, {question.id: question for question in questions}, shares())
    for name in (questions[0].id, "nobody's"):
        with pytest.raises(UserError, match="is not of world"):
            policy.open(SampleKey(1, name, 0, 0))


# -- Questions from a world: the path leads to the answer, the answer is the only one, and bad wishes are one sentence -----

MIX = {1: 0.3, 2: 0.4, 3: 0.3}


@pytest.fixture(scope="module")
def larger() -> Encyclopedia:
    return generate_encyclopedia(200, 3)


@pytest.fixture(scope="module")
def many(larger: Encyclopedia) -> list[Question]:
    return chain_questions(larger, 300, 1, MIX)


def walk(larger: Encyclopedia, start: int, relations: tuple[str, ...]) -> int | str:
    """Follow relations by the world's facts alone, checking kinds on the way; shares no code with the generator."""
    at: int | str = start
    for name in relations:
        assert isinstance(at, int)
        relation = next(relation for relation in RELATIONS if relation.name == name)
        assert larger.facts.entities[at].kind is relation.subject
        at = larger.facts.objects[(at, name)]
    return at


def test_the_path_leads_to_the_answer(larger: Encyclopedia, many: list[Question]) -> None:
    for question in many:
        path = Path.of(question)
        end = walk(larger, path.start, path.relations)
        name = end if isinstance(end, str) else larger.facts.entities[end].name
        assert question.answers[0] == name
        assert path.objects[-1] == end
        assert question.hops == len(path.relations) == len(path.objects)


@pytest.mark.parametrize("mix", [MIX, {1: 0.35, 2: 0.45, 3: 0.20}, {1: 1.0, 4: 3.0}])
def test_shares_of_hops_are_kept(mix: dict[int, float]) -> None:
    # Long chains run into a literal or a circle more often than short ones; they must not become fewer for that.
    worlds = [generate_encyclopedia(200, seed) for seed in range(4)]
    counts = Counter(question.hops for world in worlds for question in chain_questions(world, 300, 2, mix))
    assert set(counts) == set(mix)
    for hops, share in mix.items():
        assert abs(counts[hops] / 1200 - share / sum(mix.values())) < 0.045  # more than three standard errors


def test_same_seed_same_questions(larger: Encyclopedia, many: list[Question]) -> None:
    again = chain_questions(generate_encyclopedia(200, 3), 300, 1, MIX)
    assert again == many
    assert chain_questions(larger, 300, 2, MIX) != many
    assert chain_questions(larger, 40, 1, MIX) == many[:40]


def test_more_questions_than_there_are_is_one_sentence() -> None:
    with pytest.raises(UserError, match="make it larger or ask fewer"):
        chain_questions(generate_encyclopedia(40, 1), 500, 1, {1: 1.0})


@pytest.mark.parametrize("hops", [{}, {0: 1.0}, {1: 0.0}, {1: -1.0, 2: 2.0}])
def test_shares_that_cannot_be_drawn_from_are_one_sentence(larger: Encyclopedia, hops: dict[int, float]) -> None:
    with pytest.raises(UserError, match="Hop shares"):
        chain_questions(larger, 3, 1, hops)


def test_a_question_without_a_path_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="q77"):
        Path.of(Question(id="q77", text="Who?", answers=("me",)))
