"""One evaluation whole: a scripted agent over a small world, others' records scored, runs compared, statistics on seeded tables."""
# ruff: noqa: E501 -- made-up records read better on long lines

import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from loopback import Quiet, listening
from typer.testing import CliRunner

from sanderling.cli.main import build_app
from sanderling.core.record import Node, NodeKind, Question, Seeds, ToolEvent, Trajectory
from sanderling.core.types import Ending, Role, ToolCall, ToolStatus
from sanderling.evaluate import statistics as stats
from sanderling.evaluate.reports.compare import compared, open_runs
from sanderling.runs.jsonl import write_trajectories

TOLERANCE = 1e-6  # resampled sums are in single precision, which processors round otherwise
CLOCKED = frozenset({"command", "date", "seconds", "version", "judging_command", "judged_sha256", "episode_seconds"})
"""What of a result tells of the moment and the machine."""
NOT_PINNED = ("majority", "clustered_error", "spending", "contamination")
"""Figures of a result that are pinned no longer."""
UNPINNED_LINE = re.compile(r"  k   questions|  \d+ +\d+ +\d+\.\d% |.*read their question word for word|An attempt: ")
"""Lines of what a command prints that are pinned no longer: the table over k, contamination, what an attempt took."""


DATE = re.compile(r"20\d\d-\d\d-\d\d([T ][\d:.+Z]+)?( UTC)?")


def call(scratch: Path, group: str, *arguments: object, server: str = "") -> dict[str, Any]:
    """One command: its exit status, what it printed, and the sentence it failed with."""
    sys.argv = ["sanderling", group, *map(str, arguments)]
    done = CliRunner().invoke(build_app(group), sys.argv[1:], env={"COLUMNS": "160"})
    error = str(done.exception) if done.exception and not isinstance(done.exception, SystemExit) else ""
    return {"exit": done.exit_code, "said": steady(done.stdout, scratch, server), "error": steady(error, scratch, server)}


def steady(text: str, scratch: Path, server: str = "") -> str:
    """A text without places and dates; of one that names a server also without the lines that tell times."""
    text = DATE.sub("DATE", text.replace(str(scratch), "SCRATCH").replace(server or "\0", "SERVER"))
    text = re.sub(r"date ≠ ?", "date", text).replace(", date.", ".")  # runs of one second have one date
    # Files of a run, as they were then:
    text = text.replace("/run.db every", "/judged.jsonl every").replace("SCRATCH/run (", "SCRATCH/run/attempts.jsonl (")
    text = re.sub(r"show (SCRATCH/\w+) --id", r"show \1/attempts.jsonl --id", text)
    lines = [line.rstrip() for line in text.splitlines() if not (server and ("second" in line or " s " in line))]
    lines = [line for line in lines if line.strip(" ─") and not UNPINNED_LINE.match(line)]
    return "\n".join(lines)


def result_of(run: Path, server: str = "") -> Any:
    """The figures of a run, without the clock."""
    text = (run / "result.json").read_text(encoding="utf-8")
    found = {name: value for name, value in json.loads(text.replace(server or "\0", "SERVER")).items() if name not in CLOCKED}
    questions = found.pop("questions")
    for name in NOT_PINNED:
        found.pop(name, None)
    if found["cost"] is not None:
        found["cost"].pop("right_interval", None)
    found |= dict.fromkeys(("grades", "mean_context_tokens", "recorded", "score", "sets"))  # figures that are gone
    found["browse"] = {"overall": found.pop("visit_share")}  # as it was written then
    return found | {"questions": [f"{q['id']} {q['correct']}/{q['scored']}/{q['attempts']} {q['groups']}" for q in questions]}


# --- recorded attempts ---------------------------------------------------------------------------------------------------

SCORED = [Ending.ANSWERED] * 14 + [
    Ending.ANSWERED_AT_BUDGET, Ending.NO_ANSWER, Ending.TURN_LIMIT, Ending.REPETITION, Ending.MALFORMED,
]  # fmt: skip


