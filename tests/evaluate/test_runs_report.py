"""Reports of runs: pairs by question, what a reader has to know, links that lead somewhere, texts that stay private."""

import asyncio
from pathlib import Path

import pytest
from inspect_runs import plain
from measured_runs import go
from parsed_page import Page
from test_evaluate_result import INFO, episode, grid
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import Ending
from sanderling.evaluate.figures import summarise
from sanderling.evaluate.log import About, GuardFacts
from sanderling.evaluate.reports.compare import Run, compared, open_runs
from sanderling.evaluate.reports.pages import html
from sanderling.evaluate.result import GuardFigures, JudgedAttempt
from sanderling.policy.budget import Prices
from sanderling.world.guard import GuardKind


def made(
    name: str, verdicts: dict[str, list[bool | None]], about: About | None = None, attempts: int = 2, asks: str = "What is"
) -> Run:
    questions = [Question(id=id, text=f"{asks} {id}?", answers=("x",)) for id in verdicts]
    listed = {(q, a): v for q, row in verdicts.items() for a, v in enumerate(row)}
    return Run(name, f"{name}/attempts.jsonl", summarise(grid(verdicts), questions, attempts, **INFO), listed, about)


def rich(name: str, shift: int) -> Run:
    """A run that has everything there is to report: groups, endings, two judges, prices, what the guard hid."""
    asked = [
        Question(id=f"q{i}", text=f"Text {i}", answers=("x",), meta={"level": str(i % 2), "topics": ["a|b", f"<t{i % 3}>"]})
        for i in range(6)
    ]
    rows, judged, verdicts = [], [], {}
    for number, (one, attempt) in enumerate((one, attempt) for one in asked for attempt in range(4)):
        right = verdicts[one.id, attempt] = None if number == 5 else (number + shift) % 3 > 0
        ending = Ending.POLICY_OUTAGE if right is None else Ending.ANSWERED if number % 4 else Ending.TURN_LIMIT
        second = None if right is None else number % 5 > 0
        rows.append(episode(one.id, attempt, right, ending if number % 7 else None, prompt_tokens=100))
        about = {"question": one.id, "attempt": attempt, "id": f"{one.id}-{attempt}", "ending": ending}
        judged.append(JudgedAttempt.model_validate(about | {"correct": right, "judge": "j", "second": second}))
    guard = GuardFigures(kinds={GuardKind.ADDRESS: 2}, attempts=1)
    more = {"judge": "j", "second_judge": "two", "prices": Prices(1.0, 2.0), "guard": guard, "judged": judged}
    result = summarise(rows, asked, 4, **INFO | more)
    about_run = About(benchmark="jsonl", questions=6, questions_sha256=name, seed=0, guard=GuardFacts(on=True))
    records = {("q0", 0): plain()}
    return Run(name, "a.jsonl", result, verdicts, about_run, records, profile="tiny", texts={"q1": "Text " * 99})


def test_every_link_of_a_rich_page_leads_somewhere() -> None:
    text = html(compared([rich("a|b</script>", 0), rich("two", 1), rich("three", 2)]))
    page = Page(text)
    ids = page.all("id")
    assert len(set(ids)) == len(ids) and not page.open and not page.all("src")
    assert all(link.startswith("#") and link[1:] in ids for link in page.all("href"))
    assert text.count('data-name="pass') == 3 * 2, "pass@k and pass^k"
    assert "<t1>" not in text and "</script><" not in text.replace("</script></body>", "")
    for shown in ("Two judges", "not known", "Text Text", "…", "How attempts ended", "Vumhum"):
        assert shown in page.text


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


def test_an_unknown_baseline_is_named(tmp_path: Path) -> None:
    asyncio.run(go(tmp_path / "one", 3, 1))
    unknown = CliRunner().invoke(app, ["report", str(tmp_path / "one"), "--baseline", "who"])
    assert isinstance(unknown.exception, UserError) and "None of the runs is called 'who'" in str(unknown.exception)


def test_two_runs_of_one_name_are_told_apart_by_the_person(tmp_path: Path) -> None:
    for place in (tmp_path / "a" / "run", tmp_path / "b" / "run"):
        asyncio.run(go(place, 3, 1))
    with pytest.raises(UserError, match=r"Two runs are called 'run': rename"):
        open_runs([tmp_path / "a" / "run", tmp_path / "b" / "run"])
