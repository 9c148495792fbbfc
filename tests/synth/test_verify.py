"""Checks of questions: what each finds, what stays untold, and what a run keeps."""

import asyncio
from collections.abc import Mapping

import pytest
from askers import ScriptedAsker

from sanderling.core.asking import AskingOutageError, AskingRefusedError
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Ending
from sanderling.data.questions import read_questions
from sanderling.judge.rules import RuleJudge, exact_match
from sanderling.judge.verdict import Ruling, Verdict
from sanderling.synth.verify.closed_book import ClosedBook
from sanderling.synth.verify.contract import Check, Checker, Finding, Result
from sanderling.synth.verify.evidence import Evidence
from sanderling.synth.verify.giveaway import Giveaway
from sanderling.synth.verify.open_world import OpenWorld
from sanderling.synth.verify.run import META, verify
from sanderling.synth.verify.snippets import Snippets
from sanderling.world.contract import Page
from sanderling.world.filters import MaskedWorld
from sanderling.world.local import LocalWorld

EXACT = RuleJudge("exact", exact_match)
LONG = " ".join(f"On day {n} the council spoke of herring, nets and the price of salt." for n in range(40))
SOURCE = "https://w.example/orlo"
PAGES = [
    Page(url=SOURCE, title="Orlo", text=f"Its lighthouse in Orlo was built by Asta Brandt.\n\n{LONG}"),
    Page(url="https://w.example/copy", title="Orlo", text=f"Its lighthouse in Orlo was built by Asta Brandt.\n\n{LONG} End."),
    Page(url="https://w.example/brandt", title="A builder", text=f"{LONG}\n\nOrlo, 1412: the tower is Asta Brandt's work."),
    Page(url="https://w.example/venn", title="Venn", text="A plain without any tower."),
]


class Unsure:
    """A judge that cannot tell."""

    name = "unsure"

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        return Verdict(Ruling.UNSCORED, None, "the server is down")


def question(**changes: object) -> Question:
    asked = {
        "id": "q",
        "text": "Who built the lighthouse of Orlo?",
        "answers": ("Asta Brandt",),
        "meta": {"facts": [{"url": SOURCE, "quote": "Its lighthouse in Orlo was built by Asta Brandt."}]},
    }
    return Question.model_validate(asked | changes)


def world() -> LocalWorld:
    return LocalWorld.in_memory(PAGES, name="orlo")


def run(checker: Checker, asked: Question) -> Result:
    return asyncio.run(checker(asked))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "answers", "finding"),
    [
        ("Who built the lighthouse of Orlo?", ("Asta Brandt",), Finding.PASSED),
        ("What did asta brandt build in Orlo?", ("Asta Brandt",), Finding.FAILED),
        ("Was it Brandt, or another Asta, who built it?", ("Asta Brandt",), Finding.FAILED),
        ("Which Brandt built it?", ("Asta Brandt",), Finding.PASSED),
        ("When, 14120 or 1413, was it?", ("1412",), Finding.PASSED),
        ("京都タワーはいつ完成しましたか", ("京都",), Finding.FAILED),
        ("Who?", (), Finding.UNSCORED),
    ],
)
def test_giveaways(text, answers, finding):
    assert run(Giveaway(), question(text=text, answers=answers)).finding is finding


def test_evidence_is_the_page_it_came_from_where_that_is_visible():
    here = world()
    found = run(Evidence(here, here.page), question())
    assert found.finding is Finding.PASSED and found.meta["way"] == "facts"
    gone = question(meta={"facts": [{"url": SOURCE, "quote": "Words that stand nowhere at all."}]}, answers=("Nobody Else",))
    assert run(Evidence(here, here.page), gone).finding is Finding.FAILED


def test_evidence_of_a_masked_source_is_another_page_and_never_its_copy():
    plain = world()
    masked = MaskedWorld(plain, [[SOURCE, "https://w.example/copy"]])
    found = run(Evidence(masked, plain.page), question(masked_urls=(SOURCE,)))
    assert found.finding is Finding.PASSED and found.meta == {"way": "search", "urls": ["https://w.example/brandt"]}
    nothing = question(masked_urls=(SOURCE, "https://w.example/brandt"))
    assert run(Evidence(masked, plain.page), nothing).finding is Finding.FAILED


def test_snippets_by_rule():
    found = run(Snippets(world()), question())
    assert found.finding is Finding.FAILED and found.meta["rank"] == 1
    assert run(Snippets(world()), question(answers=("Salt Council",))).finding is Finding.PASSED
    hidden = question(masked_urls=tuple(page.url for page in PAGES[:3]))
    assert run(Snippets(world()), hidden).finding is Finding.PASSED


@pytest.mark.parametrize(
    ("says", "finding"), [("Asta Brandt", Finding.FAILED), ("Unknown.", Finding.PASSED), ("Arno", Finding.PASSED)]
)
def test_snippets_with_a_model_fail_only_where_it_sees_the_answer(says, finding):
    asker = ScriptedAsker(lambda *_: says)
    assert run(Snippets(world(), [asker], EXACT), question()).finding is finding
    assert "Brandt" in asker.asked[0][1] and len(asker.asked) == 1


def test_a_judge_that_cannot_tell_leaves_it_open():
    asker = ScriptedAsker(lambda *_: "Asta Brandt")
    assert run(Snippets(world(), [asker], Unsure()), question()).finding is Finding.UNSCORED
    assert run(ClosedBook([asker], Unsure()), question()).finding is Finding.UNSCORED


