"""The words of a world's lines: the same answers as reading every line again, in little memory."""

import gc
import random
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from sanderling.synth.graph.documents.blocks import lines_of
from sanderling.synth.graph.documents.lines import Lines, words_in
from sanderling.synth.graph.documents.named_things import NamedThings
from sanderling.world.contract import Page

WORDS = ("tide", "moon", "Sand", "wind", "oar")
texts = st.lists(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), max_size=5).map("\n\n".join), min_size=1, max_size=4
)


def pages_of(found: list[str]) -> list[Page]:
    return [Page(url=f"https://w.example/{number}", title="t", text=text) for number, text in enumerate(found)]


@given(texts, st.sets(st.sampled_from((*WORDS, "nowhere")), max_size=3), st.integers(0, 3))
def test_the_lines_that_hold_words_are_those_that_reading_finds(found: list[str], words: set[str], page: int) -> None:
    pages = pages_of(found)
    lines = Lines.of(pages)
    read = [(one.url, set(words_in(line.text))) for one in pages for line in lines_of(one.text)]
    asked = {word.casefold() for word in words}
    expected = [number for number, (_, held) in enumerate(read) if asked and asked <= held]
    assert lines.holding(asked) == expected
    assert [lines.page_of(number) for number in expected] == [read[number][0] for number in expected]
    url = f"https://w.example/{page}"
    assert list(lines.of_page(url)) == [number for number, (at, _) in enumerate(read) if at == url]
    assert lines.holding(asked, lines.of_page(url)) == [number for number in expected if read[number][0] == url]


@given(texts, st.lists(st.tuples(st.sampled_from("xy"), st.frozensets(st.sampled_from((*WORDS, "nowhere")), max_size=3))))
def test_the_things_that_a_line_names_are_those_whose_words_it_holds(
    found: list[str], names: list[tuple[str, frozenset[str]]]
) -> None:
    pages = pages_of(found)
    lines = Lines.of(pages)
    named = [(kind, frozenset(word.casefold() for word in words), str(number)) for number, (kind, words) in enumerate(names)]
    things = NamedThings(lines, named)
    first = {(kind, words): id for kind, words, id in reversed(named)}
    for number, line in enumerate(line for page in pages for line in lines_of(page.text)):
        held = set(words_in(line.text))
        for kind in "xyz":
            assert things.on(number, kind) == {
                id for (of, words), id in first.items() if of == kind and words and words <= held
            }


def test_a_world_s_lines_take_little_more_memory_than_its_text() -> None:
    rng = random.Random(0)
    lines = (" ".join(f"w{int(rng.paretovariate(0.5)) % 5_000}" for _ in range(20)) for _ in range(10_000))
    pages = pages_of(["\n\n".join(lines)])
    gc.collect()
    tracemalloc.start()
    index = Lines.of(pages)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert index.holding(["w1"])
    assert taken < 4 * len(pages[0].text)
