"""Questions to real documentation: whether the page is found and the passage shown that answers, and what agents make of it.

    OMP_NUM_THREADS=1 python benchmarks/documents.py FOLDER [--embedder benchmarks/world_minilm.py:embed]
    OMP_NUM_THREADS=1 python benchmarks/documents.py FOLDER --model 'http://host:port/v1#model' --work runs/documents

FOLDER holds git-doc, postgresql-doc-15 and python3.11-doc unpacked, as for `world_pages`; other packages beside them make it
harder. Fifty questions (``documents/questions.jsonl``) were written by reading pages, before anything was searched for: half
in other words than the page's, ten that need two pages, five that no page answers. Each names the passages that prove its
answer; first it is checked that they stand there. A folder becomes a world as under ``ask --docs``, and agents run in the one
loop, so a model named with ``--model`` is measured as the scripted ones are.

An answer is right if it has every part of an accepted one (``5432 & 9418``: both), of a question without an answer if it says
so. Intervals are drawn over questions.
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from rich.console import Console
from world_pages import K, Search, fts5, packages

import sanderling
from sanderling.agent.opening import AgentConfig, opened_agent
from sanderling.core.profiles import Profile, get_profile
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Message, Role
from sanderling.data.questions import read_questions
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.run import evaluate_async
from sanderling.evaluate.statistics import mean_interval, paired_difference
from sanderling.judge.citations import cite, passages_of
from sanderling.judge.rules import RuleJudge, contains
from sanderling.judge.support import Support
from sanderling.policy.contract import Reply, SampleKey, ScriptedPolicy
from sanderling.runs.files import replace_file
from sanderling.runs.progress import Report, machine
from sanderling.world.contract import Page, answered
from sanderling.world.disk.dense import embed_world, ranked_world, settings_for
from sanderling.world.disk.documents import documents_in, documents_world
from sanderling.world.disk.embedders import open_embedder
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.store import open_world
from sanderling.world.local import LocalWorld
from sanderling.world.text import content_terms, plain, sentences, words

QUESTIONS = Path(__file__).parent / "documents" / "questions.jsonl"
RESULT = Path(__file__).parent / "results" / "documents.json"
DEPTHS, READ, ABSENT = (1, 3, K), 3, "absent"
LEAST = 0.5  # of the weight of the question's words must stand in a passage that a script answers from
GROUPS: dict[str, Callable[[Question], bool]] = {
    "all": lambda one: True,
    "in the page's words": lambda one: one.meta["wording"] == "page",
    "in other words": lambda one: one.meta["wording"] == "own",
    "of two pages": lambda one: one.meta["kind"] == "two pages",
}
_LISTED = re.compile(r"^- .*\n  (\S+)\n  (.*)$", re.MULTILINE)
_NUMBER = re.compile(r"^\[(\d+)\] ", re.MULTILINE)


def every_part(answer: str, accepted: str) -> float:
    """1 when each part of the accepted answer stands in the answer."""
    return float(all(contains(answer, part) for part in accepted.split(" & ")))


JUDGE = RuleJudge("contains every part", every_part)


# Pages and passages -------------------------------------------------------------------------------------------------------


def facts(question: Question) -> list[list[tuple[str, str]]]:
    """What an answer needs, each by the pages that say it, the first of which was read, and their passages."""
    return [[(one["page"], one["passage"]) for one in fact] for fact in question.meta["evidence"]]


def place(url: str) -> str:
    """A page as questions name it: its path in the folder."""
    return unquote(url).partition("//")[2].partition("/")[2]


def stands(passage: str, text: str) -> bool:
    """Whether a passage's words stand in a text, in order."""
    return f" {' '.join(words(plain(passage)))} " in f" {' '.join(words(plain(text)))} "


def check_passages(questions: Sequence[Question], texts: dict[str, str]) -> None:
    """Leave where a page is not there or does not say what a question has from it."""
    named = {(one.id, *pair) for one in questions for fact in facts(one) for pair in fact}
    wrong = [f"{id}: {page}: {passage}" for id, page, passage in sorted(named) if not stands(passage, texts.get(page, ""))]
    if wrong:
        sys.exit("\n".join(["These passages do not stand on their pages: give the folder whose pages they are from.", *wrong]))


