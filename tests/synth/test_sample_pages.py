"""Which pages are sampled: by seed and address alone."""

from hypothesis import given
from hypothesis import strategies as st

from sanderling.synth.pages import sample_pages
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Page


def page(number: int, words: int = 100) -> Page:
    return Page(url=f"https://w.example/{number}", title="t", text="word " * words)


@given(st.permutations(range(30)), st.integers(0, 9), st.integers(0, 40))
def test_order_and_number_change_nothing(order, seed, count):
    whole = sample_pages(map(page, range(30)), 30, seed)
    assert sample_pages([page(number) for number in order], count, seed) == whole[:count]


def test_another_seed_is_another_sample():
    pages = [page(number) for number in range(100)]
    assert sample_pages(pages, 10, 1) != sample_pages(pages, 10, 2)


def test_a_world_that_grew_keeps_its_places():
    before = sample_pages(map(page, range(50)), 50, 3)
    after = sample_pages(map(page, range(90)), 90, 3)
    assert [one for one in after if one in before] == before


def test_lengths_and_what_is_left_out():
    pages = [page(0, 10), page(1, 100), page(2, 90_000), page(3, 200)]
    assert {one.url for one in sample_pages(pages, 9, 0)} == {pages[1].url, pages[3].url}
    assert sample_pages(pages, 9, 0, leave_out={canonical_url(pages[1].url)}) == [pages[3]]
