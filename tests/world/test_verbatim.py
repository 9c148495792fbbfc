"""What is a leak by its words: the question whole or half of its runs, a canary; and what is a quotation or a coincidence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.text import question_tokens
from sanderling.world.guard import Canaries, Found, Wording, as_words

LONG = (
    "Which keeper of a lighthouse on the northern coast, who once taught music in a town known for its bells, wrote forty odes "
    "to the tide before a storm of the nineteenth century took the library that his sister had founded there?"
)
WORDS = LONG.split()
RUNS = len(WORDS) - 12
SHORT = "who wrote the odes to the northern tide"
CHINESE = "哪位作家在北方海岸的灯塔旁写下了四十首潮汐颂歌，并且在风暴来临之前把手稿交给了他的妹妹保管？"


def found(question: str, text: str, title: str = "", url: str = "https://p.example/x") -> Found | None:
    return Wording.of(question).found_on(url, title, text)


def words(count: int, start: int = 0) -> str:
    return " ".join(WORDS[start : start + count])


def test_the_whole_question_is_a_leak_however_it_is_set() -> None:
    for text in (LONG, f"Q17.\n{LONG.upper()}\nA: Orlo", LONG.replace(",", "").replace(" ", "\n"), f"({LONG})"):
        assert found(LONG, text) == Found(True, "whole question")
    assert found(LONG, "", title=LONG) == Found(True, "whole question")


@pytest.mark.parametrize(
    ("count", "leak"),
    [(12, None), (13, False), (12 + (RUNS + 1) // 2 - 1, False), (12 + (RUNS + 1) // 2, True), (12 + RUNS - 1, True)],
)
def test_half_of_the_runs_are_a_leak_and_fewer_a_quotation(count: int, leak: bool | None) -> None:
    got = found(LONG, f"Before. {words(count)} and after.")
    assert (None if got is None else got.leak) is leak
    assert got is None or got.what == f"{count - 12} of {RUNS} runs"


def test_of_two_runs_both_are_needed() -> None:
    fourteen = words(14)
    assert found(fourteen, f"so {words(13)} it is") == Found(False, "1 of 2 runs")
    assert found(fourteen, f"so {words(13, 1)} it is") == Found(False, "1 of 2 runs")
    assert found(fourteen, f"{words(13)} - and - {words(13, 1)}") == Found(True, "2 of 2 runs")


def test_a_short_question_is_found_whole_alone() -> None:
    assert found(SHORT, f"Quiz: {SHORT}?") == Found(True, "whole question")
    assert found(SHORT, "who wrote the odes to the southern tide") is None
    assert found(SHORT, "Who wrote the odes? Someone who went to the northern tide") is None
    assert found("who wrote the odes to tides", "who wrote the odes to tides") is None, "below eight words nobody owns it"
    assert found("", "") is None and found("?!", "?!") is None


def test_scripts_without_blanks_are_counted_by_characters() -> None:
    assert found(CHINESE, f"题目：{CHINESE}答案：奥洛") == Found(True, "whole question")
    characters = [character for character in CHINESE if character not in "，？"]
    size = len(characters) - 25
    half = "".join(characters[: 25 + (size + 1) // 2])
    got = found(CHINESE, half)
    assert got is not None and got.leak
    assert found(CHINESE, "".join(characters[:26])) == Found(False, f"1 of {size} runs")
    assert found(CHINESE, "".join(characters[:25])) is None
    assert found("北方海岸的灯塔在哪里", "北方海岸的灯塔在哪里") is None, "ten characters are common property"
    assert found("哪位作家在北方海岸的灯塔旁写下颂歌", "见：哪位作家在北方海岸的灯塔旁写下颂歌") is not None


def test_a_page_that_echoes_its_query_is_no_leak_by_its_title() -> None:
    url = "https://search.example/?q=" + LONG.replace(" ", "+").replace(",", "%2C")
    assert found(LONG, f"{LONG} - Search\nA lighthouse stands there.", title=f"{LONG} - Search", url=url) is None
    assert found(LONG, "Results", title=LONG, url="https://search.example/?q=tide") is not None
    leak = found(LONG, f"{LONG}\nSomebody asks: {LONG} Orlo, says the key.", title=LONG, url=url)
    assert leak == Found(True, "whole question"), "what it says below its first line counts"
    slug = "https://answers.example/" + LONG.replace(" ", "-").rstrip("?")
    assert found(LONG, "Orlo.", title=LONG, url=slug) is not None, "a path names a page, and a page about it gives it away"


ASKING = "https://www.mirror.example/viewer?lang=en&q=" + LONG.replace(" ", "+").replace(",", "%2C")


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("", f"{LONG} Answer: Vumhum. Level 3."),
        ("", f"{LONG} Vumhum"),
        ("", f"{LONG} 1.5"),
        ("", f"{LONG} No."),
        ("", f"Q1 {LONG} Vumhum Search again"),
        ("", f"Answer: Vumhum. {LONG}"),
        (f"{LONG} Vumhum", ""),
        (LONG, f"{LONG} Vumhum"),
        ("Mirror", f"Results for {LONG}: {LONG} Answer: Vumhum."),
        ("Mirror", f"{LONG}\n{LONG} Answer: Vumhum."),
        (LONG, f"{words(len(WORDS) - 1)}… Answer: Vumhum."),
    ],
)
def test_an_address_that_asks_the_question_excuses_no_answer_to_it(title: str, text: str) -> None:
    for url in (ASKING, ASKING.replace("+", "%2520"), f"{ASKING}#top"):
        got = found(LONG, text, title, url)
        assert got is not None and got.leak
    assert found(CHINESE, f"{CHINESE}答案：奥洛", url=f"https://m.example/?q={CHINESE}") == Found(True, "whole question")


@pytest.mark.parametrize(
    ("title", "text"),
    [
        (LONG, ""),
        (f"{LONG} - Search", "1. Lighthouses of the coast"),
        (f"{LONG} | Mirror", f"Showing results for {LONG}\n1. Lighthouses of the coast"),
        (f"{words(20)}… - Mirror Search", "Lighthouses"),
        ("Mirror", f"Search results for: {LONG} 1. Lighthouses of the coast 2. Bells of a town"),
        (f"{LONG} - Mirror Search Results", f"{LONG} - Mirror Search 1. Lighthouses of the coast"),
    ],
)
def test_a_search_page_that_lists_other_things_stays(title: str, text: str) -> None:
    for url in (ASKING, ASKING.replace("+", "%2520"), f"{ASKING}#top"):
        assert found(LONG, text, title, url) is None
    assert found(CHINESE, f"{CHINESE}的搜索结果\n灯塔", CHINESE, f"https://m.example/?q={CHINESE}") is None


def test_a_canary_is_found_whatever_is_around_it() -> None:
    canaries = Canaries(["BENCH canary GUID 26b5c67b-86ad", "short", "BENCH other GUID 11111111-2222"])
    assert canaries.in_words(as_words("x\nbench CANARY guid: 26b5c67b-86ad\ny"))
    assert not canaries.in_words(as_words("short bench canary guid 26b5c67b-86ae, BENCH other GUID 1111"))
    assert not Canaries(()).in_words(as_words("anything")) and not Canaries(["", "a b"]).in_words(as_words("a b"))


TEXT = st.lists(st.sampled_from(["tide", "bell", "coast", "storm", "ode", "keeper"]), min_size=0, max_size=40).map(" ".join)


@given(TEXT, TEXT, TEXT)
def test_what_holds_the_question_is_a_leak_and_more_text_changes_nothing(question: str, before: str, after: str) -> None:
    got = found(question, f"{before} {question} {after}")
    assert (got == Found(True, "whole question")) is (len(question_tokens(question)) >= 8)


@given(st.integers(14, len(WORDS)), st.integers(0, 30), st.integers(13, 60))
def test_the_share_of_runs_decides(length: int, start: int, count: int) -> None:
    question, text = words(length), words(count, start)
    runs = {" ".join(WORDS[i : i + 13]) for i in range(length - 12)}
    held = sum(run in text for run in runs)
    got = found(question, text)
    if question in text:
        assert got == Found(True, "whole question")
    else:
        assert (got is not None) is (held > 0)
        assert got is None or got.leak is (held >= 2 and 2 * held >= len(runs))
