"""From attempts to figures: whose word counts, what is asked, what is written."""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import measured_runs
import pytest
from launcher import ended
from measured_runs import go, questions

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Ending
from sanderling.data.importing import open_trajectories
from sanderling.evaluate.benchmark_files import load_benchmark
from sanderling.evaluate.benchmark_rows import Options
from sanderling.evaluate.benchmarks import get_benchmark
from sanderling.evaluate.judging import Judges, by_hand_of, judge_again, unused_by_hand, with_book
from sanderling.evaluate.log import About, RunLog, sha256_of_questions
from sanderling.evaluate.result import EvalResult, JudgedAttempt
from sanderling.evaluate.run import EvalConfig, judges_or_own, prepare
from sanderling.judge.book import ByHand
from sanderling.judge.opening import JudgeConfig
from sanderling.judge.rules import RuleJudge, exact_match
from sanderling.judge.verdict import META_KEY, Code, Ruling, Verdict, in_order, recorded, unscored, verdict_of

QUESTIONS = [Question(id=f"q{n}", text=f"What is {n}?", answers=(f"a{n}",)) for n in range(3)]
EXACT = RuleJudge("exact", exact_match)


class Milder:
    """A judge that lets anything pass which begins with an a, and counts what it is asked."""

    def __init__(self, name: str = "milder", place: str = "http://here") -> None:
        self.name, self.asked, self.places = name, 0, (place,)

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        self.asked += 1
        assert trajectory.answer is not None
        if trajectory.answer == "?":
            return unscored(Code.UNREADABLE, "what?")
        right = trajectory.answer.startswith("a")
        return Verdict(Ruling.CORRECT if right else Ruling.INCORRECT, float(right), "by its letter")


def attempt(question: Question, number: int, answer: str | None, ending: Ending = Ending.ANSWERED) -> Trajectory:
    made = Trajectory(
        id=f"{question.id}-{number}", question=question, nodes=(), leaf=None, ending=ending, answer=answer,
        seeds=Seeds(run=0, attempt=number),
    )  # fmt: skip
    if not ending.scored:
        return made
    verdict = asyncio.run(EXACT(made)) if answer is not None else Verdict(Ruling.INCORRECT, 0.0, "none", Code.NO_ANSWER)
    return made.model_copy(update={"meta": {META_KEY: recorded(verdict, "exact")}})


def finished(root: Path, *attempts: Trajectory) -> RunLog:
    directory = RunLog(root)
    about = About(benchmark="jsonl", questions=3, questions_sha256=sha256_of_questions(QUESTIONS), seed=0)
    run = directory.begin(about, QUESTIONS, 2, "begun")
    for one in attempts:
        directory.append(one)
    directory.finish(run)
    return directory


@pytest.fixture
def directory(tmp_path: Path) -> RunLog:
    q0, q1, q2 = QUESTIONS
    return finished(
        tmp_path / "run", attempt(q0, 0, "a0"), attempt(q0, 1, "a9"), attempt(q1, 0, "b"), attempt(q1, 1, "?"),
        attempt(q2, 0, None), attempt(q2, 1, None, Ending.TOOL_OUTAGE),
    )  # fmt: skip


def again(directory: RunLog, judges: Judges) -> tuple[EvalResult, dict[str, JudgedAttempt]]:
    result = asyncio.run(judge_again(directory, judges, "again", 0.5, pauses=()))
    assert EvalResult.load(directory.result_file) == result
    return result, {one.id: one for one in directory.verdicts()}


def test_verdicts_in_the_records_are_not_asked_for_again(directory: RunLog) -> None:
    result, said = again(directory, Judges(EXACT))
    assert {id: one.correct for id, one in said.items()} == {
        "q0-0": True, "q0-1": False, "q1-0": False, "q1-1": False, "q2-0": False, "q2-1": None,
    }  # fmt: skip
    assert list(said) == sorted(said) and said["q2-1"].code is Code.NOT_ENDED and said["q2-0"].code is Code.NO_ANSWER
    assert (result.judge, result.second_judge, result.by_hand, result.unscored) == ("exact", "", 0, 1)
    assert result.pass_at_1.value == pytest.approx(0.5 / 3) and (result.command, result.judging_command) == ("begun", "again")


def test_an_unfinished_run_and_a_damaged_list_are_refused(directory: RunLog) -> None:
    run = directory.require()
    directory.write_state(run.model_copy(update={"finished": False}), QUESTIONS)
    with pytest.raises(UserError, match="not finished"):
        again(directory, Judges(EXACT))
    directory.run.table("judged").put("q0-0", {"question": "q0"})
    with pytest.raises(UserError, match=r"run\.db was written by another version"):
        directory.verdicts()
    with pytest.raises(UserError, match="no run of an evaluation"):
        again(RunLog(directory.root / "nowhere"), Judges(EXACT))


