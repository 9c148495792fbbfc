"""How often an agent is right that answers after one search: the claim is below 10% on questions of two and more hops.

The agent reads one list of results as well as that can be done (`sanderling.synth.one_search`), through the one loop, over
held-out worlds. Two lists: as the tiny profile shows them (3 results, snippets of 14 words), and a generous one (10 results, 30
words). Beside it stands what no reader of that list can pass, but by blind guesses (one ware in 16): the share of questions
whose answer is anywhere in the list.

Run: ``OMP_NUM_THREADS=1 python benchmarks/one_search.py``; writes ``benchmarks/results/one_search.json``.
"""

import asyncio
import datetime
import json
import platform
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sanderling.agent.agent import Agent, Job
from sanderling.core.profiles import get_profile
from sanderling.core.record import NodeKind, Seeds, Trajectory
from sanderling.core.types import FixedClock
from sanderling.evaluate.statistics import wilson_interval
from sanderling.synth.one_search import OneSearchPolicy, Query
from sanderling.synth.questions import chain_questions
from sanderling.tools.world_tools import world_tools
from sanderling.world.encyclopedia import Encyclopedia, Names, generate_encyclopedia
from sanderling.world.local import LocalWorld

WORLDS, ENTITIES, QUESTIONS, QUESTION_SEED = range(9_001, 9_011), 240, 150, 3
HOPS = {1: 1.0, 2: 1.0, 3: 1.0}
GOAL = 0.10
OUT = Path(__file__).parent / "results" / "one_search.json"


@dataclass(frozen=True)
class List:
    """How results are shown."""

    name: str
    results: int
    snippet_words: int


LISTS = (List("tiny profile", 3, 14), List("generous", 10, 30))


def play(world: Encyclopedia, shown: List, query: Query) -> list[Trajectory]:
    """The agent on one world's questions."""
    tiny = get_profile("tiny")
    budgets = tiny.budgets.model_copy(update={"max_context_tokens": 16_000})  # a generous list must not end the episode
    profile = tiny.model_copy(
        update={"results_per_query": shown.results, "snippet_words": shown.snippet_words, "budgets": budgets}
    )
    local = LocalWorld.in_memory((item.page for item in world.pages), name=world.name)
    questions = chain_questions(world, QUESTIONS, QUESTION_SEED, HOPS)
    episodes = Agent(
        OneSearchPolicy(query), world_tools(local, profile), profile, FixedClock(datetime.date(2026, 1, 1)), world.name
    ).run_many([Job(question, Seeds(), question.id) for question in questions], concurrency=1)
    return asyncio.run(episodes)


def right(trajectory: Trajectory) -> bool:
    """Whether the answer is one of the accepted ones."""
    return trajectory.answer in trajectory.question.answers


def within_sight(trajectory: Trajectory) -> bool:
    """Whether the right answer's bare name stands anywhere in the list of results."""
    lists = " ".join(node.text for node in trajectory.branch() if node.kind is NodeKind.OBSERVATION)
    return re.search(rf"\b{re.escape(trajectory.question.answers[0])}\b", lists) is not None


def figures(trajectories: Iterable[Trajectory]) -> dict[str, float | int | list[float]]:
    """Accuracy with its interval, and the ceiling."""
    found = list(trajectories)
    correct = sum(map(right, found))
    low, high = wilson_interval(correct, len(found))
    ceiling = sum(map(within_sight, found)) / len(found)
    return {
        "n": len(found),
        "correct": correct,
        "accuracy": round(correct / len(found), 4),
        "interval_95": [round(low, 4), round(high, 4)],
        "answer_within_sight": round(ceiling, 4),
    }


def main() -> None:
    """Measure, print the table, write the results."""
    worlds = [generate_encyclopedia(ENTITIES, seed, Names.HELD_OUT) for seed in WORLDS]
    rows: list[dict[str, object]] = []
    met = True
    print(f"{'list':<14}{'query':<10}{'hops':<6}{'n':>6}{'accuracy':>10}{'95% interval':>18}{'within sight':>14}")
    for shown in LISTS:
        for query in Query:
            found = [trajectory for world in worlds for trajectory in play(world, shown, query)]
            groups = {str(hops): [t for t in found if t.question.hops == hops] for hops in HOPS}
            groups["2+"] = [t for t in found if (t.question.hops or 0) > 1]
            for hops, group in groups.items():
                row = figures(group)
                low, high = row["interval_95"]  # pyright: ignore[reportGeneralTypeIssues]  # a list by construction
                print(
                    f"{shown.name:<14}{query:<10}{hops:<6}{row['n']:>6}{row['accuracy']:>10.1%}"
                    f"{f'{low:.1%} to {high:.1%}':>18}{row['answer_within_sight']:>14.1%}"
                )
                rows.append({"list": shown.name, "query": query.value, "hops": hops, **row})
                met &= hops != "2+" or high < GOAL
    print(f"goal: below {GOAL:.0%} on 2 and more hops, interval included: {'met' if met else 'MISSED'}")
    report = {
        "command": "OMP_NUM_THREADS=1 python benchmarks/one_search.py",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {"python": sys.version.split()[0], "system": platform.system()},
        "settings": {
            "world_seeds": list(WORLDS),
            "names": Names.HELD_OUT.value,
            "entities": ENTITIES,
            "questions_per_world": QUESTIONS,
            "question_seed": QUESTION_SEED,
            "lists": {shown.name: {"results": shown.results, "snippet_words": shown.snippet_words} for shown in LISTS},
            "interval": "Wilson, over questions",
        },
        "goal": GOAL,
        "goal_met": met,
        "results": rows,
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
