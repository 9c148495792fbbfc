"""The report: figures as they were measured, sentences that go where the numbers go, hostile text that stays text."""

import asyncio
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from inspect_runs import plain
from measured_runs import go
from rich.console import Console
from test_evaluate_result import INFO, episode, grid
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, Seeds, ToolEvent, Trajectory
from sanderling.core.types import Ending, Role, ToolCall, ToolStatus
from sanderling.evaluate.figures import summarise
from sanderling.evaluate.log import About, GuardFacts
from sanderling.evaluate.reports import pages
from sanderling.evaluate.reports.compare import Run, compared, open_runs
from sanderling.evaluate.result import EvalResult, GuardFigures, JudgedAttempt
from sanderling.policy.budget import Prices
from sanderling.runs.progress import command_line
from sanderling.world.guard import GuardKind

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'><b>&amp;\x00"
RUN = {"command": "sanderling x", "seed": 1, "date": "2026", "machine": "m", "version": "0", "seconds": 75}


def result(rights: list[int], attempts: int = 4, unscored: int = 0, prefix: str = "q") -> EvalResult:
    """One question for each entry, with that many right attempts; the first ``unscored`` attempts of the first are outages."""
    questions = [Question(id=f"{prefix}{i}", text="t", answers=("x",)) for i in range(len(rights))]
    verdicts: dict[str, list[bool | None]] = {
        one.id: [number < right for number in range(attempts)] for one, right in zip(questions, rights, strict=True)
    }
    verdicts[f"{prefix}0"][:unscored] = [None] * unscored
    return summarise(grid(verdicts), questions, attempts, **INFO | {"command": "sanderling eval", "seed": 3})


def trajectory(observation: str = "plain", **changes: object) -> Trajectory:
    event = ToolEvent(name="search", role="search", status=ToolStatus.OK)
    call = ToolCall(name="search", arguments={"query": [HOSTILE]})
    nodes = (
        Node(parent=None, role=Role.SYSTEM, kind=NodeKind.SYSTEM, text="system"),
        Node(parent=0, role=Role.USER, kind=NodeKind.QUESTION, text="asked"),
        Node(parent=1, role=Role.ASSISTANT, kind=NodeKind.TURN, text="<oops", rejected=True, problems=("no_call",)),
        Node(parent=1, role=Role.ASSISTANT, kind=NodeKind.TURN, text="raw", think="thinking \ud83d", calls=(call,)),
        Node(parent=3, role=Role.USER, kind=NodeKind.OBSERVATION, text=observation, events=(event,)),
        Node(parent=4, role=Role.ASSISTANT, kind=NodeKind.TURN, text="raw", answer="x"),
    )
    values: dict[str, object] = {
        "id": "t", "question": Question(id="q", text="asked", answers=("x",)), "nodes": nodes, "leaf": 5,
        "ending": Ending.ANSWERED, "answer": "x", "seeds": Seeds(run=1, episode=2, attempt=3),
    }  # fmt: skip
    return Trajectory.model_validate(values | changes)


def report(text: str = "plain") -> pages.RecipeReport:
    base, tuned = result([0, 1] * 120), result([2, 4] * 120)
    stages = (
        pages.Stage(name=f"base {text}", result=base, seconds=1.0, note=text),
        pages.Stage(name="tuned", result=tuned, seconds=2.0),
    )
    reading = pages.reading_of(trajectory(text, answer=text, detail=text), f"A reading {text}", correct=True)
    return pages.RecipeReport(
        title=text,
        summary=text,
        **RUN | {"command": text, "machine": text},
        stages=stages,
        comparisons=(pages.compare(("tuned", tuned), (f"base {text}", base), seed=0),),
        remarks=(text,),
        charts=(pages.Chart(title=text, x_label=text, y_label=text, lines={text: {0: 1.0, 1: None, 2: 2.0}}),),
        readings=(reading,),
        settings=text,
    )


def test_hostile_text_stays_text_everywhere() -> None:
    hostile, plain = Page(pages.recipe_html(report(HOSTILE))), Page(pages.recipe_html(report()))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
    assert hostile.count("script") == 1
    assert hostile.count("img") == 0
    assert not [name for _, attributes in hostile.tags for name in attributes if name.startswith("on")]
    assert hostile.text.count("alert(2)") > 15


def test_the_page_is_deterministic_and_shows_the_figures() -> None:
    page = pages.recipe_html(report())
    assert page == pages.recipe_html(report())
    text = Page(page).text
    for shown in ("75.0%", "12.5%", "+62.5", "240", "1 min 15 s", "seed 3", "sanderling eval", "no_call"):
        assert shown in text


