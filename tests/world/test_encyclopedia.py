"""The generated encyclopedia: the same bytes for the same seed, facts that hold together, pages that err as they should."""

import re

import pytest

from sanderling.core.errors import UserError
from sanderling.world.encyclopedia import (
    BY_SUBJECT,
    EVENT_FORMS,
    ORGANISATION_FORMS,
    RELATIONS,
    SMALLEST,
    WORK_FORMS,
    Encyclopedia,
    Names,
    Relation,
    generate_encyclopedia,
)

STOP_WORDS = {*re.findall("[a-z]+", "a and at for has in is its of one that the to was when where which who")}


@pytest.fixture(scope="module")
def world() -> Encyclopedia:
    return generate_encyclopedia(200, 3)


def words(texts: tuple[str, ...]) -> set[str]:
    return set(re.findall("[a-z]+", re.sub("{.}", " ", " ".join(texts)).lower())) - STOP_WORDS


def test_held_out_names_occur_in_no_training_world() -> None:
    def names(held: Names) -> set[str]:
        made = (generate_encyclopedia(300, seed, held) for seed in range(4))
        return {word for one in made for entity in one.facts.entities for word in entity.name.split()}

    trained, held_out = names(Names.TRAIN), names(Names.HELD_OUT)
    assert min(len(trained), len(held_out)) > 500
    assert trained & held_out <= {*ORGANISATION_FORMS, *WORK_FORMS, *EVENT_FORMS, "of"}


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
