"""Mistakes that published evaluation programs were found to make, and that no other test here would notice being made."""

import datetime
import json
from collections.abc import Sequence
from pathlib import Path

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.core.profiles import get_profile
from sanderling.core.types import FixedClock, Message
from sanderling.data.questions import write_questions
from sanderling.evaluate.benchmark_files import load_benchmark
from sanderling.evaluate.benchmark_rows import Options
from sanderling.evaluate.benchmarks import get_benchmark
from sanderling.evaluate.judging import Judges
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import EvalConfig, prepare, run_evaluation
from sanderling.judge.rules import RuleJudge, exact_match
from sanderling.policy.contract import SampleKey, ScriptedPolicy
from sanderling.synth.chains import chain_questions
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page
from sanderling.world.disk.store import build_world, open_world
from sanderling.world.encyclopedia import generate_encyclopedia
from sanderling.world.guard import Wording, as_words
from sanderling.world.local import LocalWorld


async def test_equal_words_under_two_ids_stay_apart_to_the_last_figure(tmp_path: Path) -> None:
    """Others match attempts by the question's words, and one of two equal questions overwrites the other."""
    rows = [{"id": "1", "question": "Which?", "answer": "x"}, {"id": "2", "question": "Which?", "answer": "y"}]
    (tmp_path / "two.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    own = get_benchmark("jsonl")
    about, asked = prepare(load_benchmark(own, tmp_path / "two.jsonl", Options()), EvalConfig())
    profile = get_profile("tiny")

    def reply(messages: Sequence[Message], key: SampleKey) -> str:
        return f"<think>\nso\n</think>\n<answer>{'x' if key.attempt else 'y'}</answer>"

    world = LocalWorld.in_memory([Page(url="https://w.example/", title="t", text="t")], name="w")
    clock = FixedClock(datetime.date(2026, 1, 1))
    agent = Agent(ScriptedPolicy(reply), world_tools(world, profile), profile, clock, "w", "f")
    directory = RunLog(tmp_path / "run")
    with directory.exclusive():
        begun = directory.begin(about, asked, 3, "c")
        with Journal(directory.root) as journal:
            judges = Judges(RuleJudge("exact", exact_match))
            await run_evaluation(directory, begun, asked, agent, judges, journal)
    counts = {one.id: (one.attempts, one.correct) for one in EvalResult.load(directory.result_file).questions}
    assert counts == {"jsonl/1": (3, 2), "jsonl/2": (3, 1)}


def test_no_page_of_a_world_asks_its_own_questions(tmp_path: Path) -> None:
    """And a file of questions beside the pages is no page."""
    made_up = generate_encyclopedia(80, 5)
    questions = chain_questions(made_up, 30, 0, {1: 0.4, 2: 0.3, 3: 0.3})
    pages = [item.page for item in made_up.pages]
    wordings = [wording for question in questions if (wording := Wording.of(question.text)).whole]
    assert len(wordings) > len(questions) / 2, "the others are too short to be anybody's"
    assert not any(wording.found_in(as_words(f"{page.title}\n{page.text}")) for wording in wordings for page in pages)
    build_world(tmp_path / "w", pages, name="w", source="encyclopedia")
    write_questions(tmp_path / "w" / "questions.jsonl", questions)
    world = open_world(tmp_path / "w")
    assert world.page_count == len(pages)
    for address in ("questions.jsonl", "file:questions.jsonl", f"{pages[0].url}/../questions.jsonl"):
        assert world.page(address) is None
