"""Checks of questions: what each finds, what stays untold, and what a run keeps."""

import asyncio
import json

import pytest
from scripted_clients import ScriptedClient

from sanderling.core.asking import AskingOutageError, AskingRefusedError
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.data.questions import read_questions
from sanderling.judge.rules import RuleJudge, exact_match
from sanderling.judge.verdict import Judge, Ruling, Verdict
from sanderling.synth.graph.graph import Uniqueness
from sanderling.synth.verify import CHECKS, META, Check, Context, Finding, Result, VerifySettings, verify
from sanderling.world.contract import Page, World
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
    places = ()

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


def means(
    *clients: ScriptedClient, judge: Judge = EXACT, world: World | None = None, pages: list[Page] = PAGES, **settings: object
) -> Context:
    here = LocalWorld.in_memory(pages, name="orlo")
    return Context(world or here, here.page, clients, judge, VerifySettings.model_validate(settings))


def run(check: Check, asked: Question, with_: Context | None = None) -> Result:
    return asyncio.run(CHECKS[check](asked, with_ or means()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "answers", "finding"),
    [
        ("Who built the lighthouse of Orlo?", ("Asta Brandt",), Finding.PASSED),
        ("What did asta brandt build in Orlo?", ("Asta Brandt",), Finding.FAILED),
        ("Was it Brandt, or another Asta, who built it?", ("Asta Brandt",), Finding.FAILED),
        ("Which Brandt built it?", ("Asta Brandt",), Finding.PASSED),
        ("When, 14120 or 1413, was it?", ("1412",), Finding.PASSED),
        ("京都タワーはいつ完成しましたか", ("京都",), Finding.FAILED),
    ],
)
def test_giveaways(text, answers, finding):
    assert run(Check.GIVEAWAY, question(text=text, answers=answers)).finding is finding


def test_evidence_is_the_page_it_came_from_where_that_is_visible():
    found = run(Check.EVIDENCE, question())
    assert found.finding is Finding.PASSED and found.meta["way"] == "facts"
    gone = question(meta={"facts": [{"url": SOURCE, "quote": "Words that stand nowhere at all."}]}, answers=("Nobody Else",))
    assert run(Check.EVIDENCE, gone).finding is Finding.FAILED
    assert run(Check.EVIDENCE, question(meta={"facts": [{"url": "https://w.example/none"}]})).meta["way"] == "search"


def test_evidence_of_a_masked_source_is_another_page_and_never_its_copy():
    masked = MaskedWorld(LocalWorld.in_memory(PAGES, name="orlo"), [[SOURCE, "https://w.example/copy"]])
    found = run(Check.EVIDENCE, question(masked_urls=(SOURCE,)), means(world=masked))
    assert found.finding is Finding.PASSED and found.meta == {"way": "search", "urls": ["https://w.example/brandt"]}
    nothing = question(masked_urls=(SOURCE, "https://w.example/brandt"))
    assert run(Check.EVIDENCE, nothing, means(world=masked)).finding is Finding.FAILED


def test_snippets_by_rule():
    found = run(Check.SNIPPETS, question())
    assert found.finding is Finding.FAILED and found.meta["rank"] == 1
    assert run(Check.SNIPPETS, question(answers=("Salt Council",))).finding is Finding.PASSED
    hidden = question(masked_urls=tuple(page.url for page in PAGES[:3]))
    assert run(Check.SNIPPETS, hidden).finding is Finding.PASSED


@pytest.mark.parametrize(
    ("says", "finding"),
    [
        ("Asta Brandt", Finding.FAILED),
        ("Unknown.", Finding.PASSED),
        ("Arno", Finding.PASSED),
        ("", Finding.UNSCORED),
        ("<think>I wonder</think>", Finding.UNSCORED),
    ],
)
def test_snippets_with_a_model_fail_only_where_it_sees_the_answer(says, finding):
    """And one that says nothing is not one that does not know."""
    client = ScriptedClient(lambda *_: says)
    assert run(Check.SNIPPETS, question(), means(client)).finding is finding
    assert "Brandt" in client.asked[0][1] and len(client.asked) == 1
    if finding is Finding.UNSCORED:
        assert run(Check.CLOSED_BOOK, question(), means(client)).finding is finding


def test_a_judge_that_cannot_tell_leaves_it_open():
    unsure = means(ScriptedClient(lambda *_: "Asta Brandt"), judge=Unsure())
    assert run(Check.SNIPPETS, question(), unsure).finding is Finding.UNSCORED
    assert run(Check.CLOSED_BOOK, question(), unsure).finding is Finding.UNSCORED


def test_closed_book_asks_several_times_and_one_right_answer_is_enough():
    lucky = ScriptedClient(lambda _, __, sample: "Asta Brandt" if sample == 2 else "unknown")
    found = run(Check.CLOSED_BOOK, question(), means(lucky, samples=3))
    assert found.finding is Finding.FAILED and found.meta["answers"] == ["", "", "Asta Brandt"]
    found = run(Check.CLOSED_BOOK, question(), means(lucky, samples=2))
    assert found.finding is Finding.PASSED and len(found.meta["provenance"]) == 2


def test_an_unreachable_model_says_nothing():
    with pytest.raises(AskingOutageError):
        run(Check.CLOSED_BOOK, question(), means(ScriptedClient(lambda *_: None)))


