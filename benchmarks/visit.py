"""What a visit keeps of a long page, and what it costs: the model-free extract against the first words of the page.

Long pages are made of a generated encyclopedia, one question for each: the page of the entity asked about stands at a random
place among others of its world. Its sentences stand as one paragraph, as paragraphs of their own (most do not name their
subject), the same under headings, with every link written out, or as rows of tables. Measured is the share of visits that show
the sentence (or row) with the answer; for tables also whether the table's head is there with it. With ``--against DIRECTORY``
also recorded pages: the evidence that others' readers chose for a goal is put among that of other visits, and the share of its
sentences that come back is counted. Holds no recorded text. Costs are CPU time of one visit, medians over goals.

Run: ``OMP_NUM_THREADS=1 python benchmarks/visit.py``; writes ``benchmarks/results/visit.json``.
"""

import argparse
import datetime
import itertools
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sanderling.core.observations import read_observation
from sanderling.core.record import NodeKind
from sanderling.data.importing import open_trajectories
from sanderling.evaluate.statistics import mean_interval, wilson_interval
from sanderling.runs.files import replace_file
from sanderling.runs.progress import command_line, machine
from sanderling.synth.chains import Path as AnswerPath
from sanderling.synth.chains import chain_questions
from sanderling.world.contract import Page, answered
from sanderling.world.cutting import Prices, as_read
from sanderling.world.encyclopedia import BY_SUBJECT, Encyclopedia, EncyclopediaPage, Site, generate_encyclopedia, url_of
from sanderling.world.local import LocalWorld
from sanderling.world.passages import extract
from sanderling.world.text import sentences

ENTITIES, SEED, QUESTIONS = 600, 41, 200
PAGE_WORDS = (2_000, 10_000)
BUDGETS = (200, 500, 1_000)
RECORDED_PAGE_WORDS, LONGEST_EVIDENCE = 5_000, 150
LATENCY_WORDS, LATENCY_GOALS = (200, 2_000, 20_000, 100_000), 15
OUT = Path(__file__).parent / "results" / "visit.json"


@dataclass(frozen=True)
class Case:
    """A long page, what is asked of it, and what a visit has to show."""

    text: str
    goal: str
    needed: str
    head: str = ""


@dataclass(frozen=True)
class Kept:
    """One row of the result."""

    pages: str
    page_words: int
    budget: int
    n: int
    extract: float
    interval: tuple[float, float]
    first_words: float
    head: float | None = None
    """Of the rows that were shown, the share shown with their table's head."""


Layout = Callable[[EncyclopediaPage, Encyclopedia], str]


def paragraph(item: EncyclopediaPage, _: Encyclopedia) -> str:
    """All in one paragraph."""
    return item.page.text


def lines(item: EncyclopediaPage, _: Encyclopedia) -> str:
    """Each sentence on its own."""
    return "\n\n".join(sentences(item.page.text))


def sections(item: EncyclopediaPage, world: Encyclopedia) -> str:
    """Each sentence on its own, below a heading that names the subject."""
    return f"## {item.page.title}\n\n{lines(item, world)}"


def linked(item: EncyclopediaPage, world: Encyclopedia) -> str:
    """One paragraph below a heading, with the links of its sentences."""
    text = f"## {item.page.title}\n\n{item.page.text}"
    for name, value in item.claims.items():
        if isinstance(value, int):
            mention = world.facts.object_text(value)
            said = item.sentences[name]
            link = f"[{mention}]({url_of(Site.ATLAS, world.facts.entities[value].title)})"
            text = text.replace(said, said.replace(mention, link))
    return text


LAYOUTS: dict[str, Layout] = {
    "one paragraph each": paragraph,
    "paragraphs without their subject": lines,
    "the same under headings": sections,
    "linked": linked,
}


def cases(world: Encyclopedia, layout: Layout, words: int) -> Iterator[Case]:
    """Questions of one hop, each with a page of its own."""
    atlas = {item.entity: item for item in world.pages if item.site is Site.ATLAS}
    shown = {entity: layout(item, world) for entity, item in atlas.items()}
    for number, question in enumerate(chain_questions(world, QUESTIONS, SEED, {1: 1.0})):
        path = AnswerPath.of(question)
        rng = random.Random(f"{SEED}:{number}")
        others = [entity for entity in shown if entity != path.start]
        rng.shuffle(others)
        chosen, size = [path.start], 0
        for entity in others:
            size += len(as_read(shown[entity]).split())
            if size > words:
                break
            chosen.append(entity)
        rng.shuffle(chosen)
        needed = atlas[path.start].sentences[path.relations[0]]
        yield Case("\n\n".join(shown[entity] for entity in chosen), question.text, needed)