def attempt(question: Question, number: int, skill: float, dice: random.Random) -> Trajectory:
    """A made-up attempt: turns with calls, what they took, an ending, an answer that is right as often as the skill says."""
    ending = (
        dice.choice([Ending.TOOL_OUTAGE, Ending.POLICY_OUTAGE, Ending.CANCELLED])
        if dice.random() < 0.04
        else dice.choice(SCORED)
    )
    nodes = [Node(parent=None, role=Role.SYSTEM, kind=NodeKind.SYSTEM, text="You are an agent.")]
    nodes.append(Node(parent=0, role=Role.USER, kind=NodeKind.QUESTION, text=question.text))
    for turn in range(dice.randrange(1, 5)):
        name = dice.choice(("search", "search", "visit"))
        calls = (
            ToolCall(
                name=name,
                arguments={"query": [f"{question.id} {turn}"]} if name == "search" else {"url": ["https://a.example"]},
            ),
        )
        nodes.append(Node(parent=len(nodes) - 1, role=Role.ASSISTANT, kind=NodeKind.TURN, text=f"<think>\nturn {turn}\n</think>", calls=calls,
                          think=f"turn {turn}", seconds=dice.randrange(1, 9) / 4, prompt_tokens=200 * (turn + 1), sampled_tokens=dice.randrange(20, 90)))  # fmt: skip
        event = ToolEvent(name=name, role=name, status=ToolStatus.OK, latency_s=dice.randrange(1, 9) / 8)
        leak = question.text if dice.random() < 0.03 else "nothing new"
        nodes.append(
            Node(
                parent=len(nodes) - 1, role=Role.USER, kind=NodeKind.OBSERVATION, text=f"seen: {leak}", events=(event,),
                seconds=0.5,
            )
        )  # fmt: skip
    right = (
        question.answers[0] if dice.random() < skill else dice.choice(("nobody", "somebody else", f"not {question.answers[0]}"))
    )
    said = right if ending.has_answer else None
    text = f"<think>\nso\n</think>\n<answer>{said}</answer>" if said else "I stop."
    nodes.append(
        Node(
            parent=len(nodes) - 1, role=Role.ASSISTANT, kind=NodeKind.TURN, text=text, answer=said, seconds=1.0,
            prompt_tokens=900, sampled_tokens=40,
        )
    )  # fmt: skip
    return Trajectory(id=f"{question.id}-{number}", question=question, nodes=tuple(nodes), leaf=len(nodes) - 1, ending=ending, answer=said,
                      profile="tiny", model="agent-4b", seeds=Seeds(run=1, attempt=number), seconds=dice.randrange(20, 200) / 2)  # fmt: skip