def test_a_judge_of_the_same_name_elsewhere_is_asked(directory: RunLog) -> None:
    again(directory, with_book(directory, Milder(), None, ByHand(), anew=True))
    again(directory, with_book(directory, here := Milder(), None, ByHand(), anew=True))
    assert here.asked == 1, "only what it could not read"
    again(directory, with_book(directory, there := Milder(place="http://there"), None, ByHand(), anew=True))
    assert there.asked == 4


class Away(Milder):
    """A judge that was there for the answers in ``well``."""

    def __init__(self, *well: str) -> None:
        super().__init__("away")
        self.well = well

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        found = await super().__call__(trajectory)
        return replace(found, model="m") if trajectory.answer in self.well else unscored(Code.OUTAGE, "nobody there")


def test_a_judge_that_is_away_leaves_the_figures(directory: RunLog) -> None:
    again(directory, with_book(directory, EXACT, None, ByHand()))
    before = directory.result_file.read_bytes(), directory.verdicts()
    for judge in (Away(), in_order([EXACT, Away()])):  # what a rule says without it is no sign of life
        for second in (None, EXACT, Milder()):
            with pytest.raises(UserError, match=r"away judged nothing \(nobody there\): the figures of .* stay as they were"):
                again(directory, with_book(directory, judge, second, ByHand()))
            assert (directory.result_file.read_bytes(), directory.verdicts()) == before


def test_a_judge_that_is_away_is_not_asked_about_each_attempt(directory: RunLog) -> None:
    for number in range(2, 40):
        directory.append(attempt(QUESTIONS[0], number, f"b{number}"))
    again(directory, with_book(directory, EXACT, None, ByHand()))
    directory.write_state(directory.require().model_copy(update={"attempts": 40}), QUESTIONS)
    with pytest.raises(UserError, match="judged nothing"):
        asyncio.run(judge_again(directory, with_book(directory, away := Away(), None, ByHand()), "again", pauses=()))
    assert away.asked <= 16


def test_an_answer_that_a_judge_never_takes_keeps_nothing_else_from_being_told(directory: RunLog) -> None:
    picky = Away("a0", "a9", "b")
    for judges in (with_book(directory, picky, None, ByHand()), with_book(directory, picky, Away(), ByHand())):
        for _ in range(2):
            _, said = again(directory, judges)
            assert said["q1-1"].code is Code.OUTAGE and said["q0-0"].correct is True
    assert picky.asked == 3 + 4, "what it said is not asked again"


def test_a_rule_that_was_mended_judges_anew(directory: RunLog) -> None:
    again(directory, with_book(directory, EXACT, None, ByHand()))
    lenient = RuleJudge("exact", lambda answer, accepted: 1.0)
    result, _ = again(directory, with_book(directory, lenient, None, ByHand()))
    assert result.pass_at_1.value == pytest.approx(2 / 3), "what a rule said is not remembered"