def table_cases(world: Encyclopedia, words: int) -> Iterator[Case]:
    """The same facts as tables, one for each kind of entity."""
    facts = world.facts
    for number, question in enumerate(chain_questions(world, QUESTIONS, SEED, {1: 1.0})):
        start = AnswerPath.of(question).start
        rng = random.Random(f"{SEED}:{number}")
        tables: list[str] = []
        needed = head = ""
        for kind, relations in BY_SUBJECT.items():
            entities = [entity for entity in facts.entities if entity.kind is kind]
            rng.shuffle(entities)
            kept = entities[: words // len(BY_SUBJECT) // (2 * len(relations) + 1)]
            if facts.entities[start].kind is kind and facts.entities[start] not in kept:
                kept.insert(rng.randrange(len(kept) + 1), facts.entities[start])
            rows = [
                [entity.title, *(facts.object_text(facts.objects[entity.id, r.name]) for r in relations)] for entity in kept
            ]
            rendered = ["| " + " | ".join(row) + " |" for row in rows]
            first = "| " + " | ".join(["name", *(relation.name for relation in relations)]) + " |"
            if facts.entities[start] in kept:
                needed, head = rendered[kept.index(facts.entities[start])], first
            tables.append("\n".join([f"## {kind.value}\n", first, "|" + "---|" * (len(relations) + 1), *rendered]))
        yield Case("\n\n".join(tables), question.text, needed, head)


def first_words(text: str, most: int) -> str:
    """What a cut at a number of words leaves."""
    return " ".join(text.split()[:most])


def measured(name: str, words: int, found: Sequence[Case]) -> Iterator[Kept]:
    """The row of each budget."""
    for budget in BUDGETS:
        shown = [as_read(extract(case.text, case.goal, budget).text) for case in found]
        hits = [case.needed in text for case, text in zip(found, shown, strict=True)]
        firsts = sum(case.needed in as_read(first_words(case.text, budget)) for case in found)
        heads = [case.head in text for case, text, hit in zip(found, shown, hits, strict=True) if hit and case.head]
        yield Kept(
            name, words, budget, len(found), sum(hits) / len(hits), wilson_interval(sum(hits), len(hits)), firsts / len(hits),
            sum(heads) / len(heads) if heads else None,
        )  # fmt: skip


def recorded(directory: Path) -> Iterator[Kept]:
    """Evidence of recorded visits among that of others."""
    evidence: dict[str, str] = {}
    for trajectory in open_trajectories(directory):
        for node in trajectory.nodes:
            if node.kind is NodeKind.OBSERVATION:
                for found in read_observation(node.text).extracts:
                    if found.goal and not found.dead and found.evidence.strip():
                        evidence.setdefault(found.evidence.strip(), found.goal)
    texts = sorted(evidence)
    asked = [text for text in texts if 15 <= Prices(text).whole <= LONGEST_EVIDENCE]
    for budget in BUDGETS:
        ours: list[float] = []
        firsts: list[float] = []
        for number, text in enumerate(asked):
            rng = random.Random(f"{SEED}:{number}")
            page = _among(text, texts, rng)
            wanted = [" ".join(as_read(sentence).split()) for line in text.splitlines() for sentence in sentences(line)]
            for shares, shown in ((ours, extract(page, evidence[text], budget).text), (firsts, first_words(page, budget))):
                shown = " ".join(as_read(shown).split())
                shares.append(sum(sentence in shown for sentence in wanted) / len(wanted))
        interval = mean_interval(ours, seed=SEED)
        yield Kept(
            "recorded evidence (share of its sentences)", RECORDED_PAGE_WORDS, budget, len(asked), statistics.mean(ours),
            (interval[0], interval[1]), statistics.mean(firsts),
        )  # fmt: skip


def _among(text: str, texts: Sequence[str], rng: random.Random) -> str:
    """A page of evidence, this one at a random place."""
    chosen, size = [text], 0
    for other in rng.sample(texts, len(texts)):
        if other != text and size < RECORDED_PAGE_WORDS:
            chosen.append(other)
            size += Prices(other).whole
    rng.shuffle(chosen)
    return "\n\n".join(chosen)


def latencies(world: Encyclopedia) -> Iterator[dict[str, object]]:
    """CPU milliseconds of a visit of 2,000 words, by length of page: for a goal, and of its second part."""
    goals = [question.text for question in chain_questions(world, LATENCY_GOALS, SEED, {1: 1.0})]
    for name, layout in (("plain", sections), ("linked", linked)):
        blocks = [layout(item, world) for item in world.pages]
        for words in LATENCY_WORDS:
            chosen, size = [], 0
            for block in itertools.cycle(blocks):
                if size >= words:
                    break
                chosen.append(block)
                size += len(block.split())
            text = "\n\n".join(chosen)
            local = LocalWorld.in_memory([Page(url="https://w.example/x", title="X", text=text)], name="x")
            row: dict[str, object] = {"pages": name, "words": words}
            for call, url in (("goal", "https://w.example/x"), ("part", "https://w.example/x#page=2")):
                times: list[float] = []
                for goal in goals:
                    began = time.thread_time()
                    answered(local.visit(url, goal, max_words=2_000))
                    times.append(time.thread_time() - began)
                row[f"{call}_first_ms"] = round(times[0] * 1e3, 2)
                row[f"{call}_p50_ms"] = round(statistics.median(times) * 1e3, 2)
            yield row


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="directory of recorded trajectories")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    world = generate_encyclopedia(ENTITIES, SEED)
    rows: list[Kept] = []
    for words in PAGE_WORDS:
        for name, layout in LAYOUTS.items():
            rows += measured(name, words, list(cases(world, layout, words)))
        rows += measured("table rows", words, list(table_cases(world, words)))
    if options.against:
        rows += recorded(options.against)
    for row in rows:
        head = "" if row.head is None else f"  with head {row.head:.2f}"
        print(
            f"{row.pages:45} {row.page_words:7,} words, budget {row.budget:5,}: extract {row.extract:.3f} "
            f"({row.interval[0]:.3f}-{row.interval[1]:.3f}), first words {row.first_words:.3f}, n = {row.n}{head}"
        )
    speeds = list(latencies(world))
    for speed in speeds:
        print(speed)
    arguments = ["--against", "DIRECTORY"] if options.against else []
    report = {
        "command": command_line(["benchmarks/visit.py", *arguments]), "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "seed": SEED, "entities": ENTITIES, "kept": [asdict(row) for row in rows], "cpu": speeds,
    }  # fmt: skip
    replace_file(options.out, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
