"""What the figures of a large run cost: 64 attempts at 1,000 questions, from rows in memory to the result, and its page.

Three measures, in processor seconds, the best of some tries: all figures with prices; the same with a
second judge; the page of one such run. Goal: the first below one second, a page below 8 MB. A first call also
warms numpy up, and is told apart.

Run: ``OMP_NUM_THREADS=1 python benchmarks/evaluate_figures.py``; writes ``benchmarks/results/evaluate_figures.json``.
"""

import argparse
import datetime
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from sanderling.core.record import Question
from sanderling.core.types import Ending
from sanderling.evaluate.figures import summarise
from sanderling.evaluate.reports.compare import Run, compared
from sanderling.evaluate.reports.pages import html
from sanderling.evaluate.result import Episode, EvalResult, JudgedAttempt
from sanderling.policy.budget import Prices

GOAL_SECONDS, GOAL_MB = 1.0, 8.0
OUT = Path(__file__).parent / "results" / "evaluate_figures.json"
INFO: dict[str, Any] = {"command": "benchmark", "seed": 0, "version": "0", "date": "today", "seconds": 0.0, "resumed": 0}
INFO |= {"judge": "one", "second_judge": "two"}
PRICES = Prices(0.15, 0.6)


def questions_of(count: int) -> list[Question]:
    """In three levels and ten topics."""
    return [
        Question(id=f"q{i}", text=f"Which number is {i}?", answers=("x",), meta={"level": i % 3, "topics": [f"topic {i % 10}"]})
        for i in range(count)
    ]


def episodes_of(questions: list[Question], attempts: int) -> list[Episode]:
    """Half of the questions are hard."""
    dice = np.random.default_rng(0)
    ease = dice.beta(0.6, 0.9, len(questions))
    found = []
    for one, p in zip(questions, ease, strict=True):
        for attempt, right in enumerate(dice.random(attempts) < p):
            turns = int(dice.integers(5, 80))
            found.append(
                Episode(
                    question=one.id,
                    attempt=attempt,
                    ending=Ending.ANSWERED,
                    correct=bool(right),
                    model="m",
                    world="w",
                    turns=turns,
                    calls=turns - 1,
                    visits=turns // 3,
                    sampled_tokens=400 * turns,
                    seconds=9.0 * turns,
                    prompt_tokens=700 * turns * turns,
                )
            )
    return found


def said_of(episodes: list[Episode]) -> list[JudgedAttempt]:
    """The judge's word, and a second judge who agrees nine times in ten."""
    dice = np.random.default_rng(1)
    return [
        JudgedAttempt(
            question=one.question,
            attempt=one.attempt,
            id=f"{one.question}-{one.attempt}",
            ending=one.ending,
            judge="one",
            correct=one.correct,
            score=float(bool(one.correct)),
            second=bool(one.correct) if dice.random() < 0.9 else not one.correct,
        )
        for one in episodes
    ]


def page_of(result: EvalResult, episodes: list[Episode], questions: list[Question]) -> str:
    """The page of the run."""
    verdicts = {one.key: one.correct for one in episodes}
    return html(compared([Run("run", "a.jsonl", result, verdicts, texts={one.id: one.text for one in questions})]))


def main() -> None:
    """Measure, print, write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--questions", type=int, default=1_000)
    options.add_argument("--attempts", type=int, default=64)
    options.add_argument("--tries", type=int, default=5)
    options.add_argument("--out", type=Path, default=OUT)
    chosen = options.parse_args()
    questions = questions_of(chosen.questions)
    episodes = episodes_of(questions, chosen.attempts)
    plain: dict[str, Any] = INFO | {"prices": PRICES}
    full: dict[str, Any] = plain | {"judged": said_of(episodes)}

    def seconds(info: dict[str, Any]) -> float:
        began = time.process_time()
        summarise(episodes, questions, chosen.attempts, **info)
        return time.process_time() - began

    first, *later = (seconds(plain) for _ in range(chosen.tries))
    judged = min(seconds(full) for _ in range(chosen.tries))
    result = summarise(episodes, questions, chosen.attempts, **full)
    began = time.process_time()
    text = page_of(result, episodes, questions)
    figures = {
        "first_call_seconds": round(first, 3),
        "figures_seconds": round(min(later), 3),
        "with_second_judge_seconds": round(judged, 3),
        "page_seconds": round(time.process_time() - began, 3),
        "page_mb": round(len(text.encode()) / 1e6, 2),
    }
    for name, figure in figures.items():
        print(f"{name:42} {figure:>8}")
    print(f"goal: figures below {GOAL_SECONDS:g} s: {'met' if figures['figures_seconds'] < GOAL_SECONDS else 'MISSED'}")
    print(f"goal: page below {GOAL_MB:g} MB: {'met' if figures['page_mb'] < GOAL_MB else 'MISSED'}")
    report = {
        "command": " ".join(["OMP_NUM_THREADS=1 python benchmarks/evaluate_figures.py", *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {"cpu": _cpu(), "python": sys.version.split()[0], "system": platform.system(), "busy": "others at work"},
        "settings": {"questions": chosen.questions, "attempts": chosen.attempts, "tries": chosen.tries},
        "goal": {"figures_seconds": GOAL_SECONDS, "page_mb": GOAL_MB},
        "results": figures,
    }
    chosen.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _cpu() -> str:
    """The processor's name, where the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


if __name__ == "__main__":
    main()