def test_a_sparse_report_has_a_page() -> None:
    nothing = result([0], unscored=4)
    sparse = pages.RecipeReport(title="t", **RUN, stages=(pages.Stage(name="s", result=nothing, seconds=0),))
    text = Page(pages.recipe_html(sparse)).text
    assert "not scored" in text
    assert "s is invalid: 4 of 4 attempts" in text
    assert Page(pages.recipe_html(pages.RecipeReport(title="t", **RUN, stages=()))).count("h1") == 1


@pytest.mark.parametrize(("steps", "smoothed"), [(3, False), (40, True)])
def test_few_points_are_drawn_as_they_are(steps: int, *, smoothed: bool) -> None:
    values: dict[float, float | None] = {step: step % 3 / 3 for step in range(steps)}
    chart = pages.Chart(title="RL", x_label="step", y_label="share", lines={"reward": values}, smooth=7, percent=True)
    page = pages.recipe_html(pages.RecipeReport(title="t", **RUN, stages=(), charts=(chart,)))
    assert ("moving average of 7" in page) is ('class="line raw"' in page) is smoothed


def test_a_comparison_over_several_worlds_says_so_and_is_as_wide_as_they_differ() -> None:
    def of_worlds(levels: tuple[int, int], worlds: tuple[str, str]) -> EvalResult:
        """240 questions, half of them of each world."""
        names = [world for world in worlds for _ in range(120)]
        questions = [Question(id=f"q{i}", text="t", answers=("x",), meta={"world": name}) for i, name in enumerate(names)]
        right = [level for level in levels for _ in range(120)]
        verdicts: dict[str, list[bool | None]] = {f"q{i}": [n < right[i] for n in range(4)] for i in range(240)}
        return summarise(grid(verdicts), questions, 4, **INFO | {"command": "sanderling eval", "seed": 3})

    base = of_worlds((1, 1), ("here", "there"))
    found = pages.compare(("RL", of_worlds((1, 3), ("here", "there"))), ("SFT", base), seed=0)
    assert "on the same 240 questions of 2 worlds" in found.verdict and "The interval includes zero" in found.verdict
    assert found.interval == pytest.approx((0.0, 0.5))
    assert {group: one.pass_at_1.value for group, one in base.groups["world"].items()} == {"here": 0.25, "there": 0.25}
    alone = pages.compare(("RL", of_worlds((1, 3), ("here", "here"))), ("SFT", of_worlds((1, 1), ("here", "here"))), seed=0)
    assert "better" in alone.verdict and "worlds" not in alone.verdict


def test_files_hold_the_same_figures(tmp_path: Path) -> None:
    written = report("späte Watvögel")
    page = pages.write_report(written, tmp_path / "run")
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["report.html", "report.json"]
    assert page.read_text(encoding="utf-8") == pages.recipe_html(written)
    raw = (tmp_path / "run" / "report.json").read_text(encoding="utf-8")
    assert pages.RecipeReport.model_validate_json(raw) == written.model_copy(update={"readings": ()})


def test_runs_that_are_alike_have_no_interval_and_one_that_is_always_better_is() -> None:
    alike = pages.compare(("RL", result([2] * 240)), ("SFT", result([2] * 240)), seed=0).verdict
    assert "+0.0 points (each of them alike)." in alike and "interval" not in alike
    assert "RL is better than SFT" in pages.compare(("RL", result([4] * 240)), ("SFT", result([0] * 240)), seed=0).verdict


def test_nothing_is_claimed_from_few_questions_or_invalid_runs() -> None:
    few = pages.compare(("RL", result([4] * 20)), ("SFT", result([0] * 20)), seed=0)
    assert not few.valid
    assert few.verdict.endswith("But 20 questions are fewer than the 200 a claim needs, so nothing is claimed.")
    broken = pages.compare(("RL", result([4] * 40, unscored=4)), ("SFT", result([0] * 40)), seed=0)
    assert not broken.valid and broken.questions == 39
    assert "the run of RL is invalid" in broken.verdict


def test_only_the_same_questions_are_compared() -> None:
    with pytest.raises(ValueError, match="same questions"):
        pages.compare(("a", result([1, 2])), ("b", result([1, 2], prefix="other")), seed=0)


def test_runs_without_a_common_scored_question_are_one_sentence() -> None:
    with pytest.raises(UserError, match="evaluate again"):
        pages.compare(("a", result([0], unscored=4)), ("b", result([1])), seed=0)


