"""LiteResearcher's filters, each at its number, and limits of length."""

import cleaning_makers
import pytest
from cleaning_makers import answer, call_text, chain, clean, message, results, search, seen, talk, texts, visit
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.profiles import get_profile
from sanderling.core.record import NodeKind, ToolEvent, Trajectory
from sanderling.core.types import ToolStatus
from sanderling.data.cleaning import Outcome, Reason, StepName, get_recipe
from sanderling.judge.verdict import Ruling, Verdict, with_verdict

LATE = seen("Tool execution timed out after 120 seconds.")
LONG = "The city in question is Lisbon, the capital of Portugal, as three independent sources say, two of them official."


def step(name: StepName, found: Trajectory, **settings: object) -> Outcome:
    return cleaning_makers.step(name, found, get_profile("literesearcher-4b"), **settings)


def calls(*turns: str) -> Trajectory:
    said = [text for turn in turns for text in (turn, seen("x"))]
    return talk(*said, answer())


class TestRepeatLimit:
    def test_three_times_is_borne_and_four_times_is_not(self) -> None:
        assert step("repeat_limit", calls(*[search("a")] * 3)).reason is None
        assert step("repeat_limit", calls(*[search("a")] * 4)).reason is Reason.REPEATED_CALLS

    def test_other_goals_are_other_calls_unless_told(self) -> None:
        found = calls(*(visit("https://a.example/", goal=f"{number}") for number in range(4)))
        assert step("repeat_limit", found).reason is None
        assert step("repeat_limit", found, with_goal=False).reason is Reason.REPEATED_CALLS

    def test_the_number_is_a_setting(self) -> None:
        assert step("repeat_limit", calls(search("a"), search("a")), most=1).reason is Reason.REPEATED_CALLS


def test_at_least_two_calls() -> None:
    assert step("min_calls", calls(search("a"))).reason is Reason.TOO_FEW_CALLS
    assert step("min_calls", calls(search("a"), search("a"))).reason is None
    assert step("min_calls", calls(call_text(*[("search", {"query": ["a"]})] * 2))).reason is None
    assert step("min_calls", talk(answer()), least=0).reason is None


class TestToolErrors:
    def test_two_are_borne_and_three_are_not(self) -> None:
        two = talk(search("a"), LATE, search("b"), LATE, search("c"), seen("[]"), answer())
        assert step("tool_errors", two).reason is None
        assert step("tool_errors", two, most=1).reason is Reason.TOOL_ERRORS

    def test_the_tools_own_word_comes_first(self) -> None:
        events = tuple(ToolEvent(name="search", status=status) for status in (ToolStatus.OUTAGE, ToolStatus.EMPTY))
        one = message(NodeKind.OBSERVATION, seen("x", "y"), events=events)
        found = talk(call_text(*[("search", {"query": ["a"]})] * 2), seen("x", "y"), answer())
        found = chain(*found.nodes[:3], one, found.nodes[4])
        assert step("tool_errors", found, most=0).detail == "1 failed calls"

    def test_a_dead_page_is_an_error(self) -> None:
        dead = "The useful information in u for user goal g as follows: \n\nEvidence in page: \nThe page could not be accessed."
        assert step("tool_errors", talk(visit("u"), seen(dead), answer()), most=0).reason is Reason.TOOL_ERRORS