FILLER = "The council met on Monday to speak of nets, salt and the weather. " * 6
MASONS = [
    Page(url=f"https://w.example/{name.lower()}", title=name, text=f"# {name}\n\n{name} was born in {home}.\n\n{FILLER}")
    for name, home in (("Brandt", "Kello"), ("Lund", "Tarn"), ("Ohm", "Kello"))
]
BORN = question(
    text="Which mason was born in Kello?",
    answers=("Brandt",),
    meta={"facts": [{"url": MASONS[0].url, "quote": "Brandt was born in Kello."}]},
)


def rivals(say, asked: Question = BORN) -> tuple[Result, ScriptedClient]:
    client = ScriptedClient(lambda _, material, __: say(material))
    return run(Check.UNIQUE, asked, means(client, pages=MASONS)), client


def test_a_second_answer_with_its_words_is_a_rival():
    def honest(material: str) -> str:
        found = "Ohm was born in Kello." in material
        return json.dumps({"other": "Ohm" if found else None, "quote": "Ohm was born in Kello." if found else ""})

    found, client = rivals(honest)
    assert found.finding is Finding.FAILED and found.meta["other"] == "Ohm" and found.meta["url"] == MASONS[2].url
    assert not any("Brandt was born in Kello." in material for _, material in client.asked)


@pytest.mark.parametrize(
    "said",
    [
        {"other": None},
        {"other": "", "quote": ""},
        {"other": "the Brandt", "quote": "Ohm was born in Kello."},
        {"other": "Falk", "quote": "Falk was born in Kello."},
    ],
)
def test_none_the_same_or_invented_words_are_no_rival(said):
    found, _ = rivals(lambda _: json.dumps(said))
    assert found.finding is Finding.PASSED and found.meta["uniqueness"] == Uniqueness.SUPPORTED


def test_what_cannot_be_read_leaves_it_open_and_a_proof_needs_nobody():
    found, client = rivals(lambda _: "Perhaps.")
    assert found.finding is Finding.UNSCORED and len(client.asked) % 2 == 0
    found, client = rivals(lambda _: "Perhaps.", BORN.model_copy(update={"meta": {"uniqueness": "proven"}}))
    assert found.finding is Finding.PASSED and client.asked == []


def test_where_nothing_else_is_found_nothing_is_supported():
    alone = BORN.model_copy(update={"masked_urls": tuple(page.url for page in MASONS)})
    found, client = rivals(lambda _: "Perhaps.", alone)
    assert found.finding is Finding.PASSED and found.meta["uniqueness"] == Uniqueness.UNCHECKED and client.asked == []


def many() -> list[Question]:
    return [
        question(id="good", answers=("Salt Council",)),
        question(id="told", text="What did Asta Brandt build in Orlo?"),
        question(id="shown"),
    ]


def checked(out, *clients: ScriptedClient, questions: list[Question] | None = None):
    checks = [Check.SNIPPETS, Check.GIVEAWAY, *([Check.CLOSED_BOOK] if clients else [])]
    return asyncio.run(verify(questions or many(), checks, means(*clients, samples=1), out))


def test_a_run_keeps_what_passed_all_and_counts_the_rest(tmp_path):
    out = tmp_path / "q.jsonl"
    report = checked(out)
    assert report.kept == 1 and report.failed == {Check.GIVEAWAY: 1, Check.SNIPPETS: 1}
    (kept,) = read_questions(out)
    assert kept.id == "good" and [one["finding"] for one in kept.meta[META]] == ["passed", "passed"]
    assert [one["check"] for one in kept.meta[META]] == ["giveaway", "snippets"]
    assert "Asta Brandt" in report.examples[Check.GIVEAWAY]


def test_an_outage_is_taken_up_again_and_the_rest_is_not_asked_twice(tmp_path):
    def say(answer: str | None) -> ScriptedClient:
        return ScriptedClient(lambda system, *_: answer if "from what you know" in system else "unknown")

    out = tmp_path / "q.jsonl"
    down = checked(out, say(None))
    assert (down.outages, down.kept, sum(down.failed.values())) == (2, 0, 1) and read_questions(out) == []
    client = say("unknown")
    assert checked(out, client).kept == 2
    assert sum("from what you know" in system for system, _ in client.asked) == 2
    client.asked.clear()
    assert checked(out, client).kept == 2 and client.asked == []


def test_without_an_accepted_answer_nothing_can_be_told_and_that_is_written_apart_and_checked_anew(tmp_path):
    out = tmp_path / "q.jsonl"
    report = checked(out, questions=[question(id="a", answers=()), question(id="b", answers=("Salt Council",), meta={})])
    assert report.unscored == {Check.GIVEAWAY: 1} and report.kept == 1
    assert [one.id for one in read_questions(tmp_path / "q.unscored.jsonl")] == ["a"]
    assert checked(out, questions=[question(id="a", answers=("Salt Council",))]).kept == 1


def test_a_question_that_every_model_refuses_is_unscored_and_not_waited_for(tmp_path):
    def refuse(*_: object) -> str:
        raise AskingRefusedError("too long")

    report = asyncio.run(verify([question()], [Check.CLOSED_BOOK], means(ScriptedClient(refuse)), tmp_path / "out.jsonl"))
    assert (report.outages, report.unscored[Check.CLOSED_BOOK]) == (0, 1)


def test_bad_input_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="2 questions have the id"):
        checked(tmp_path / "q.jsonl", questions=[question(), question()])
    with pytest.raises(UserError, match="no check"):
        asyncio.run(verify(many(), [], means(), tmp_path / "q.jsonl"))
    checked(tmp_path / "q.jsonl")
    with pytest.raises(UserError, match="other settings"):
        asyncio.run(verify(many(), [Check.GIVEAWAY], means(), tmp_path / "q.jsonl"))
