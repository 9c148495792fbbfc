"""Reports of runs: pairs by question, what a reader has to know, links that lead somewhere, texts that stay private."""

import asyncio
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from measured_runs import go
from test_evaluate_result import INFO, grid
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.evaluate.figures import summarise
from sanderling.evaluate.log import About
from sanderling.evaluate.reports.compare import Attempted, Run, compared, open_runs
from sanderling.evaluate.reports.page import html
from sanderling.evaluate.reports.reading import Outcome


def made(
    name: str, verdicts: dict[str, list[bool | None]], about: About | None = None, attempts: int = 2, asks: str = "What is"
) -> Run:
    questions = [Question(id=id, text=f"{asks} {id}?", answers=("x",)) for id in verdicts]
    outcomes = {True: Outcome.CORRECT, False: Outcome.WRONG, None: Outcome.UNSCORED}
    listed = [Attempted(f"{q}-{a}", q, a, outcomes[v]) for q, row in verdicts.items() for a, v in enumerate(row)]
    return Run(name, f"{name}/attempts.jsonl", summarise(grid(verdicts), questions, attempts, INFO), tuple(listed), about)


class Page(HTMLParser):
    """Which ids there are, where links lead, and what is loaded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self._note(dict(attributes))
        self.open.append(name)

    def handle_startendtag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self._note(dict(attributes))

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def _note(self, found: dict[str, str | None]) -> None:
        self.ids += [found["id"] or ""] if "id" in found else []
        self.links += [found["href"] or ""] if "href" in found else []
        assert "src" not in found


def test_runs_are_paired_by_question_and_the_p_values_adjusted() -> None:
    base = made("base", {"a": [False, False], "b": [False, True], "c": [True, True]})
    better = made("better", {"a": [True, True], "b": [True, True], "d": [True, True]})
    same = made("same", {"a": [False, False], "b": [True, False], "c": [True, True]})
    apart = made("apart", {"z": [True, True]})
    found = compared([base, better, same, apart])
    assert [(pair.name, pair.found.questions, pair.left_out) for pair in found.pairs] == [("better", 2, 2), ("same", 3, 0)]
    assert [pair.found.difference for pair in found.pairs] == [0.75, 0.0]
    assert all(pair.p_adjusted >= pair.found.p_value for pair in found.pairs)
    assert found.notes == (
        "better and base are compared on 2 questions; 2 are not in both with a scored attempt.",
        "apart has no question in common with base.",
    )
    (turned,) = compared([base, better], "better").pairs
    assert turned.found.difference == -0.75
    with pytest.raises(ValueError, match="none of the runs"):
        compared([base], "who")


def test_questions_of_one_id_and_another_text_are_not_compared() -> None:
    right: list[bool | None] = [True, True]
    wrong: list[bool | None] = [False, False]
    base = made("base", {"1": wrong, "2": wrong, "3": wrong})
    other = made("other", {"1": right, "2": right, "3": right}, asks="Who saw")
    found = compared([base, other])
    assert not found.pairs
    assert found.notes == ("other has no question in common with base.",)
    mixed = replace(other, result=other.result.model_copy(update={
        "questions": (*other.result.questions[:2], made("same", {"3": right}).result.questions[0])
    }))  # fmt: skip
    (pair,) = compared([base, mixed]).pairs
    assert (pair.found.questions, pair.left_out, pair.better, pair.worse) == (1, 4, ("3",), ()), "two ids are four questions"


def test_private_texts_are_left_out_unless_they_are_asked_for(tmp_path: Path) -> None:
    asyncio.run(go(tmp_path / "run", 6, 1))
    (run,) = open_runs([tmp_path / "run"])
    assert run.about is not None
    secret = Run(**{**vars(run), "about": run.about.model_copy(update={"private": True, "canaries": ("canary 1-2-3",)})})
    hidden, shown = (html(compared([secret]), texts=texts) for texts in (False, True))
    assert "What is number" not in hidden and "What is number" in shown
    assert "not to be published" in hidden and "canary 1-2-3" in hidden and "canary 1-2-3" in shown


def test_the_command(tmp_path: Path) -> None:
    for name in ("one", "two"):
        asyncio.run(go(tmp_path / name, 5, 2))
    places, out = [str(tmp_path / "one"), str(tmp_path / "two")], tmp_path / "report"
    done = CliRunner().invoke(app, ["report", *places, "--out", str(out)])
    assert done.exit_code == 0 and "avg@k" in done.output and "two over one" in done.output
    assert (out / "report.html").is_file()
    unknown = CliRunner().invoke(app, ["report", *places, "--baseline", "who"])
    assert isinstance(unknown.exception, UserError) and "None of the runs is called 'who'" in str(unknown.exception)
    (tmp_path / "empty").mkdir()
    empty = CliRunner().invoke(app, ["report", str(tmp_path / "empty")])
    assert isinstance(empty.exception, UserError) and "is no run of an evaluation" in str(empty.exception)


def test_two_runs_of_one_name_are_told_apart_by_the_person(tmp_path: Path) -> None:
    for place in (tmp_path / "a" / "run", tmp_path / "b" / "run"):
        asyncio.run(go(place, 3, 1))
    with pytest.raises(UserError, match=r"Two runs are called 'run': rename"):
        open_runs([tmp_path / "a" / "run", tmp_path / "b" / "run"])