def test_the_better_of_two() -> None:
    a, b, none = result([1, 1]), result([2, 1]), result([0], unscored=4)
    assert pages.better(("a", a), ("b", b), ("none", none))[0] == "b"
    assert pages.better(("none", none), ("a", a))[0] == "a"


def test_three_are_picked_by_rule() -> None:
    empty = trajectory(id="empty", nodes=(), leaf=None, ending=Ending.POLICY_OUTAGE, answer=None)
    ids = ("right", "wrong1", "wrong2")
    candidates = [(trajectory(id=id), id == "right") for id in ids] + [(empty, None), (trajectory(id="unscored"), None)]
    picked = [one["facts"]["Episode"].split()[0] for one in pages.pick_three(reversed(candidates))]
    assert picked == ["right", "wrong2", "empty"]
    assert pages.pick_three([]) == []


def test_the_table_for_the_terminal() -> None:
    results = {"[red]a|b": (result([4, 0]), 3.0), "SFT on correct ones only": (result([0], unscored=4), 130.0)}
    stages = tuple(pages.Stage(name=name, result=one, seconds=seconds) for name, (one, seconds) in results.items())
    comparison = pages.compare(("x", result([4, 0])), ("y", result([0, 0])), seed=0)
    for width in (80, 160):
        stream = StringIO()
        found = pages.RecipeReport(title="Stages", **RUN, stages=stages, comparisons=(comparison,))
        pages.print_stages(Console(file=stream, width=width), found)
        shown = " ".join(stream.getvalue().split())
        assert "…" not in shown and "is invalid" in shown
        for piece in ("[red]a|b", "correct", "only", "50.0%", "2 min 10 s", "unscored", "nothing is claimed"):
            assert piece in shown


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--canary", "BENCH:secret key", "--seed", "3"], "--canary … --seed 3"),
        (["--canary=BENCH:secret key", "x y"], "--canary=… 'x y'"),
        (["--canary"], "--canary"),
        (["--canary", ""], "--canary …"),
        (["--canaries", "a b"], "--canaries 'a b'"),
    ],
)
def test_a_command_does_not_tell_the_key_of_a_benchmark(given: list[str], told: str) -> None:
    assert command_line(["/bin/sanderling", "eval", *given]) == f"sanderling eval {told}"


# -- Reports of runs: pairs by question, what a reader has to know, links that lead somewhere, texts that stay private -----


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
    text = pages.html(compared([rich("a|b</script>", 0), rich("two", 1), rich("three", 2)]))
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
    ahead = made("better", {"a": [True, True], "b": [True, True], "d": [True, True]})
    same = made("same", {"a": [False, False], "b": [True, False], "c": [True, True]})
    apart = made("apart", {"z": [True, True]})
    found = compared([base, ahead, same, apart])
    assert [(pair.name, pair.found.questions, pair.left_out) for pair in found.pairs] == [("better", 2, 2), ("same", 3, 0)]
    assert [pair.found.difference for pair in found.pairs] == [0.75, 0.0]
    assert all(pair.p_adjusted >= pair.found.p_value for pair in found.pairs)
    assert found.notes == (
        "better and base are compared on 2 questions; 2 are not in both with a scored attempt.",
        "apart has no question in common with base.",
    )
    (turned,) = compared([base, ahead], "better").pairs
    assert turned.found.difference == -0.75
    with pytest.raises(ValueError, match="none of the runs"):
        compared([base], "who")


def test_an_unknown_baseline_is_named(tmp_path: Path) -> None:
    asyncio.run(go(tmp_path / "one", 3, 1))
    unknown = CliRunner().invoke(app, ["report", str(tmp_path / "one"), "--baseline", "who"])
    assert isinstance(unknown.exception, UserError) and "None of the runs is called 'who'" in str(unknown.exception)


def test_runs_are_named_by_the_ends_of_their_paths_that_tell_them_apart(tmp_path: Path) -> None:
    places = [tmp_path / "a" / "run", tmp_path / "b" / "run"]
    for place in places:
        asyncio.run(go(place, 3, 1))
    assert [run.name for run in open_runs(places)] == ["a/run", "b/run"]
    assert [run.name for run in open_runs(places[:1])] == ["run"]
    with pytest.raises(UserError, match=r"is given twice: give each run once"):
        open_runs([places[0], places[0]])


class Page(HTMLParser):
    """Its elements in order with their attributes, those that are never closed, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data

    def count(self, name: str) -> int:
        return sum(tag == name for tag, _ in self.tags)

    def all(self, attribute: str) -> list[str]:
        """The attribute's values, of all elements that have it."""
        return [found[attribute] or "" for _, found in self.tags if attribute in found]