def found_at(ranked: Sequence[str], question: Question) -> list[int]:
    """The rank from 0 on at which each fact's page is found, by the best of its pages; K: not among the first K."""
    return [min([ranked.index(page) for page, _ in fact if page in ranked], default=K) for fact in facts(question)]


# Agents -------------------------------------------------------------------------------------------------------------------


def called(name: str, **arguments: Any) -> str:
    """A turn that calls a tool."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def searching(profile: Profile, after: Callable[[str, str, int], str]) -> Reply:
    """A script that searches for the question as it is, then goes on by question, what it read last, and turn."""

    def reply(messages: Sequence[Message], key: SampleKey) -> str:
        question = next(one.content for one in messages if one.role is Role.USER)
        if key.turn == 0:
            return called(profile.tools.search, **{profile.tools.search_query: [question]})
        return after(question, messages[-1].content, key.turn)

    return reply


def first_snippet(question: str, read: str, turn: int) -> str:
    """Retrieval alone: what the first result shows."""
    listed = _LISTED.search(read)
    return f"<answer>{listed[2] if listed else 'Not found.'}</answer>"


def reading(profile: Profile, *, whole: bool) -> Callable[[str, str, int], str]:
    """A script that visits the first results, and answers with the passage that has most of the question, or its sentence."""

    def after(question: str, read: str, turn: int) -> str:
        urls = [listed[1] for listed in _LISTED.finditer(read)][:READ]
        if turn == 1 and urls:
            return called(profile.tools.visit, **{profile.tools.visit_url: urls, profile.tools.visit_goal: question})
        return f"<answer>{answer_from(question, list(read_passages(read)), whole)}</answer>"

    return after


def read_passages(read: str) -> Iterator[str]:
    """The numbered passages of a visit, from 1 on."""
    begins: list[int] = []
    for found in _NUMBER.finditer(read):
        if int(found[1]) == len(begins) + 1:  # else it is a note of the page
            begins.append(found.end())
    yield from (read[begin:].partition("\n\n")[0] for begin in begins)


def answer_from(question: str, passages: Sequence[str], whole: bool) -> str:
    """The best passage, or the best sentence of it, with its number; by the question's words, the rarer the heavier."""
    bags = [set(words(passage)) for passage in passages]
    weights = {term: np.log1p(len(bags) / (1 + sum(term in bag for bag in bags))) for term in content_terms(question, 64)}

    def weight(text: str) -> float:
        return sum(weights[term] for term in weights.keys() & set(words(text)))

    best = max(range(len(passages)), key=lambda at: weight(passages[at]), default=None)
    if best is None or weight(passages[best]) < LEAST * sum(weights.values()):
        return "Not found."
    said = [sentence for line in plain(passages[best]).splitlines() for sentence in sentences(line)]
    return "\n".join(f"{sentence} [{best + 1}]" for sentence in (said if whole else [max(said, key=weight)]))


async def attempts(
    config: AgentConfig, questions: Sequence[Question], policy: ScriptedPolicy | None, work: Path
) -> list[Trajectory]:
    """An attempt at each question, in the one loop, with its verdict in ``work``; a run that was killed goes on."""
    report = Report(Console(stderr=True))
    async with opened_agent(config, policy=policy) as agent:
        with report.task(agent.policy.name, len(questions)) as advance:
            done: set[str] = set()

            def watch(episodes: Sequence[Any], note: str) -> None:
                new = {episode.question for episode in episodes} - done
                done.update(new)
                advance(len(new), note or None)

            await evaluate_async(agent, questions, JUDGE, work, concurrency=config.concurrency, watch=watch)
    return list(RunLog(work).records())


# Figures ------------------------------------------------------------------------------------------------------------------


