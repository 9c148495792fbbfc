"""Answers with their sources: what becomes of the model's numbers, of sentences without them, and of what was not read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.profiles import ResultLayout
from sanderling.core.record import Node, NodeKind, Passage, Question, ToolEvent, Trajectory
from sanderling.core.types import Ending, Role, ToolStatus
from sanderling.judge.citations import CitedAnswer, Source, cite, passages_of
from sanderling.judge.support import Support
from sanderling.judge.written import as_markdown
from sanderling.tools.world_tools import visit_text
from sanderling.world.contract import VisitReply, missing

TOWER, HARBOUR = "https://tower.example/page", "https://harbour.example/page"
PASSAGES = (
    Passage(number=1, url=TOWER, title="The tower", text="The tower of Velm is 41 metres high."),
    Passage(number=2, url=TOWER, title="The tower", text="It was built in 1874 by Hanno Steen."),
    Passage(number=3, url=HARBOUR, title="The harbour", text="The harbour of Brekke has 2,600 workers."),
)


def episode(answer: str | None, *observations: Node) -> Trajectory:
    shown = observations or (observation("", event(passages=PASSAGES)),)
    nodes = [Node(parent=None, role=Role.SYSTEM, kind=NodeKind.SYSTEM, text="")]
    nodes += [one.model_copy(update={"parent": place}) for place, one in enumerate(shown)]
    question = Question(id="q", text="?")
    ending = Ending.ANSWERED if answer else Ending.CANCELLED
    return Trajectory(id="t", question=question, nodes=tuple(nodes), leaf=len(nodes) - 1, ending=ending, answer=answer)


def observation(text: str, *events: ToolEvent) -> Node:
    return Node(parent=None, role=Role.USER, kind=NodeKind.OBSERVATION, text=text, events=events)


def event(
    status: ToolStatus = ToolStatus.OK, urls: tuple[str, ...] = (TOWER,), passages: tuple[Passage, ...] = ()
) -> ToolEvent:
    return ToolEvent(name="visit", role="visit", status=status, provenance=urls, passages=passages)


def cited(answer: str, *observations: Node) -> CitedAnswer:
    found = cite(episode(answer, *observations))
    assert found is not None
    return found


def test_numbers_become_those_of_pages_in_order_of_use():
    found = cited(
        "The harbour of Brekke has 2,600 workers [3]. The tower of Velm is 41 metres high.[1] It dates from 1874 [2]."
    )
    assert str(found) == (
        "The harbour of Brekke has 2,600 workers [1]. The tower of Velm is 41 metres high [2]. It dates from 1874 [2]."
    )
    assert [(one.number, one.url) for one in found.sources] == [(1, HARBOUR), (2, TOWER)]
    assert found.sources[1].quotes[0] == PASSAGES[0].text and found.count(Support.SUPPORTED) >= 2 and not found.invented


@pytest.mark.parametrize(
    ("marks", "invented"),
    [
        ("[1]", 0),
        (" [1][2]", 0),
        (" [1] [2]", 0),
        (" [1, 2]", 0),
        (" [1; 3]", 0),
        (" [1-3]", 0),
        (" [1\u20133]", 0),
        ("\u30101\u2020L1-L3\u3011", 0),
        (" [1][9]", 1),
        (" [8-10, 1]", 3),
        (" [9]", 1),
    ],
)
@pytest.mark.parametrize("shape", ["The tower of Velm is 41 metres high{}.", "The tower of Velm is 41 metres high.{}"])
def test_every_form_of_mark_is_read_and_none_is_left(shape: str, marks: str, invented: int):
    found = cited(shape.format(marks))
    (sentence,) = found.sentences
    assert sentence.text == "The tower of Velm is 41 metres high." and sentence.support is Support.SUPPORTED
    assert str(found) == "The tower of Velm is 41 metres high [1]." and found.invented == invented
    assert sentence.found_by_code == (marks == " [9]")


@given(numbers=st.lists(st.integers(4, 10**6), min_size=1, max_size=5))
def test_numbers_that_no_passage_has_are_counted_and_dropped(numbers: list[int]):
    found = cited(f"Penguins live in Antarctica {''.join(f'[{number}]' for number in numbers)}.")
    assert found.invented == len(set(numbers)) and not found.sources
    assert str(found) == "Penguins live in Antarctica." and found.sentences[0].support is Support.NOT_FOUND


@pytest.mark.parametrize("code", ["`rows[1]`", "`a[3-5]` and `b`", "```\nx = rows[1]\ny = [2]\n```"])
def test_code_is_left_alone(code: str):
    answer = f"The tower of Velm is 41 metres high [1].\n{code}\nThe end."
    found = cited(answer)
    assert code in str(found) and not found.invented


def test_links_and_brackets_of_words_are_no_marks():
    answer = "See [the page](https://x.example) and [note] of the tower of Velm, 41 metres high."
    assert str(cited(answer)).startswith("See [the page](https://x.example) and [note]") and not cited(answer).invented


@pytest.mark.parametrize(
    "mark",
    [
        "[1](https://evil.example/a_(b))",
        "[[1]](https://evil.example)",
        "[^1]",
        "[passage 1]",
        "[Source 1, source 2]",
        "[p1]",
        "［1］",
    ],
)
def test_a_reference_that_a_model_writes_out_is_a_mark_like_any_other(mark: str):
    found = cited(f"The tower of Velm is 41 metres high {mark}.")
    assert str(found) == "The tower of Velm is 41 metres high [1]." and [one.url for one in found.sources] == [TOWER]


@pytest.mark.parametrize(
    "listed",
    [
        "Sources:\n[1] The tower, https://evil.example",
        "**References**\n\n1. The tower\n2. https://evil.example",
        "## Sources\n- [The tower](https://evil.example)\n- Other",
        "[1]: https://evil.example\n[2]: https://tower.example",
        "[^1]: See https://evil.example",
    ],
)
def test_a_list_of_sources_that_a_model_writes_is_left_out(listed: str):
    said = "The tower of Velm is 41 metres high [1].\n\nIts sources: two springs."
    assert str(cited(f"{said}\n\n{listed}\n")) == said


def test_a_claim_that_pretends_to_be_open_is_checked():
    for claim in (
        "The tower of Velm is open to visitors until nine in the evening.",
        "Although it could not be confirmed, the tower of Velm has 12 bells.",
        "There is no evidence that the tower of Velm leans.",
        "The mason could not find any stone near Velm.",
    ):
        (sentence,) = cited(f"{claim[:-1]} [1].").sentences
        assert sentence.support in (Support.PARTLY, Support.NOT_FOUND), claim
    for claim in (
        "I could not find who paid for the tower.",
        "Who paid for it could not be determined.",
        "No information on its bells was found.",
    ):
        found = cited(f"{claim[:-1]} [1].")
        assert found.sentences[0].support is None and not found.sources and str(found) == claim


def test_what_was_cut_from_what_the_model_read_is_not_read():
    shown = observation("[1] The tower of Velm is 41 metres high.\n…", event(passages=PASSAGES))
    for problems, count in (((), 3), (("observation_cut",), 1)):
        assert len(passages_of(episode("x", shown.model_copy(update={"problems": problems})))) == count


VELM = "维尔姆塔高四十一米，建于1874年，由汉诺建造。"


@pytest.mark.parametrize(
    ("read", "said", "support"),
    [
        ("Cafe\u0301 Mu\u0308ller opened in 1923 in Velm.", "Caf\u00e9 M\u00fcller opened in 1923 in Velm.", "supported"),
        (
            "The stra\u00adssen\u00adbahn of Velm\u2011Ost runs since 1901.",
            "The strassenbahn of Velm-Ost runs since 1901.",
            "supported",
        ),
        ("The ferry\u200b of Velm leaves at 7\u00a0am.", "The ferry of Velm leaves at 7 am.", "supported"),
        (
            "The mayor will \u201cnot take any fur-\nther delay\u201d.",
            'The mayor will "not take any further delay".',
            "supported",
        ),
        ("Velm was founded by Ada O\u2019Brien in 1923.", "Ada O'Brien founded Velm in 1923.", "supported"),
        ("Velm was founded by Ada O'Brien in 1923.", "Ada O\u2019Brien founded Velm in 1923.", "supported"),
        (VELM, "维尔姆塔高四十一米[1]。", "supported"),
        (VELM, "建于1874年，由汉诺建造。", "supported"),
        (VELM, "维尔姆塔高四十二米。", "partly"),
        (VELM, "布雷克港有两千六百名工人。", "not_found"),
        ("ヴェルム塔は41メートルの高さです。", "ヴェルム塔は41メートルの高さです。", "supported"),
        ("ヴェルム塔は41メートルの高さです。", "ヴェルム塔は42メートルの高さです。", "partly"),
    ],
)
def test_how_letters_are_written_does_not_matter(read: str, said: str, support: str):
    """In scripts without spaces only the very words count."""
    passages = (Passage(number=1, url=TOWER, title="", text=read),)
    assert cited(said, observation("", event(passages=passages))).sentences[0].support == support


def test_a_table_stays_a_table():
    """Its head claims nothing, a row is one sentence, and what is said of a row stands in its last cell."""
    answer = "| place | height |\n|---|---|\n| The tower of Velm | 41 metres high [1] |\n| Dirk's inn. Nine rooms | 12 bells |"
    found = episode(answer, observation("", event(passages=PASSAGES)))
    assert [one.support for one in cited(answer).sentences] == [None, None, Support.SUPPORTED, Support.NOT_FOUND]
    rows = as_markdown([found]).partition("| place")[2].splitlines()[2:4]
    assert rows == [
        "| The tower of Velm | 41 metres high [1] |",
        "| Dirk's inn. Nine rooms | 12 bells *(not found in what was read)* |",
    ]


def test_nothing_from_outside_turns_a_line_of_an_exported_answer():
    page = Passage(number=1, url=TOWER, title="\u202egro.elpmaxe\x1b[2J", text=PASSAGES[0].text)
    found = as_markdown([episode(f"{PASSAGES[0].text} [1]", observation("", event(passages=(page,))))])
    assert TOWER in found and "\u202e" not in found and "\x1b" not in found


def test_a_doubt_stays_in_its_row_and_a_head_is_no_claim():
    answer = "| tower of Velm | metres high |\n|---|---|\n| The tower of Velm | 43 metres high [1] |"
    found = cited(answer)
    assert [one.support for one in found.sentences[:2]] == [None, None] and found.count(Support.SUPPORTED) == 0
    assert as_markdown([episode(answer)]).splitlines()[4].endswith(")* |")


def test_a_wrong_passage_gives_way_to_one_that_says_it():
    found = cited("The tower of Velm is 41 metres high [3].")
    assert found.sentences[0].found_by_code and [one.url for one in found.sources] == [TOWER]


def test_what_the_passages_do_not_say_is_not_green():
    found = cited("The tower of Velm is 43 metres high [1]. It was built in 1874 by Dirk Brekke [2].")
    assert not found.count(Support.SUPPORTED)
    assert found.sentences[0].missing == ("43 metres",) and "Dirk" in found.sentences[1].missing


def test_sentences_without_a_claim_have_no_verdict():
    answer = "# Towers\nHere is what I found:\nHow high is it?\nWhether it leans could not be determined."
    assert [one.support for one in cited(answer).sentences] == [None] * 4
    assert cited(answer).checked == "Nothing in this answer can be checked against sources."


def test_a_sentence_set_as_a_heading_is_checked():
    answer = (
        "## The tower of Velm\n## The tower of Velm is 43 metres high.\n## The tower of Velm was built by a man called Steen"
    )
    assert [one.support for one in cited(answer).sentences] == [None, Support.PARTLY, Support.PARTLY]


@pytest.mark.parametrize(
    "answer", ["Not found.", "It was not found in the documents.", "The pages that I read do not say who built the harbour."]
)
def test_that_nothing_was_found_is_no_claim_which_a_page_supports(answer: str):
    said = "The file was not found in the documents. Pages that I read do not say who built the harbour."
    read = Passage(number=1, url=HARBOUR, title="Files", text=said)
    found = cited(answer, observation("", event(passages=(read,))))
    assert [one.support for one in found.sentences] == [None] and not found.sources


def test_layout_survives():
    answer = (
        "# Towers\n\n- The tower of Velm is 41 metres high [1]\n- It was built in 1874 by Hanno Steen [2].\n\n"
        "1. The harbour of Brekke has 2,600 workers [3].\n\n> Quoted line.\n\n```\nfor x in y:\n    z[1]\n```"
    )
    wanted = (
        "# Towers\n\n- The tower of Velm is 41 metres high [1]\n- It was built in 1874 by Hanno Steen [1].\n\n"
        "1. The harbour of Brekke has 2,600 workers [2].\n\n> Quoted line.\n\n```\nfor x in y:\n    z[1]\n```"
    )
    assert str(cited(answer)) == wanted


def test_without_an_answer_there_is_nothing():
    assert cite(episode(None)) is None


@given(st.text())
def test_any_answer_can_be_checked(answer: str):
    found = cite(episode(answer))
    assert found is not None and all(source.number == place for place, source in enumerate(found.sources, start=1))


@pytest.mark.parametrize("layout", [ResultLayout.JSON, ResultLayout.MARKDOWN, ResultLayout.COMPACT])
def test_profiles_without_numbers_are_attributed_by_code(layout: ResultLayout):
    page = VisitReply(
        TOWER, "The tower", "The tower of Velm is 41 metres high. It was built in 1874 by the mason Hanno Steen.\n\nIt leans."
    )
    found = cited("The tower of Velm is 41 metres high.", observation(visit_text([page], "towers", layout), event()))
    assert found.sentences[0].support is Support.SUPPORTED and found.sentences[0].found_by_code
    assert [one.url for one in found.sources] == [TOWER]


@pytest.mark.parametrize("layout", [ResultLayout.JSON, ResultLayout.MARKDOWN, ResultLayout.COMPACT])
def test_a_visit_that_failed_is_no_source(layout: ResultLayout):
    text = visit_text([missing(TOWER)], "towers", layout)
    failed = observation(text, event(ToolStatus.NOT_FOUND, urls=()))
    assert not passages_of(episode("x", failed))
    for answer in ("The tower of Velm is 41 metres high [1].", f"{text[-80:]} [1]"):
        found = cited(answer, failed)
        assert not found.count(Support.SUPPORTED) and not found.sources


def test_a_failed_page_beside_a_read_one_is_no_source():
    page = VisitReply(TOWER, "The tower", "The tower of Velm is 41 metres high, as every child there knows and tells.")
    text = visit_text([missing(HARBOUR), page], "towers", ResultLayout.JSON)
    read = passages_of(episode("x", observation(text, event(urls=(TOWER,)))))
    assert {passage.url for passage in read} == {TOWER}


def test_a_link_leads_to_the_passage():
    source = Source(1, TOWER, "The tower", ("The tower of Velm is 41 metres high, they say.",))
    assert source.link == f"{TOWER}#:~:text=The%20tower%20of%20Velm%20is%2041%20metres%20high%2C"
    assert Source(1, "docs://a.pdf", "", ("x",)).link == ""
    assert Source(1, "https://x.example/a.PDF?b", "", ("x",)).link == "https://x.example/a.PDF?b"  # read without fragments
    page, note = (Path("/srv/my notes") / name for name in ("a#1.html", "Käse.md"))
    assert Source(1, "local://n/a", "", ("The tower",), page).link == "file:///srv/my%20notes/a%231.html#:~:text=The%20tower"
    assert Source(1, "local://n/b", "", ("The tower",), note).link == "file:///srv/my%20notes/K%C3%A4se.md"
    assert Source(1, "local://n/c", "", (), Path("/srv/a\n[2] b.md")).place == "/srv/a\N{SYMBOL FOR NEWLINE}[2] b.md"


@pytest.mark.parametrize(
    ("url", "said", "link"),
    [
        ("https://x.example/", "- The **well-known** tower", "https://x.example/#:~:text=The%20well%2Dknown%20tower"),
        ("https://x.example/", "## Heights\n| tower of Velm | 41 |", "https://x.example/#:~:text=tower%20of%20Velm"),
        ("https://x.example/a#b", "50% off, at max_size", "https://x.example/a#b:~:text=50%25%20off%2C%20at%20max_size"),
        ('https://x.example/a b>"<c', "塔高", "https://x.example/a%20b%3E%22%3Cc#:~:text=%E5%A1%94%E9%AB%98"),
        ("javascript:alert(1)", "x", ""),
    ],
)
def test_a_link_holds_words_that_the_page_shows(url: str, said: str, link: str):
    assert Source(1, url, "", (said,)).link == link
