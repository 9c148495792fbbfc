"""Checks of questions: what each finds, and what of a file is kept."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from typer.testing import CliRunner

from sanderling.cli.synth import app
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.data.questions import read_questions, write_questions
from sanderling.synth.generate import Band, BandSettings, Try, difficulty
from sanderling.synth.verify import CHECKS, META, Check, Result
from sanderling.world.contract import Page, World
from sanderling.world.disk.building import build_world
from sanderling.world.filters import MaskedWorld
from sanderling.world.local import LocalWorld

LONG = " ".join(f"On day {n} the council spoke of herring, nets and the price of salt." for n in range(40))
SOURCE = "https://w.example/orlo"
PAGES = [
    Page(url=SOURCE, title="Orlo", text=f"Its lighthouse in Orlo was built by Asta Brandt.\n\n{LONG}"),
    Page(url="https://w.example/copy", title="Orlo", text=f"Its lighthouse in Orlo was built by Asta Brandt.\n\n{LONG} End."),
    Page(url="https://w.example/brandt", title="A builder", text=f"{LONG}\n\nOrlo, 1412: the tower is Asta Brandt's work."),
    Page(url="https://w.example/venn", title="Venn", text="A plain without any tower."),
]


def question(**changes: object) -> Question:
    asked = {
        "id": "q",
        "text": "Who built the lighthouse of Orlo?",
        "answers": ("Asta Brandt",),
        "meta": {"facts": [{"url": SOURCE, "quote": "Its lighthouse in Orlo was built by Asta Brandt."}]},
    }
    return Question.model_validate(asked | changes)


def run(check: Check, asked: Question, world: World | None = None) -> Result:
    here = LocalWorld.in_memory(PAGES, name="orlo")
    return asyncio.run(CHECKS[check](asked, world or here, here.page))  # type: ignore[arg-type]


def test_evidence_is_the_page_it_came_from_where_that_is_visible():
    found = run(Check.EVIDENCE, question())
    assert found.passed and found.meta["way"] == "facts"
    gone = question(meta={"facts": [{"url": SOURCE, "quote": "Words that stand nowhere at all."}]}, answers=("Nobody Else",))
    assert not run(Check.EVIDENCE, gone).passed
    assert run(Check.EVIDENCE, question(meta={"facts": [{"url": "https://w.example/none"}]})).meta["way"] == "search"


def test_evidence_of_a_masked_source_is_another_page_and_never_its_copy():
    masked = MaskedWorld(LocalWorld.in_memory(PAGES, name="orlo"), [[SOURCE, "https://w.example/copy"]])
    found = run(Check.EVIDENCE, question(masked_urls=(SOURCE,)), masked)
    assert found.passed and found.meta == {"way": "search", "urls": ["https://w.example/brandt"]}
    assert not run(Check.EVIDENCE, question(masked_urls=(SOURCE, "https://w.example/brandt")), masked).passed


def test_snippets():
    found = run(Check.SNIPPETS, question())
    assert not found.passed and found.meta["rank"] == 1
    assert run(Check.SNIPPETS, question(answers=("Salt Council",))).passed
    assert run(Check.SNIPPETS, question(masked_urls=tuple(page.url for page in PAGES[:3]))).passed


def test_a_file_keeps_what_passed_all_and_counts_the_rest(tmp_path: Path):
    build_world(tmp_path / "w", PAGES, name="orlo", source="test")
    asked, out = tmp_path / "asked.jsonl", tmp_path / "q.jsonl"
    told = question(id="told", text="What did Asta Brandt build?")
    write_questions(asked, [question(id="good", answers=("Salt Council",)), told, question(id="shown")])

    def verify(*options: object) -> str:
        words = ["verify", asked, "--world", tmp_path / "w", "--check", "snippets", "--check", "giveaway", *options]
        return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False, env={"COLUMNS": "200"}).output

    told = verify("--out", out)
    assert "1 questions passed" in told and "The question holds the answer 'Asta Brandt'" in told and "snippets" in told
    (kept,) = read_questions(out)
    assert kept.id == "good" and [(one["check"], one["passed"]) for one in kept.meta[META]] == [
        ("giveaway", True), ("snippets", True),
    ]  # fmt: skip
    with pytest.raises(UserError, match="is read and would be written"):
        verify("--out", asked)


# -- Bands of difficulty: arithmetic, order, and what is known too early or too late ---------------------------------------

EIGHT = BandSettings()


def tries(right: int, wrong: int, unscored: int = 0, length: int = 20_000) -> list[Try]:
    results = [True] * right + [False] * wrong + [None] * unscored
    return [Try("q", correct, length, turns=4) for correct in results]


@given(st.integers(0, 8), st.integers(0, 8), st.lists(st.booleans(), max_size=8))
def test_what_is_told_early_stays_so(right, wrong, later):
    if right + wrong + len(later) > 8:
        return
    early = difficulty(tries(right, wrong), EIGHT)["band"]
    late = difficulty(tries(right + sum(later), wrong + len(later) - sum(later)), EIGHT)["band"]
    assert early == Band.UNTOLD or early == late


@pytest.mark.parametrize(
    ("length", "name"), [(0, "lt16k"), (15_999, "lt16k"), (16_000, "16k-32k"), (63_999, "48k-64k"), (64_000, "ge64k")]
)
def test_length_bands(length, name):
    assert EIGHT.length_band(length) == name


@pytest.mark.parametrize("wrong", [{"least_right": 5, "most_right": 3}, {"most_right": 9}, {"lengths": (3, 2)}, {"tries": 1}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValidationError):
        BandSettings(**wrong)