def test_an_id_is_bound_to_the_answer_that_was_judged(directory: RunLog, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("q0-1,yes\nq2-1,yes\n")
    by_hand = by_hand_of(directory, file)
    _, said = again(directory, with_book(directory, EXACT, None, by_hand))
    assert said["q0-1"].correct is True and said["q2-1"].correct is None, "an outage has no answer to judge"
    assert unused_by_hand(directory, by_hand) == ["q2-1"]
    directory.append(attempt(QUESTIONS[0], 1, "c"))
    directory.append(attempt(QUESTIONS[2], 1, "c"))
    _, later = again(directory, with_book(directory, EXACT, None, by_hand_of(directory, None)))
    assert later["q0-1"].correct is later["q2-1"].correct is False, "another answer is another matter"


def test_whoever_reads_a_runs_attempts_has_what_was_said_last(directory: RunLog, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("q0-1,yes\n")
    again(directory, with_book(directory, EXACT, None, by_hand_of(directory, file)))
    directory.append(attempt(QUESTIONS[2], 1, "a2"))  # it had met an outage
    for found in (directory.records(), open_trajectories(directory.root)):
        said = {one.id: one for one in found}
        assert said["q0-1"].meta[META_KEY] == {"judge": "by hand", "correct": True, "score": 1.0, "code": "by_hand"}
        assert verdict_of(said["q0-0"], "exact") is verdict_of(said["q2-1"], "exact") is True
    graded = RuleJudge("exact", lambda answer, accepted: 0.9)
    again(directory, with_book(directory, graded, None, ByHand()))
    assert {one.meta[META_KEY]["score"] for one in directory.records() if one.answer} == {0.9}, "mended, of the same name"
    directory.run.table("judged").put("q1-1", {"judge": "exact", "correct": None, "ending": "answered", "code": "unreadable"})
    assert {one.id: verdict_of(one) for one in directory.records()}["q1-1"] is None, "wrong before, and now without a verdict"
    directory.run.table("judged").put("q0-0", {"question": "q0"})
    with pytest.raises(UserError, match="The verdict on q0-0 is damaged"):
        list(open_trajectories(directory.root))


def test_a_sheet_with_nothing_filled_in_is_one_and_lines_about_nothing_are_refused(directory: RunLog, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    for text in ("question,answer,correct,note\n", "question,answer,correct,note\nq0,a9,,\n"):
        sheet.write_text(text)
        assert by_hand_of(directory, sheet).lines == {}
    sheet.write_text("nobody,yes\n")
    with pytest.raises(UserError, match=r"No line of .*sheet\.csv is about an answer"):
        by_hand_of(directory, sheet)


def test_the_limit_of_unscored_attempts_is_the_runs(directory: RunLog) -> None:
    strict = asyncio.run(judge_again(directory, Judges(EXACT), "a", pauses=()))
    loose = asyncio.run(judge_again(directory, Judges(EXACT), "a", 0.5, pauses=()))
    later = asyncio.run(judge_again(directory, Judges(EXACT), "a", pauses=()))
    assert (strict.valid, loose.valid, later.valid) == (False, True, True)


# -- A measured run as a person meets it: killed, met by outages, gone on with, told what it is not ------------------------

NOT_THE_SAME = {"seconds", "episode_seconds", "resumed", "date", "command"}
"""What a clock or a kill may change; the rest of a result may not."""


def killed(root: Path, count: int, attempts: int, after: int) -> None:
    """A life of the run that ends by SIGKILL after so many turns."""
    assert ended(measured_runs.live, root, count, attempts, after) == -9


def figures(result: EvalResult) -> dict:
    return {name: value for name, value in result.model_dump(mode="json").items() if name not in NOT_THE_SAME}


@pytest.mark.parametrize(
    ("count", "attempts", "kills"), [(15, 4, (40, 5, 30)), pytest.param(250, 4, (900, 40, 700), marks=pytest.mark.slow)]
)
def test_kills_and_outages_change_no_figure(tmp_path: Path, count: int, attempts: int, kills: tuple[int, ...]) -> None:
    _, undisturbed = asyncio.run(go(tmp_path / "whole", count, attempts))
    for after in kills:
        killed(tmp_path / "killed", count, attempts, after)
    made, result = asyncio.run(go(tmp_path / "killed", count, attempts))
    assert figures(result) == figures(undisturbed)
    assert len(made.episodes) == count * attempts == sum(result.endings.values())
    assert 0 < result.unscored < count * attempts / 4 and "could not be scored" in result.invalid_because
    stored = Counter(one.id for one in RunLog(tmp_path / "killed").records())
    assert set(stored.values()) == {1} and stored.total() == count * attempts
    turns = Counter((tmp_path / "killed.server" / "turns").read_text().splitlines())
    assert turns.total() - len(turns) <= 8 * len(kills), "at most the turns under way at a kill are sampled again"


def test_a_finished_round_with_outages_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first = asyncio.run(go(tmp_path / "run", 15, 2))
    again, second = asyncio.run(go(tmp_path / "run", 15, 2))
    assert first.unscored == second.unscored > 0 and again.resumed == 30 - first.unscored
    monkeypatch.setattr(measured_runs, "DOWN", 0.0)
    monkeypatch.setattr(measured_runs, "FLAKY", 0.0)
    _, third = asyncio.run(go(tmp_path / "run", 15, 2))
    run = RunLog(tmp_path / "run").read()
    assert run is not None
    assert (third.unscored, third.valid, run.finished) == (0, True, True)
    assert third.resumed == 30 - first.unscored, "what was scored is not made again"


def test_attempts_may_become_more_and_never_fewer(tmp_path: Path) -> None:
    asyncio.run(go(tmp_path / "run", 6, 1))
    made, result = asyncio.run(go(tmp_path / "run", 6, 3))
    assert result.attempts == 3 and len(made.episodes) == 18
    with pytest.raises(UserError, match=r"begun with 3 attempts: give as many, or more"):
        asyncio.run(go(tmp_path / "run", 6, 2))


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    about = About(benchmark="jsonl", questions=1, questions_sha256="", seed=0)
    with pytest.raises(UserError, match=r"holds something else than a run \(thesis.tex\)"):
        RunLog(tmp_path).begin(about, questions(1), 1, "c")


def test_which_questions_and_which_judge(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text(
        "".join(json.dumps({"question": f"What is number {i}?", "answer": f"a{i}"}) + "\n" for i in range(9))
    )
    own = get_benchmark("jsonl")
    loaded = load_benchmark(own, tmp_path / "own.jsonl", Options())
    first = prepare(loaded, EvalConfig(limit=4))
    drawn, again = (prepare(loaded, EvalConfig(limit=4, sample_seed=5)) for _ in range(2))
    assert [one.text for one in first[1]] == [f"What is number {i}?" for i in range(4)]
    assert drawn == again != first and drawn[0].chosen == "4 by seed 5"
    assert prepare(loaded, EvalConfig(limit=99))[0].chosen == "all"
    with pytest.raises(UserError, match="sample_seed draws a sample"):
        prepare(loaded, EvalConfig(sample_seed=5))
    with pytest.raises(UserError, match=r"BrowseComp is scored by a model .*: name one with --judge"):
        judges_or_own(get_benchmark("browsecomp"), JudgeConfig())
    assert judges_or_own(get_benchmark("gaia"), JudgeConfig()).judges == ("gaia",)
