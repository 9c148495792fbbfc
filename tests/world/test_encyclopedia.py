"""The generated encyclopedia: the same bytes for the same seed, facts that hold together, pages that err as they should."""

import re

import pytest

from sanderling.core.errors import UserError
from sanderling.world.encyclopedia import (
    BY_SUBJECT,
    RELATIONS,
    SMALLEST,
    Encyclopedia,
    Relation,
    generate_encyclopedia,
)

STOP_WORDS = {*re.findall("[a-z]+", "a and at for has in is its of one that the to was when where which who")}


@pytest.fixture(scope="module")
def world() -> Encyclopedia:
    return generate_encyclopedia(200, 3)


def words(texts: tuple[str, ...]) -> set[str]:
    return set(re.findall("[a-z]+", re.sub("{.}", " ", " ".join(texts)).lower())) - STOP_WORDS


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