class TestArtefacts:
    @pytest.mark.parametrize(
        "text",
        [
            "\ufffd",
            "\ud83d",
            "a\x00b",
            "caf\u00c3\u00a9",
            "it\u00e2\u20ac\u2122s",
            "\u00e2\u0080\u0099",
            "M\u00c3\u00bcnchen",
            "\u00e6\u00bd\u00ae",
            r"\u6f6e\u95f4",
        ],
    )
    def test_garbled_text_of_the_agent(self, text: str) -> None:
        found = talk(search("a", think=f"So {text} it is."), seen("x"), answer())
        assert step("artefacts", found).reason is Reason.ARTEFACTS

    @pytest.mark.parametrize(
        "text",
        ["Ça Û été, naïve façade", "潮间带", "Ärger — “quoted”…", "5 °C ± 2", "Â", "C:\\users\\u0041", "Ã la carte", "Pâté €5"],
    )
    def test_plain_text_of_any_language(self, text: str) -> None:
        assert step("artefacts", talk(search("a", think=f"So {text} it is."), seen("x"), answer())).reason is None

    @given(st.text(st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffd"), min_size=1))
    def test_what_was_misread_is_found(self, text: str) -> None:
        misread = text.encode("utf-8").decode("latin-1")
        found = step("artefacts", talk(search("a", think=misread), seen("x"), answer())).reason
        assert (found is None) == text.isascii()

    def test_pages_may_hold_anything(self) -> None:
        assert step("artefacts", talk(search("a"), seen("caf\u00c3\u00a9 \ufffd \\boxed{1}"), answer())).reason is None

    def test_escapes_within_a_call_are_json(self) -> None:
        assert step("artefacts", talk(search("潮间带"), seen("x"), answer())).reason is None

    def test_boxed_answers(self) -> None:
        found = talk(answer("\\boxed{Lisbon}"))
        assert step("artefacts", found).detail == "\\boxed"
        assert step("artefacts", found, boxed=True).reason is None

    def test_how_many_are_borne_is_a_setting(self) -> None:
        found = talk(search("a", think="\ufffd\ufffd"), seen("x"), answer())
        assert step("artefacts", found, most=2).reason is None
        assert step("artefacts", found, most=1).reason is Reason.ARTEFACTS


def test_reasoning_before_each_call() -> None:
    bare = '<tool_call>{"name": "search", "arguments": {"query": ["a"]}}</tool_call>'
    assert step("reasoning", talk(search("a"), seen("x"), bare, seen("x"), answer())).detail == "turn 2"
    assert step("reasoning", talk(search("a"), seen("x"), "<answer>Lisbon</answer>")).reason is None
    assert step("reasoning", calls(search("a", think="Hm.")), least_characters=4).reason is Reason.NO_REASONING


def judged(found: Trajectory, ruling: Ruling) -> Trajectory:
    return with_verdict(found, Verdict(ruling, None, "Compared."), "test")


class TestShortAnswer:
    def test_a_right_and_long_answer_becomes_the_reference(self) -> None:
        done = step("short_answer", talk(answer(LONG)))
        assert texts(done.trajectory) == [answer("Lisbon")]
        assert done.trajectory is not None and done.trajectory.answer == "Lisbon"

    @pytest.mark.parametrize(
        ("text", "accepted"),
        [
            (LONG[:100], ("Lisbon",)),
            (LONG, ()),
            (LONG, ("Porto",)),
            (LONG, ("isbon",)),
            (LONG.replace("Lisbon", "2012"), ("12",)),
            (LONG.replace("Lisbon", "-12"), ("12",)),
            (LONG.replace("Lisbon", "1.12"), ("12",)),
            (LONG.replace("Lisbon", "the one named Mc++"), ("Mc",)),
            (LONG, ("a",)),
            (LONG, ("Lisbon " * 40,)),
        ],
    )
    def test_otherwise_it_stays(self, text: str, accepted: tuple[str, ...]) -> None:
        found = talk(answer(text), accepted=accepted)
        assert step("short_answer", found).trajectory is found

    @pytest.mark.parametrize("accepted", ["LISBON", "lisbon,", "Lísbon", "capital of  Portugal"])
    def test_case_punctuation_and_accents_do_not_matter(self, accepted: str) -> None:
        done = step("short_answer", talk(answer(LONG), accepted=(accepted,)))
        assert done.trajectory is not None and done.trajectory.answer == accepted

    def test_a_verdict_outweighs_words(self) -> None:
        wrong = judged(talk(answer(LONG)), Ruling.INCORRECT)
        assert step("short_answer", wrong).trajectory is wrong
        right = judged(talk(answer(LONG), accepted=("Lisboa",)), Ruling.CORRECT)
        done = step("short_answer", right)
        assert done.trajectory is not None and done.trajectory.answer == "Lisboa"


class TestTruncate:
    def test_nothing_stays_after_the_answer(self) -> None:
        done = step("truncate", talk(answer() + " And so on. <answer>Porto</answer>"))
        assert texts(done.trajectory) == [answer()]

    def test_a_mention_in_the_reasoning_cuts_nothing(self) -> None:
        found = talk("<think>I write <answer>x</answer> at the end.</think>\n<answer>Lisbon</answer>")
        assert step("truncate", found).trajectory is found

    def test_only_the_last_turn_is_cut(self) -> None:
        early = answer() + " or not"
        assert texts(step("truncate", talk(early, seen("x"), early)).trajectory) == [early, seen("x"), answer()]


def test_forbidden_tools() -> None:
    used = calls(search("a"), call_text(("pythoninterpreter", {"code": "1"})))
    assert step("forbidden", used).detail == "pythoninterpreter"
    assert step("forbidden", used, tools=["shell"]).reason is None


def test_limits_of_length() -> None:
    found = calls(search("a"), search("b"))
    assert step("length", found).trajectory is found
    assert step("length", found, most_turns=2).detail == "3 turns"
    size = sum(len(node.text) for node in found.branch())
    assert step("length", found, most_characters=size).reason is None
    assert step("length", found, most_characters=size - 1).reason is Reason.TOO_LONG


def test_the_whole_recipe_on_a_good_one() -> None:
    found = talk(search("a"), seen(results("a")), visit("https://a.example/"), seen("page"), answer(LONG) + " Yes.")
    (kept,), _, _ = clean([found], get_recipe("literesearcher"))
    assert kept.answer == "Lisbon"
    assert kept.nodes[1].text == " Question: Which city?"
    assert "## Web Results" in kept.nodes[3].text
