"""Questions from a world: the path leads to the answer, the answer is the only one, and bad wishes are one sentence."""

from collections import Counter

import pytest

from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.synth.chains import Path, chain_questions
from sanderling.world.encyclopedia import RELATIONS, Encyclopedia, generate_encyclopedia

MIX = {1: 0.3, 2: 0.4, 3: 0.3}


@pytest.fixture(scope="module")
def world() -> Encyclopedia:
    return generate_encyclopedia(200, 3)


@pytest.fixture(scope="module")
def questions(world: Encyclopedia) -> list[Question]:
    return chain_questions(world, 300, 1, MIX)


def walk(world: Encyclopedia, start: int, relations: tuple[str, ...]) -> int | str:
    """Follow relations by the world's facts alone, checking kinds on the way; shares no code with the generator."""
    at: int | str = start
    for name in relations:
        assert isinstance(at, int)
        relation = next(relation for relation in RELATIONS if relation.name == name)
        assert world.facts.entities[at].kind is relation.subject
        at = world.facts.objects[(at, name)]
    return at


def test_the_path_leads_to_the_answer(world: Encyclopedia, questions: list[Question]) -> None:
    for question in questions:
        path = Path.of(question)
        end = walk(world, path.start, path.relations)
        name = end if isinstance(end, str) else world.facts.entities[end].name
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


def test_same_seed_same_questions(world: Encyclopedia, questions: list[Question]) -> None:
    again = chain_questions(generate_encyclopedia(200, 3), 300, 1, MIX)
    assert again == questions
    assert chain_questions(world, 300, 2, MIX) != questions
    assert chain_questions(world, 40, 1, MIX) == questions[:40]


def test_more_questions_than_there_are_is_one_sentence() -> None:
    with pytest.raises(UserError, match="make it larger or ask fewer"):
        chain_questions(generate_encyclopedia(40, 1), 500, 1, {1: 1.0})


@pytest.mark.parametrize("hops", [{}, {0: 1.0}, {1: 0.0}, {1: -1.0, 2: 2.0}])
def test_shares_that_cannot_be_drawn_from_are_one_sentence(world: Encyclopedia, hops: dict[int, float]) -> None:
    with pytest.raises(UserError, match="Hop shares"):
        chain_questions(world, 3, 1, hops)


def test_a_question_without_a_path_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="q77"):
        Path.of(Question(id="q77", text="Who?", answers=("me",)))
