"""What a stage asks of its questions: the band alone, and not held up by the few that nobody can judge."""

from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Ending
from sanderling.data.questions import read_questions
from sanderling.rl.curriculum import Band, BandSettings
from sanderling.rl.launch import sort_questions
from sanderling.rl.queue import META
from sanderling.runs.jsonl import TrajectoryStore

QUESTIONS = [Question(id=f"q{at}", text=f"{at}?", answers=("Oslo",)) for at in range(40)]


def attempt(question: Question, at: int, correct: bool | None) -> Trajectory:
    told = {"attempt": at, "outcome": None if correct is None else float(correct)}
    return Trajectory(
        id=f"{question.id}-{at}", question=question, nodes=(), leaf=None, ending=Ending.ANSWERED, answer="Oslo",
        seeds=Seeds(run=0, attempt=at), meta={META: told},
    )  # fmt: skip


def sorted_with(place: Path, untold: int) -> dict[Band, set[str]]:
    """Question n is right n modulo 5 times of 4; of the first few nobody said anything."""
    store = TrajectoryStore(place / "attempts.jsonl")
    for number, question in enumerate(QUESTIONS):
        for at in range(4):
            store.append(attempt(question, at, None if number < untold else at < number % 5))
    sort_questions(QUESTIONS, BandSettings(attempts=4, least_right=1, most_right=3), place)
    files = {band: place / f"{band.value}.jsonl" for band in Band}
    return {band: {one.id for one in read_questions(file)} if file.stat().st_size else set() for band, file in files.items()}


@pytest.mark.parametrize("untold", [0, 2])
def test_a_stage_asks_what_is_right_sometimes_and_is_not_held_up_by_what_nobody_can_judge(tmp_path: Path, untold: int):
    found = sorted_with(tmp_path, untold)
    assert found[Band.KEPT] == {f"q{n}" for n in range(untold, 40) if 1 <= n % 5 <= 3}
    assert found[Band.UNTOLD] == {f"q{n}" for n in range(untold)}
    assert len(found[Band.TOO_EASY]) == 8


def test_a_judge_that_was_away_is_to_be_asked_again(tmp_path: Path):
    with pytest.raises(
        UserError, match=r"3 of 40 questions have too many attempts without a verdict.*run the same command again"
    ):
        sorted_with(tmp_path, 3)
    assert not (tmp_path / "kept.jsonl").exists()
