"""How good each engine's ranking is: recall@10 where the right pages are known. Short worlds, all engines, the same queries.

Known item: a page of the generated encyclopedia by its four rarest words, by its title with words of one of its sentences, and,
which is hard, by four of its words drawn blindly without the title's.
Multi-hop evidence: for each hop of a generated question the page that states the fact, by the teacher's own query; and the page
of the first hop by the whole question. Recorded lists: all pages of recorded trajectories in one world, and for each recorded
query the pages of its recorded list; an upper bound for how alike the worlds are, no measure of fidelity, and neither text nor
addresses are kept.
"""

import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from engines import ENGINES, OWN
from world_child import RESULTS
from world_stages import Log, Plan, documents

from sanderling.data.importing import open_trajectories
from sanderling.evaluate.statistics import bootstrap_interval, mean_interval
from sanderling.synth.chains import Path as Chain
from sanderling.synth.chains import chain_questions
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Page, answered
from sanderling.world.encyclopedia import Encyclopedia, Site, generate_encyclopedia, url_of
from sanderling.world.local import LocalWorld
from sanderling.world.recorded import pages_from_trajectories, recorded_calls
from sanderling.world.text import STOP_WORDS, sentences, words

HOPS = {1: 1.0, 2: 1.0, 3: 1.0}


@dataclass(frozen=True)
class Case:
    """A query and the pages it should find."""

    query: str
    right: frozenset[str]


@dataclass(frozen=True)
class Task:
    """Cases over one set of pages."""

    name: str
    cases: tuple[Case, ...]


def encyclopedia_tasks(world: Encyclopedia, count: int, seed: int) -> list[Task]:
    """Known items and evidence."""
    pages = [item.page for item in world.pages]
    rng = random.Random(f"quality {seed}")
    chosen = rng.sample(pages, min(count, len(pages)))
    holders = Counter(term for page in pages for term in set(words(page.text)))
    questions = chain_questions(world, count, seed, HOPS)
    hops = [case for question in questions for case in _hops(world, Chain.of(question))]
    first = [Case(q.text, _hops(world, Chain.of(q))[0].right) for q in questions]
    return [
        Task("known item, its rarest words", tuple(_by_rarest(page, holders) for page in chosen)),
        Task("known item, title and words of a fact", tuple(_by_fact(page, rng) for page in chosen)),
        Task("known item, four of its words drawn blindly", tuple(_by_chance(page, rng) for page in chosen)),
        Task("evidence of each hop, the teacher's query", tuple(hops)),
        Task("evidence of the first hop, the whole question", tuple(first)),
    ]


def _own_words(page: Page) -> list[str]:
    """What the text says beside the title, without stop words."""
    known = {*words(page.title), *STOP_WORDS}
    return [term for term in dict.fromkeys(words(page.text)) if term not in known]


def _by_rarest(page: Page, holders: Counter[str]) -> Case:
    rarest = sorted(_own_words(page), key=lambda term: (holders[term], term))[:4]
    return Case(" ".join(rarest), _one(page.url))


def _by_chance(page: Page, rng: random.Random) -> Case:
    own = _own_words(page)
    return Case(" ".join(rng.sample(own, min(4, len(own)))), _one(page.url))


def _by_fact(page: Page, rng: random.Random) -> Case:
    said = [term for term in dict.fromkeys(words(rng.choice(sentences(page.text)))) if term not in STOP_WORDS]
    return Case(" ".join([page.title, *rng.sample(said, min(3, len(said)))]), _one(page.url))


def _hops(world: Encyclopedia, chain: Chain) -> list[Case]:
    at = [chain.start, *chain.objects[:-1]]
    entities = [world.facts.entities[number] for number in at if isinstance(number, int)]
    return [Case(f"{e.name} {e.occupation}".strip(), _one(url_of(Site.ATLAS, e.title))) for e in entities]


def _one(url: str) -> frozenset[str]:
    return frozenset([canonical_url(url)])


def recorded_task(directory: Path) -> tuple[list[Page], Task]:
    """All pages of recorded trajectories, and their queries that had results."""
    trajectories = tuple(open_trajectories(directory))
    pages, _ = pages_from_trajectories(trajectories)
    searches = recorded_calls(trajectories).searches
    cases = [Case(s.query, frozenset(canonical_url(hit.url) for hit in s.hits[:RESULTS])) for s in searches if s.hits]
    return list(pages), Task("recorded lists", tuple(dict.fromkeys(cases)))


def scores(world: LocalWorld, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Recall@10 and the reciprocal rank of the first right page (0: not among ten), for each case."""
    recalls, reciprocal = [], []
    for case in task.cases:
        urls = [canonical_url(hit.url) for hit in answered(world.search(case.query, limit=RESULTS)).hits]
        recalls.append(len(case.right & set(urls)) / len(case.right))
        reciprocal.append(next((1 / rank for rank, url in enumerate(urls, 1) if url in case.right), 0.0))
    return np.array(recalls), np.array(reciprocal)


def quality_stage(plan: Plan, recorded: Path | None, log: Log) -> dict[str, Any]:
    """Recall@10 of every engine on every task, with intervals, and the paired difference to the world's own."""
    encyclopedia = generate_encyclopedia(plan.entities, plan.seed)
    sets = [([item.page for item in encyclopedia.pages], encyclopedia_tasks(encyclopedia, plan.cases, plan.seed))]
    if recorded is None:
        log("recorded lists are skipped: name their directory with --recorded")
    else:
        pages, task = recorded_task(recorded)
        sets.append((pages, [task]))
    return {"rows": [row for pages, tasks in sets for row in _measured(pages, tasks, plan.seed, log)]}


def _measured(pages: Sequence[Page], tasks: Sequence[Task], seed: int, log: Log) -> list[dict[str, Any]]:
    world = LocalWorld.in_memory(pages, name="quality")
    held = list(world.all_pages())
    rows, ours = [], [scores(world, task) for task in tasks]
    for name in (OWN, *ENGINES):
        if name != OWN and ENGINES[name].missing():
            continue
        log(f"quality of {name} over {len(held):,} pages")
        with tempfile.TemporaryDirectory() as folder:
            asked = world
            if name != OWN:
                ENGINES[name].build(Path(folder), documents(held))
                asked = world.with_ranker(ENGINES[name].open(Path(folder)))
            for task, (own, own_rank) in zip(tasks, ours, strict=True):
                began = time.perf_counter()
                values, ranks = scores(asked, task)
                milliseconds = (time.perf_counter() - began) / len(values) * 1e3
                row = {"task": task.name, "engine": name, "pages": len(held), "n": len(values), "mean_ms": milliseconds}
                for measure, mine, theirs in (("recall", own, values), ("rank", own_rank, ranks)):
                    row[measure] = float(theirs.mean())
                    row[f"{measure}_interval"] = list(mean_interval(theirs, seed=seed))
                    row[f"{measure}_less"] = float((mine - theirs).mean())
                    row[f"{measure}_less_interval"] = list(bootstrap_interval(mine - theirs, seed=seed))
                rows.append(row)
    return rows
