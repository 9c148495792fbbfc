"""How often the checker of citations is right: hand-written claims over real documentation and over documents of our own.

    OMP_NUM_THREADS=1 python benchmarks/citations.py PACKAGES [--embedder benchmarks/world_minilm.py:embed] [--judge MODEL]

PACKAGES holds Debian's python3.11-doc, postgresql-doc-15, git-doc and debian-policy unpacked (``dpkg -x``). Claims were written
and judged by reading the pages, by somebody who did not know the checker, and so as to be hard: most are in other words than
the page, most false ones are made of words that stand there. There are true and false quotations, numbers and names, plain
statements, paraphrases, halves of which one part is there, and claims on what no page says. The claims of ``answers.jsonl`` are
of the same kinds, but are sentences as an assistant's answer has them, and its usual mistakes. The checker was made with the
others (``--seen``: their figures, and every mistake); the figures of record are of these 240, over pages of their own, when the
checker met them for the first time; since then they are seen, too, and the next figures of record need other claims. Beside it
in the same run, with thresholds fitted to the seen ones: the share of a claim's words in the best passage, the cosine of an
embedding, and with ``--judge http://host:port/v1#model`` a model that is asked about the passages that share most words with
the claim. Of a run with a judge only its row is added to the file, and of one with ``--time`` only the processor time of 100
sentences against 3,000 passages, as a long answer of ``ask`` has them, and of what is oddly long.
"""

import argparse
import asyncio
import json
import re
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from sanderling.core.types import Message, Role
from sanderling.evaluate.statistics import wilson_interval
from sanderling.judge.support import Support, support
from sanderling.policy.budget import Spending
from sanderling.policy.clients import opened_clients
from sanderling.runs.progress import machine
from sanderling.tools.world_tools import paragraphs
from sanderling.world.disk.embedders import Kind, open_embedder
from sanderling.world.sources.base import Skipped
from sanderling.world.sources.documents import FolderSource
from sanderling.world.text import content_terms, words

HERE = Path(__file__).parent / "citations"
FRESH = HERE / "answers.jsonl"
RESULT = Path(__file__).parent / "results" / "citations.json"
CHECKED = ("quote", "number", "name")
KINDS = (*CHECKED, "plain", "paraphrase", "half", "unread")
SHOWN = 12  # passages to a judge
ASKED_OF, READ = 100, 3_000  # sentences and passages of a long answer
ASKED = """Below are passages of one document and a sentence. Do the passages support the sentence?

supported: they say all of it, perhaps in other words, units or numbers that follow from theirs.
partly: they say a part of it, and the rest is not there or different.
not_found: they do not say it, or something else.

{passages}

Sentence: {claim}

Answer with one word: supported, partly or not_found."""
Checker = Callable[[dict[str, Any]], bool]  # whether the passages of a claim support it


def read_claims(packages: Path) -> list[dict[str, Any]]:
    """All claims, each with the passages of its document, their titles, and whether the checker was made with it."""
    files = sorted(HERE.glob("*.jsonl"))
    claims = [json.loads(line) | {"seen": file != FRESH} for file in files for line in file.read_text().splitlines()]
    known: dict[str, tuple[list[str], list[str]]] = {}
    for claim in claims:
        place = claim.get("path") or claim["document"]
        if place not in known:
            file = (packages / place if "path" in claim else HERE / "documents" / place).resolve()
            page = FolderSource(file.parent).read(file)
            assert not isinstance(page, Skipped), page
            passages = paragraphs(page.text)
            known[place] = passages, [page.title] * len(passages)
        claim["passages"], claim["titles"] = known[place]
    return claims


def rule(claim: dict[str, Any]) -> bool:
    """Ours."""
    return support(claim["claim"], claim["passages"], claim["titles"]).support is Support.SUPPORTED


def shared_words(claim: str, passages: Sequence[str]) -> float:
    """The largest share of the claim's telling words in one passage."""
    terms = set(content_terms(claim, 200))
    return max(len(terms & set(words(passage))) for passage in passages) / max(len(terms), 1)


def cosines(embed: Callable[[Sequence[str], Kind], Any]) -> Callable[[str, Sequence[str]], float]:
    """The largest cosine of the claim and a passage."""
    known: dict[int, Any] = {}

    def cosine(claim: str, passages: Sequence[str]) -> float:
        if id(passages) not in known:
            known[id(passages)] = embed(list(passages), Kind.DOCUMENT)
        return float(np.max(known[id(passages)] @ embed([claim], Kind.QUERY)[0]))

    return cosine


def fitted(score: Callable[[str, Sequence[str]], float], claims: Sequence[dict[str, Any]]) -> Checker:
    """A checker with the threshold that is right most often on the claims that were seen."""
    seen = [(score(one["claim"], one["passages"]), one["label"] == "supported") for one in claims if one["seen"]]
    best = max({value for value, _ in seen}, key=lambda least: sum((value >= least) is true for value, true in seen))
    return lambda claim: score(claim["claim"], claim["passages"]) >= best


def judged(spec: str, claims: Sequence[dict[str, Any]]) -> tuple[Checker, int]:
    """A model's verdicts on all claims, asked side by side; and how many replies say none of the words, and support nothing."""

    def prompt(one: dict[str, Any]) -> Message:
        terms = set(content_terms(one["claim"], 200))
        ranked = sorted(one["passages"], key=lambda passage: -len(terms & set(words(passage))))[:SHOWN]
        shown = "\n\n".join(passage for passage in one["passages"] if passage in ranked)
        return Message(role=Role.USER, content=ASKED.format(passages=shown, claim=one["claim"]))

    async def ask() -> list[str]:
        async with opened_clients([spec], (), Spending(None)) as (client,):
            replies = await asyncio.gather(*(client.ask([prompt(one)]) for one in claims))
        return [reply.text.lower() for reply in replies]

    found = [re.findall(r"\b(supported|partly|not_found)\b", reply) for reply in asyncio.run(ask())]
    said = {one["claim"]: verdicts[-1:] == [Support.SUPPORTED] for one, verdicts in zip(claims, found, strict=True)}
    return lambda claim: said[claim["claim"]], sum(not verdicts for verdicts in found)


