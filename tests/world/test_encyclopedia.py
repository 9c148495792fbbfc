"""The generated encyclopedia: the same bytes for the same seed, facts that hold together, pages that err as they should."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.world.encyclopedia import (
    BY_NAME,
    BY_SUBJECT,
    EVENT_FORMS,
    GOODS,
    ORGANISATION_FORMS,
    RELATIONS,
    SHARES,
    SMALLEST,
    WORK_FORMS,
    YEARS,
    Encyclopedia,
    Kind,
    Names,
    Relation,
    generate_encyclopedia,
    generate_facts,
)

STOP_WORDS = {*re.findall("[a-z]+", "a and at for has in is its of one that the to was when where which who")}
FORMS = {*ORGANISATION_FORMS, *WORK_FORMS, *EVENT_FORMS, "of"}


@pytest.fixture(scope="module")
def world() -> Encyclopedia:
    return generate_encyclopedia(200, 3)


def name_words(world: Encyclopedia) -> set[str]:
    return {word for entity in world.facts.entities for word in entity.name.split()} - FORMS


def words(texts: tuple[str, ...]) -> set[str]:
    return set(re.findall("[a-z]+", re.sub("{.}", " ", " ".join(texts)).lower())) - STOP_WORDS


def test_held_out_names_occur_in_no_training_world() -> None:
    trained = set().union(*(name_words(generate_encyclopedia(300, seed)) for seed in range(8)))
    held_out = set().union(*(name_words(generate_encyclopedia(300, seed, Names.HELD_OUT)) for seed in range(8)))
    assert len(trained) > 500
    assert len(held_out) > 500
    assert not trained & held_out


@settings(deadline=None, max_examples=20)
@given(st.integers(SMALLEST, 400), st.integers(0, 10**9), st.sampled_from(Names))
def test_every_relation_is_functional_and_its_object_is_of_its_kind(size: int, seed: int, names: Names) -> None:
    facts = generate_facts(size, seed, names)
    assert len(facts.entities) == size
    assert [entity.id for entity in facts.entities] == list(range(size))
    expected = {(entity.id, relation.name) for entity in facts.entities for relation in BY_SUBJECT[entity.kind]}
    for table in (facts.objects, facts.former, facts.rumoured):
        assert set(table) == expected
        for (subject, name), value in table.items():
            kind = BY_NAME[name].object
            if kind in SHARES:
                assert isinstance(value, int)
                assert facts.entities[value].kind is kind
                assert value != subject
            else:
                assert value in (YEARS if kind is Kind.YEAR else GOODS)


@pytest.mark.parametrize("size", [-1, 0, 1, SMALLEST - 1])
def test_too_small_is_one_sentence(size: int) -> None:
    with pytest.raises(UserError, match=f"{SMALLEST}"):
        generate_encyclopedia(size, 1)


def test_every_claim_is_said_on_its_page_and_names_its_object(world: Encyclopedia) -> None:
    for item in world.pages:
        entity = world.facts.entities[item.entity]
        assert set(item.claims) == set(item.sentences) == {relation.name for relation in BY_SUBJECT[entity.kind]}
        for name, sentence in item.sentences.items():
            assert sentence in item.page.text
            assert world.facts.object_text(item.claims[name]).casefold() in sentence.casefold()


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)
def test_pages_and_questions_share_no_content_word(relation: Relation) -> None:
    assert not words(relation.pages) & words(relation.questions)
    assert all(text.count("{s}") == text.count("{o}") == 1 for text in relation.pages)
    assert all(text.count("{x}") == 1 for text in relation.questions)