def others(scratch: Path) -> Iterator[tuple[str, Any]]:
    """Three files of recorded attempts: scored, judged again, settled by hand, compared, reported."""
    dice = random.Random(5)
    questions = [
        Question(
            id=f"q{n}", text=f"Which river is number {n} of the long list of rivers in the north?", answers=(f"river {n}",)
        )
        for n in range(24)
    ]
    rows = [
        {"id": one.id, "question": one.text, "answer": one.answers[0], "level": n % 3 + 1, "topic": ("north", "west")[n % 2]}
        for n, one in enumerate(questions)
    ]
    (scratch / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for name, count, attempts, tilt in (("alpha", 24, 4, 0.1), ("beta", 24, 4, 0.35), ("gamma", 20, 2, 0.2)):
        made = [
            attempt(one, a, min(1.0, tilt + 0.03 * n), dice) for n, one in enumerate(questions[:count]) for a in range(attempts)
        ]
        write_trajectories(scratch / f"{name}.jsonl", iter(made))
        told = [
            "eval", "score", scratch / f"{name}.jsonl", "--questions", scratch / "q.jsonl", "--judge", "exact",
            "--second-judge", "f1:0.5",
        ]  # fmt: skip
        said = call(scratch, *told, "--out", scratch / name, "--unscored-limit", 0.1)
        yield f"score {name}", [said, result_of(scratch / name)]
        time.sleep(1.0)  # runs of one second would have one date, and the report another table
    words = "Which river is number 5 of the long list of rivers in the north?"
    (scratch / "hand.csv").write_text(
        f'question,answer,correct\njsonl/q3,nobody,yes\njsonl/q9,river 9,no\n"{words}",somebody else,yes\nq1,x,no\n'
    )
    again = {
        "scores": ["--price", "1,4"],
        "by hand": ["--verdicts", scratch / "hand.csv"],
        "contains": ["--judge", "contains", "--judge", "numeric", "--second-judge", "exact"],
    }
    for name, more in again.items():
        said = call(scratch, "eval", "judge", scratch / "alpha", *more)
        found = result_of(scratch / "alpha")
        yield (f"judge again, {name}", [said, *(found[part] for part in ("pass_at_k", "cost", "agreement", "by_hand"))])
        agreed = call(scratch, "eval", "agree", scratch / "alpha", "--csv", scratch / f"settle {name}.csv")
        yield f"agree, {name}", [agreed, (scratch / f"settle {name}.csv").read_text().splitlines()[:12]]
    yield "agree, nobody", call(scratch, "eval", "agree", scratch / "nowhere")
    places = [scratch / name for name in ("alpha", "beta", "gamma")]
    reported = call(scratch, "eval", "report", *places, "--baseline", "beta", "--out", scratch / "report")
    yield "report", [reported["exit"], report_of(places)]


def report_of(places: list[Path]) -> dict[str, Any]:
    """What a report says: what runs were made with, its remarks, and differences."""
    found = compared(open_runs(places, 0), "beta")
    facts = {name: list(values) for name, values in found.facts.items() if name not in ("date", "version")}
    pairs = [[one.name, figures(one.found), one.p_adjusted, one.left_out, one.better, one.worse] for one in found.pairs]
    return {"facts": facts, "notes": [one for one in found.notes if not one.startswith(("The runs ", "In "))], "pairs": pairs}


# --- a run ---------------------------------------------------------------------------------------------------------------

PAGES = {
    "Aare": "The Aare is a river of 288 km.",
    "Birs": "The Birs is a river of 75 km.",
    "Clyde": "The Clyde flows 176 km through Glasgow.",
}


@contextmanager
def agent() -> Iterator[str]:
    """A chat server whose agent searches, reads, and then answers well at its second attempt, badly at its first."""
    begun: Counter[str] = Counter()

    def reply(messages: list[dict[str, str]]) -> str:
        asked, turn = messages[1]["content"], sum(one["role"] == "assistant" for one in messages)
        name = next(name for name in PAGES if name in asked)
        if turn == 0:
            begun[name] += 1
            arguments: dict[str, Any] = {"query": [f"{name} {begun[name]}"]}
            return f'<think>\ntry {begun[name]}\n</think>\n<tool_call>\n{{"name": "search", "arguments": {json.dumps(arguments)}}}\n</tool_call>'
        number = int(next(one["content"] for one in messages if one["role"] == "assistant").split("try ")[1].split()[0])
        if turn == 1 and number == 2:
            return (
                "<think>\nread\n</think>\n<tool_call>\n"
                + json.dumps({"name": "visit", "arguments": {"url": [f"https://r.example/{name}"], "goal": "length"}})
                + "\n</tool_call>"
            )
        said = {"Aare": "288 km", "Birs": "75 km", "Clyde": "176 km"}[name] if number == 2 or name == "Aare" else "nothing"
        return f"<think>\nso\n</think>\n<answer>{said}</answer>"

    class Handler(Quiet):
        def do_POST(self) -> None:
            messages = self.body()["messages"]
            said = reply(messages)
            usage = {"prompt_tokens": 100 * len(messages), "completion_tokens": len(said.split())}
            self.say({"choices": [{"message": {"content": said}, "finish_reason": "stop"}], "usage": usage})

    with listening(Handler) as url:
        yield url


def run(scratch: Path) -> Iterator[tuple[str, Any]]:
    """``eval run`` over a world of three pages, and once more, when nothing is left to do."""
    pages = [{"url": f"https://r.example/{name}", "title": name, "text": text} for name, text in PAGES.items()]
    (scratch / "pages.jsonl").write_text("".join(json.dumps(page) + "\n" for page in pages), encoding="utf-8")
    yield (
        "world",
        call(scratch, "world", "build", "from", scratch / "pages.jsonl", "--name", "pages", "--out", scratch / "world")["exit"],
    )
    answers = {"Aare": "288 km", "Birs": "75,000 m", "Clyde": "177 km"}
    (scratch / "rivers.csv").write_text(
        "question,answer\n" + "".join(f'"How long is the {name}?","{said}"\n' for name, said in answers.items())
    )
    with agent() as server:
        told = [
            "eval", "run", "jsonl", scratch / "rivers.csv", "--model", f"{server}/v1#m", "--world", scratch / "world",
            "--profile", "tiny",
        ]  # fmt: skip
        told += [
            "--judge", "exact", "--judge", "numeric", "--attempts", 2, "--concurrency", 1, "--set", "agent.price=2,8",
            "--no-progress", "--out", scratch / "run",
        ]  # fmt: skip
        for name in ("run", "run again"):
            yield name, [call(scratch, *told, server=server), result_of(scratch / "run", server=server)]
    yield "run, other settings", call(scratch, *told, "--seed", 1, server=server)


# --- statistics ----------------------------------------------------------------------------------------------------------


def figures(found: Any) -> list[Any]:
    """A record of figures as a list, NaN as None."""
    values = (
        [getattr(found, name) for name in found.__dataclass_fields__] if hasattr(found, "__dataclass_fields__") else [*found]
    )
    return [figures(one) if isinstance(one, tuple) else None if one != one else one for one in values]


def mean_of(each: np.ndarray) -> list[Any]:
    """The mean over the questions that have a value, how many have, and how many have none."""
    kept = each[np.isfinite(each)]
    return [float(kept.mean()) if kept.size else None, int(kept.size), int(each.size - kept.size)]


def statistics() -> Iterator[tuple[str, Any]]:
    dice = np.random.default_rng(11)
    for number in range(8):
        questions, most = int(dice.integers(1, 40)), int(dice.integers(1, 9))
        scored = dice.integers(0 if number % 2 else most, most + 1, questions)
        correct = dice.binomial(scored, dice.random(questions) if number != 6 else np.ones(questions))
        each = [mean_of(of(scored, correct, k)[:, -1]) for of in (stats.any_right, stats.all_right) for k in (1, 2, most)]
        yield f"counts {number}", [each, mean_of(stats.any_right(scored, correct, 1)[:, 0])]
        share = np.divide(correct, scored, out=np.full(questions, np.nan), where=scored > 0)
        other = np.clip(np.round(share + dice.choice([0, 0, 0.25, -0.5], questions), 2), 0, 1)
        yield (
            f"intervals {number}",
            [figures(stats.bootstrap_interval(share, seed=number)), figures(stats.mean_interval(share, seed=3))],
        )
        if np.isfinite(share * other).any():
            yield f"paired {number}", figures(stats.paired_difference(share, other, seed=number))
        for n in scored.tolist():  # what the next tables are drawn after
            dice.random(n)
            dice.integers(0, 3, n)
    yield "wilson", [figures(stats.wilson_interval(s, n)) for s, n in ((0, 0), (0, 9), (9, 9), (3, 7), (50, 1000))]
    yield "holm", [stats.holm([0.01, 0.04, 0.03, 0.2]), stats.holm([]), stats.holm([0.9, 0.9])]


def make(scratch: Path, recorded_at: Path | None) -> dict[str, Any]:
    """All cases."""
    return dict([*statistics(), *others(scratch), *run(scratch)])