def figures(said: Sequence[bool], claims: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Precision and recall of *supported*, with 95% intervals after Wilson."""
    true = [one["label"] == "supported" for one in claims]
    both = sum(a and b for a, b in zip(said, true, strict=True))
    found: dict[str, Any] = {"n": len(claims)}
    for name, total in (("precision", sum(said)), ("recall", sum(true))):
        low_high = wilson_interval(both, total) if total else None
        found[name] = None if low_high is None else [round(100 * x, 1) for x in (both / total, low_high.low, low_high.high)]
    return found


def rows_of(checker: Checker, claims: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """The figures of a checker by kinds of claims, and its processor time for one; printed, too."""
    began = time.process_time()
    said = [checker(one) for one in claims]
    rows: dict[str, Any] = {"ms": round(1_000 * (time.process_time() - began) / len(claims), 1)}
    groups = {"quotes, numbers, names": CHECKED, **{kind: (kind,) for kind in KINDS}, "all": KINDS}
    for group, kinds in groups.items():
        chosen = [place for place, one in enumerate(claims) if one["kind"] in kinds]
        if chosen:
            rows[group] = figures([said[place] for place in chosen], [claims[place] for place in chosen])
            print(f"{name:32} {group:24} {json.dumps(rows[group])}", flush=True)
    return rows


def timed(claims: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Processor seconds of the rule: for a long answer with all that was read, taken apart once, and for what is oddly long."""
    real = [one for one in claims if "path" in one]
    pages = {one["path"]: list(zip(one["passages"], one["titles"], strict=True)) for one in real}
    passages, titles = zip(*[pair for page in pages.values() for pair in page][:READ], strict=True)
    asked = [one["claim"] for one in real[:: len(real) // ASKED_OF][:ASKED_OF]]
    numbers = " ".join(f"word{n}x is {n}" for n in range(300))
    clauses = [f"Name{n} is {n} and word{n} has Other{n}" for n in range(240)]
    cases: dict[str, tuple[Sequence[str], Sequence[str], Sequence[str]]] = {
        f"{len(asked)} sentences, {len(passages):,} passages": (asked, passages, titles),
        "a sentence with 300 numbers": ([numbers], [numbers], ["Page"]),
        "a sentence with 240 clauses": ([", and ".join(clauses)], [". ".join(clauses)], ["Page"]),
        "a passage with 4,000 ranges": (["Velm won 7 to 5."], ["Velm won 7 to 5. " + "1 to 2 " * 4_000], ["Page"]),
    }
    spent: dict[str, Any] = {"machine": machine(), "date": date.today().isoformat()}
    for name, (sentences, read, of) in cases.items():
        began = time.process_time()
        for sentence in sentences:
            support(sentence, read, of)
        spent[name] = round(time.process_time() - began, 1)
    return spent


def main() -> None:
    """Check every claim by every checker, and print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=Path)
    parser.add_argument("--embedder", default="hashed")
    parser.add_argument("--judge", help="a model that judges beside the rule, as agents' models are named")
    parser.add_argument("--seen", action="store_true", help="figures of the claims that were seen, and every mistake")
    parser.add_argument("--time", action="store_true", help="how long the rule takes for a long answer")
    given = parser.parse_args()
    claims = read_claims(given.packages)
    if given.time:
        kept = json.loads(RESULT.read_text(encoding="utf-8")) | {"time": timed(claims)}
        print(kept["time"])
        RESULT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        return
    seen, fresh = ([one for one in claims if one["seen"] is is_seen] for is_seen in (True, False))
    rows = {"rule, claims that were seen": rows_of(rule, seen, "rule, claims that were seen")}
    if given.seen:
        for one in seen:
            found = support(one["claim"], one["passages"], one["titles"])
            if (found.support is Support.SUPPORTED) != (one["label"] == "supported"):
                print("WRONG", one["id"], one["kind"], one["label"], "->", found.support, found.missing, one["claim"])
                print("     ", one["why"], "|", found.text[:300])
        return
    embedder = open_embedder(given.embedder)
    checkers: dict[str, Checker] = {
        "rule": rule,
        "shared words": fitted(shared_words, claims),
        f"embedding {embedder.model}": fitted(cosines(embedder.embed), claims),
    }
    rows |= {name: rows_of(checker, fresh, name) for name, checker in checkers.items()}
    command = f"OMP_NUM_THREADS=1 python benchmarks/citations.py PACKAGES --embedder {given.embedder}"
    made: dict[str, Any] = {"command": command, "date": date.today().isoformat(), "machine": machine()}
    made |= {"seen": len(seen), "fresh": len(fresh)}
    if given.judge:
        name, began = f"judge {given.judge.rpartition('#')[2]}", time.monotonic()
        checker, silent = judged(given.judge, fresh)
        made |= {"command": f"{command} --judge URL#MODEL", "seconds": round(time.monotonic() - began), "no verdict": silent}
        kept = json.loads(RESULT.read_text(encoding="utf-8"))
        found = {group: row for group, row in rows_of(checker, fresh, name).items() if group != "ms"}
        rows, made = {**kept["rows"], name: made | found}, kept
    RESULT.write_text(json.dumps(made | {"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