def figure(values: Sequence[float], seed: int) -> dict[str, Any]:
    """A mean in percent with its 95% interval, and over how many questions it is; nothing over none."""
    known = [100 * value for value in values if np.isfinite(value)]
    low_high = mean_interval(values, seed=seed)
    shown = [np.mean(known), *(100 * end for end in low_high)] if known else []
    return {"n": len(known), "percent": [round(float(x), 1) for x in shown]}


def searches_of(directory: Path, world: LocalWorld, pages: Sequence[Page], embedder: str) -> dict[str, Search]:
    """What is compared, ours first: from a question to the numbers of pages."""
    numbers = {page.url: number for number, page in enumerate(pages)}

    def found_by(ranked: LocalWorld) -> Search:
        return lambda query: [numbers[hit.url] for hit in answered(ranked.search(query, limit=K)).hits]

    searches = {"lexical": found_by(world), "FTS5, all words": fts5(pages, " AND "), "FTS5, any word": fts5(pages, " OR ")}
    if embedder:
        opened, done = open_embedder(embedder), 0
        with Report(Console(stderr=True)).task("pages embedded", len(pages)) as advance:

            def embedded(number: int) -> None:
                nonlocal done
                advance(number - done)
                done = number

            embed_world(directory, world, opened, settings_for(opened), spec=embedder, progress=embedded)
        searches |= {
            mode.value: found_by(ranked_world(directory, world, mode)) for mode in (SearchMode.DENSE, SearchMode.HYBRID)
        }
    return searches


def found_rows(ranks: dict[str, list[list[int]]], questions: Sequence[Question], seed: int) -> Iterator[dict[str, Any]]:
    """How often a right page, and every page that is needed, is among the first results; ours paired with every other."""
    for group, belongs in GROUPS.items():
        chosen = [at for at, one in enumerate(questions) if belongs(one)]
        ours = next(iter(ranks.values()))
        for name, found in ranks.items() if chosen else ():
            row: dict[str, Any] = {"questions": group, "search": name}
            for depth in DEPTHS:
                here, there = ([min(ranks_of[at]) < depth for at in chosen] for ranks_of in (ours, found))
                paired = paired_difference(here, there, seed=seed)
                more = [round(100 * value, 1) for value in (paired.difference, *paired.interval)]
                row[f"a right page in {depth}"] = figure(there, seed) | {"lexical_more": more, "p": round(paired.p_value, 4)}
            yield row | {f"every page in {K}": figure([max(found[at]) < K for at in chosen], seed)}


def shown_rows(
    world: LocalWorld, addresses: dict[str, str], questions: Sequence[Question], most: int, seed: int
) -> dict[str, Any]:
    """How often the passage is shown when its page is visited, for the question and from the top; of long pages apart."""
    values: dict[str, list[float]] = {}
    hidden: list[str] = []
    for one in questions:
        seen: dict[str, list[bool]] = {}
        for page, passage in (fact[0] for fact in facts(one)):
            url = addresses[page]
            for goal, name in ((one.text, "for the question"), ("", "from the top")):
                reply = answered(world.visit(url, goal, max_words=most))
                is_shown = stands(passage, reply.text)
                for kind in ("", ", longer pages") if reply.parts > 1 else ("",):
                    seen.setdefault(f"{name}{kind}", []).append(is_shown)
                if goal and not is_shown:
                    hidden.append(f"{one.id}: {page}")
        for name, shown in seen.items():
            values.setdefault(name, []).append(sum(shown) / len(shown))
    return {name: figure(shown, seed) for name, shown in values.items()} | {"not shown": hidden}