def test_closed_book_asks_several_times_and_one_right_answer_is_enough():
    lucky = ScriptedAsker(lambda _, __, sample: "Asta Brandt" if sample == 2 else "unknown")
    found = run(ClosedBook([lucky], EXACT, samples=3), question())
    assert found.finding is Finding.FAILED and found.meta["answers"] == ["", "", "Asta Brandt"]
    assert run(ClosedBook([lucky], EXACT, samples=2), question()).finding is Finding.PASSED
    assert len(run(ClosedBook([lucky], EXACT, samples=2), question()).meta["provenance"]) == 2


@pytest.mark.parametrize("says", ["", "<think>I wonder</think>", " \n"])
def test_a_model_that_says_nothing_is_not_one_that_does_not_know(says):
    asker = ScriptedAsker(lambda *_: says)
    assert asyncio.run(ClosedBook([asker], EXACT)(question())).finding is Finding.UNSCORED
    found = asyncio.run(Snippets(world(), [asker], EXACT, snippet_words=60)(question()))
    assert found.finding is Finding.UNSCORED


def test_an_unreachable_model_says_nothing():
    with pytest.raises(AskingOutageError):
        run(ClosedBook([ScriptedAsker(lambda *_: None)], EXACT), question())


def attempts(answers: Mapping[int, str | None]):
    async def attempt(asked: Question, number: int) -> Trajectory:
        answer = answers[number]
        ending = Ending.POLICY_OUTAGE if answer is None else Ending.ANSWERED
        seeds = Seeds(attempt=number)
        return Trajectory(id="t", question=asked, nodes=(), leaf=None, ending=ending, answer=answer, seeds=seeds)

    return attempt


@pytest.mark.parametrize(
    ("answers", "finding"),
    [
        ({0: "Asta Brandt"}, Finding.PASSED),
        ({0: "no", 1: "no", 2: "Asta Brandt"}, Finding.PASSED),
        ({0: "no", 1: "no", 2: "no"}, Finding.FAILED),
        ({0: "no", 1: None, 2: "no"}, Finding.UNSCORED),
        ({0: None, 1: None, 2: "Asta Brandt"}, Finding.PASSED),
    ],
)
def test_open_world(answers, finding):
    assert run(OpenWorld(attempts(answers), EXACT, {"model": "m"}), question()).finding is finding


def many() -> list[Question]:
    return [
        question(id="good", answers=("Salt Council",)),
        question(id="told", text="What did Asta Brandt build in Orlo?"),
        question(id="shown"),
    ]


def checked(out, asker: ScriptedAsker | None = None, questions: list[Question] | None = None):
    closed = [] if asker is None else [ClosedBook([asker], EXACT, samples=1)]
    checkers = [Giveaway(), Snippets(world()), *closed]
    return asyncio.run(verify(questions or many(), checkers, out))  # type: ignore[arg-type]


def test_a_run_keeps_what_passed_all_and_counts_the_rest(tmp_path):
    out = tmp_path / "q.jsonl"
    report = checked(out)
    assert report.kept == 1 and report.failed == {Check.GIVEAWAY: 1, Check.SNIPPETS: 1}
    (kept,) = read_questions(out)
    assert kept.id == "good" and [one["finding"] for one in kept.meta[META]] == ["passed", "passed"]
    assert "Asta Brandt" in report.examples[Check.GIVEAWAY]


def test_an_outage_is_taken_up_again_and_the_rest_is_not_asked_twice(tmp_path):
    out = tmp_path / "q.jsonl"
    down = checked(out, ScriptedAsker(lambda *_: None))
    assert (down.outages, down.kept, sum(down.failed.values())) == (1, 0, 2) and read_questions(out) == []
    asker = ScriptedAsker(lambda *_: "unknown")
    assert checked(out, asker).kept == 1 and len(asker.asked) == 1
    asker.asked.clear()
    assert checked(out, asker).kept == 1 and asker.asked == []


def test_what_could_not_be_told_is_written_apart_and_checked_anew(tmp_path):
    out = tmp_path / "q.jsonl"
    nothing = question(answers=())
    report = checked(out, questions=[nothing])
    assert report.unscored == {Check.GIVEAWAY: 1} and report.kept == 0
    assert [one.id for one in read_questions(tmp_path / "q.unscored.jsonl")] == ["q"]
    assert checked(out, questions=[question(answers=("Salt Council",))]).kept == 1


def test_without_an_accepted_answer_nothing_can_be_told(tmp_path):
    """Nor does it stop the others."""
    questions = [question(id="a", answers=()), question(id="b", answers=("Salt Council",), meta={})]
    report = asyncio.run(verify(questions, [Snippets(world())], tmp_path / "out.jsonl"))
    assert (report.kept, report.unscored[Check.SNIPPETS]) == (1, 1)
    assert [q.id for q in read_questions(tmp_path / "out.unscored.jsonl")] == ["a"]


def test_a_question_that_every_model_refuses_is_unscored_and_not_waited_for(tmp_path):
    def refuse(*_: object) -> str:
        raise AskingRefusedError("too long")

    checker = ClosedBook([ScriptedAsker(refuse)], EXACT)
    report = asyncio.run(verify([question()], [checker], tmp_path / "out.jsonl"))
    assert (report.outages, report.unscored[Check.CLOSED_BOOK]) == (0, 1)


def test_bad_input_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="2 questions have the id"):
        checked(tmp_path / "q.jsonl", questions=[question(), question()])
    with pytest.raises(UserError, match="no check"):
        asyncio.run(verify(many(), [], tmp_path / "q.jsonl"))
    checked(tmp_path / "q.jsonl")
    with pytest.raises(UserError, match="other settings"):
        asyncio.run(verify(many(), [Giveaway()], tmp_path / "q.jsonl"))
