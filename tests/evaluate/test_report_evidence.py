"""What stands behind a report's figures: lists that count what the figures count, plots that lead to them."""

import re
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from test_evaluate_result import INFO, episode
from test_runs_report import Page

from sanderling.core.record import Question
from sanderling.core.types import Ending
from sanderling.evaluate.episodes import JudgedAttempt
from sanderling.evaluate.figures import summarise
from sanderling.evaluate.guarding import GuardFacts
from sanderling.evaluate.log import About
from sanderling.evaluate.reports.compare import Attempted, Run, compared, evidence, evidence_id
from sanderling.evaluate.reports.page import html, ranges
from sanderling.evaluate.reports.reading import Outcome
from sanderling.evaluate.reports.tables import Rows, tables
from sanderling.evaluate.result import GuardFigures
from sanderling.policy.budget import Prices
from sanderling.world.guard import GuardKind

OUTCOMES = {True: Outcome.CORRECT, False: Outcome.WRONG, None: Outcome.UNSCORED}


def rich(name: str, questions: int = 6, attempts: int = 4, shift: int = 0) -> Run:
    """A run that has everything there is to report."""
    asked = [
        Question(id=f"q{i}", text=f"Text {i}", answers=("x",), meta={"level": str(i % 2), "topics": ["a|b", f"<t{i % 3}>"]})
        for i in range(questions)
    ]
    rows, said, listed = [], [], []
    for place, one in enumerate(asked):
        for attempt in range(attempts):
            number = place * attempts + attempt
            right: bool | None = None if number == 5 else (number + shift) % 3 > 0
            ending = Ending.POLICY_OUTAGE if right is None else Ending.ANSWERED if number % 4 else Ending.TURN_LIMIT
            read, second = number % 7 == 0, None if right is None else number % 5 > 0
            rows.append(
                episode(
                    one.id,
                    attempt,
                    right,
                    ending,
                    prompt_tokens=100,
                    vote="x" if right else "y",
                    contaminated=read,
                    turns=1 + number,
                )
            )
            about: dict[str, Any] = {"question": one.id, "attempt": attempt, "id": f"{one.id}-{attempt}", "ending": ending}
            said.append(JudgedAttempt.model_validate(about | {"correct": right, "judge": "j", "second": second}))
            listed.append(
                Attempted(
                    f"{one.id}-{attempt}",
                    one.id,
                    attempt,
                    OUTCOMES[right],
                    ending,
                    read,
                    number == 3,
                    second is not None and second is not right,
                )
            )
    info = type(INFO)(**{**vars(INFO), "judge": "j", "second_judge": "two"})
    guard = GuardFigures(kinds={GuardKind.ADDRESS: 2, GuardKind.REPORTED: 1}, attempts=1)
    info = replace(info, prices=Prices(1.0, 2.0), guard=guard, judged=said)
    result = summarise(rows, asked, attempts, info)
    facts = GuardFacts(on=True, verbatim=True, fingerprint="f" * 12)
    about_run = About(benchmark="jsonl", questions=questions, questions_sha256=name, seed=0, guard=facts)
    return Run(
        name, "a.jsonl", result, tuple(listed), about_run, (), "tiny", {"max_turns": 9}, {one.id: one.text for one in asked}
    )


def named(runs: list[Run], name: str) -> Rows:
    return next(table for table in tables(compared(runs)) if table.name == name)


def test_lists_hold_as_many_attempts_as_the_figures_say() -> None:
    run = rich("one")
    lists = {one.id: sum(map(len, one.attempts.values())) for one in evidence(compared([run]))}
    result = run.result
    for ending, count in result.endings.items():
        assert lists[evidence_id(0, "ending", ending)] == count
    assert lists["e0-unscored"] == result.unscored == 1
    assert result.contamination is not None and result.guard is not None
    assert (lists["e0-contaminated"], lists["e0-hidden"]) == (result.contamination.contaminated, result.guard.attempts)
    (agreed,) = result.agreement
    assert lists["e0-disputed"] == agreed.first_only + agreed.second_only
    groups = {one.id: len(one.attempts) for one in evidence(compared([run])) if "topic" in one.id or "level" in one.id}
    sizes = [
        one.pass_at_1.questions + one.pass_at_1.too_few for by_group in result.groups.values() for one in by_group.values()
    ]
    assert list(groups.values()) == sizes


def test_every_figure_of_a_rich_page_leads_somewhere() -> None:
    runs = [rich("a|b</script>"), rich("two", shift=1), rich("three", shift=2)]
    text = html(compared(runs))
    page = Page(text)
    assert not page.open and len(set(page.ids)) == len(page.ids)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert text.count('class="band"') == 3 * 3, "pass@k, majority, pass^k"
    assert "<t1>" not in text and "</script><" not in text.replace("</script></body>", "")
    figures = re.findall(r"<figure>.*?</figure>", text, re.S)
    assert len(figures) == 5 and all("href=" in one for one in figures)


@given(st.sets(st.integers(0, 60)))
def test_ranges_say_each_number_once(numbers: set[int]) -> None:
    told = ranges(sorted(numbers))
    read: list[int] = []
    for part in filter(None, told.split(", ")):
        low, _, high = part.partition("–")
        read += range(int(low), int(high or low) + 1)
    assert read == sorted(numbers)