def agent_rows(trajectories: Sequence[Trajectory], seed: int) -> dict[str, Any]:
    """What became of the questions: right by group, what was read, and how much of the answers is in it."""
    judged = {one.question.id: asyncio.run(JUDGE(one)).correct for one in trajectories}
    right = {id: np.nan if correct is None else float(correct) for id, correct in judged.items()}
    asked = [one for one in trajectories if one.question.meta["kind"] != ABSENT]
    row: dict[str, Any] = {
        f"right, {group}": figure([right[one.question.id] for one in asked if belongs(one.question)], seed)
        for group, belongs in GROUPS.items()
    }
    absent = [one for one in trajectories if one.question.meta["kind"] == ABSENT]
    row["right, without an answer"] = figure([right[one.question.id] for one in absent], seed)
    texts = {one.question.id: "\n\n".join(passage.text for passage in passages_of(one)) for one in asked}

    def proven(question: Question) -> bool:
        return all(any(stands(passage, texts[question.id]) for _, passage in fact) for fact in facts(question))

    row["every proof was read"] = figure([proven(one.question) for one in asked], seed)
    supported, sentences_checked = list[float](), 0
    for one in trajectories:
        cited = cite(one)
        checked = 0 if cited is None else sum(cited.count(support) for support in Support)
        sentences_checked += checked
        supported.append(cited.count(Support.SUPPORTED) / checked if cited is not None and checked else np.nan)
    row["sentences that are supported"] = figure(supported, seed) | {"sentences": sentences_checked}
    row["unscored"] = sum(correct is None for correct in judged.values())
    row["wrong"] = [id for id, correct in judged.items() if not correct]
    return row


def main() -> None:
    """Make the world, check the questions, ask, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--embedder", default="", help="also dense and hybrid search, by its vectors")
    parser.add_argument("--model", default="", help="a model that is asked as well, as agents' models are named")
    parser.add_argument("--work", type=Path, default=Path("runs/documents"), help="the model's attempts are kept here")
    parser.add_argument("--questions", type=Path, default=QUESTIONS)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--seed", type=int, default=11)
    given = parser.parse_args()
    questions = read_questions(given.questions)
    print(f"Reading {given.folder}, once …", flush=True)
    directory = documents_world(documents_in([given.folder])[0], notice=lambda line: print(line, flush=True))
    world = open_world(directory)
    pages = list(world.all_pages())
    places = [place(page.url) for page in pages]
    check_passages(questions, {name: page.text for name, page in zip(places, pages, strict=True)})
    answerable = [one for one in questions if one.meta["kind"] != ABSENT]
    addresses = {name: page.url for name, page in zip(places, pages, strict=True)}
    profile = get_profile("general")
    print(f"{len(pages):,} pages, {len(questions)} questions. Searching …", flush=True)
    searches = searches_of(directory, world, pages, given.embedder)
    ranks = {
        name: [found_at([places[number] for number in search(one.text)], one) for one in answerable]
        for name, search in searches.items()
    }
    record: dict[str, Any] = {
        "command": "OMP_NUM_THREADS=1 python benchmarks/documents.py FOLDER"
        + (f" --embedder {given.embedder}" if given.embedder else ""),
        "version": sanderling.__version__,
        "machine": machine(),
        "date": date.today().isoformat(),
        "packages": packages(given.folder),
        "pages": len(pages),
        "found": list(found_rows(ranks, answerable, given.seed)),
        "not found": [one.id for one, at in zip(answerable, ranks["lexical"], strict=True) if min(at) >= K],
        "passage shown": shown_rows(world, addresses, answerable, profile.visit_words, given.seed),
        "agents": {},
    }
    config = AgentConfig(docs=(given.folder,), profile="general", concurrency=4)
    scripts = {
        "first snippet": first_snippet,
        "best sentence of three pages": reading(profile, whole=False),
        "best passage of three pages": reading(profile, whole=True),
    }
    for name, after in scripts.items():
        with tempfile.TemporaryDirectory() as work:
            policy = ScriptedPolicy(searching(profile, after), name)
            done = asyncio.run(attempts(config, questions, policy, Path(work)))
        record["agents"][name] = agent_rows(done, given.seed)
    if given.model:
        asked = config.model_copy(update={"model": given.model})
        record["command"] += " --model URL#MODEL"
        done = asyncio.run(attempts(asked, questions, None, given.work))
        record["agents"][given.model.rpartition("#")[2]] = agent_rows(done, given.seed)
    replace_file(given.out, json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
