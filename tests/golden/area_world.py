"""Worlds: what builders make of their sources, and what search, visit, filters and faults answer over them.

Worlds are built by the command, and met through the library: fingerprints and counts of every build, the results of 200 queries
at several limits and under masks, visits with goals and page parts, near-duplicates, blocked addresses, the guard, growth by
`add`, faults, the live web over a transport of ours, and the pure functions that all of them share, on odd input.
"""
# ruff: noqa: E501

import asyncio
import contextlib
import dataclasses
import inspect
import io
import itertools
import json
import random
import sys
from pathlib import Path
from typing import Any

import httpx
import pypdf
from goldens import digest

from sanderling.cli.main import main
from sanderling.core.profiles import get_profile
from sanderling.tools.contract import ToolContext
from sanderling.tools.world_tools import world_tools
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Occasion
from sanderling.world.cutting import split_page
from sanderling.world.disk.building import build_world
from sanderling.world.disk.store import open_as_met, open_world, read_manifest
from sanderling.world.filters import MaskedWorld, filtered, without_links
from sanderling.world.guard import Blocklist, Guard, spots
from sanderling.world.sources.kinds import Gathering, open_source
from sanderling.world.web.config import LiveConfig
from sanderling.world.web.live import LiveWeb

SHOWN = ("title", "url", "snippet", "date", "score")
PROFILE = get_profile("dr-venus-4b")


def now(reply: Any) -> Any:
    """A reply, whether or not it is to be awaited."""
    if inspect.isawaitable(reply):

        async def awaited() -> Any:
            return await reply

        return asyncio.run(awaited())
    return reply


def search(world: Any, query: str, **options: Any) -> dict[str, Any]:
    """A list of results as plain JSON."""
    reply = now(world.search(query, **options))
    hits = [{name: getattr(hit, name) for name in SHOWN} for hit in reply.hits]
    return {"status": str(reply.status), "hits": hits, "seconds": reply.latency_s}


def visit(world: Any, url: str, goal: str = "", **options: Any) -> dict[str, Any]:
    """A page as plain JSON."""
    reply = now(world.visit(url, goal, **options))
    told = dataclasses.asdict(reply) | {"status": str(reply.status)}
    for later in ("moved", "date"):  # fields that came after these figures
        told.pop(later, None)
    return told


def run(*arguments: str | Path) -> None:
    """Run a command, silently."""
    before, sys.argv = sys.argv, ["sanderling", *map(str, arguments)]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main()
    except SystemExit as end:
        assert not end.code, said.getvalue()
    finally:
        sys.argv = before


def account(directory: Path, scratch: Path) -> dict[str, Any]:
    """What a world says of itself."""
    info = read_manifest(directory)
    groups = json.loads((directory / f"duplicates-{info.fingerprint[:12]}.json").read_text())["groups"]
    told = {
        "fingerprint": info.fingerprint[:24],
        "counts": info.counts.model_dump(),
        "source": info.source,
        "left out": [[each.name, each.documents, each.pages, each.skipped, each.examples] for each in info.accounts],
        "parts": [part.pages for part in info.parts],
        "duplicates": groups if len(groups) < 5 else [len(groups), digest(groups)],
        "pages": digest([page.model_dump() for page in open_world(directory).all_pages()]),
    }
    return json.loads(json.dumps(told).replace(str(scratch), "SCRATCH"))


LONG = "\n\n".join(
    f"## Section {n}\n\nThe quay of section {n} was built in {1700 + n} by Mason {n % 7} "
    f"([see](https://docs.example/part{n}.html \"more\")). " + f"It holds {n} boats, and {n * 3} nets hang there. " * (n % 9)
    + ("\n\n| boat | year | owner |\n|---|---|---|\n" + "\n".join(f"| Tern {n}-{k} | {1800 + k} | Orlo {k} |" for k in range(n)))
    for n in range(1, 31)
)  # fmt: skip
PROSE = "The lighthouse keepers of Orlo count every ship that passes the northern reef, and write its name into a book. " * 3
FILES = {
    "tide.html": "<title>Tide tables</title><meta name=date content=2019-04-02><nav><a href=/>home</a></nav><main><h1>Tide tables"
    f"</h1><p>High water comes twice a day. {PROSE}<a href='deep/notes.md'>notes</a> <a href='gone.html'>gone</a></p>"
    "<div style='display:none'><a href='hidden.html'>hidden words</a></div><table><tr><th>port</th><th>hour</th></tr><tr><td>Orlo"
    "</td><td>3</td></tr><tr><td>Nib</td><td>4</td></tr></table></main><script>alert('no')</script>",
    "copy.html": f"<title>Tables of tides</title><p>High water comes twice a day. {PROSE} notes gone</p>",
    "deep/notes.md": "---\ntitle: Notes of a keeper\ndate: 2021-07-01\n---\n# Notes\n\nThe *reef* is [charted](../tide.html) and"
    " ![drawn](map.png).\n\n```\ncode block\n```\n\n- one\n- two\n\n[ref]: https://elsewhere.example/x\n",
    "deep/same.md": "# Notes\n\nThe *reef* is [charted](../tide.html) and ![drawn](map.png).\n",
    "long.md": LONG,
    "list.txt": "Herring\nTern\nSanderling\n" + "\n".join(f"{n}: word{n % 13} https://list.example/{n}" for n in range(300)),
    "cjk.txt": "潮汐表\n\n北方灯台的看守人把每一艘船的名字写进书里。大潮每月两次。\n\n" + "海鸟越过大洋。" * 200,
    "thai.txt": "นกชายเลนบินข้ามมหาสมุทร " * 40 + "\n\nÅngström café naïve coöperate — “quoted” — ﬁne",
    "empty.html": "<html><body></body></html>",
    "noise.txt": "".join(chr(n % 32) for n in range(3000)),
    "hostile1.md": "# H\n\n" + "The first paragraph. " * 40 + "\n\na|b\n" + " " * 3000 + "x|\nc|d\n",
    "hostile2.md": "Second. " * 60 + "\n\n" + "[](a) " * 900 + "[ http://b.example " * 300 + "a" + "](c)" * 300,
    "hostile3.html": "<p>Third page "
    + "<div>" * 400
    + "deep"
    + "</div>" * 400
    + "<a href='javascript:x'>x</a><a href='//[bad'>y</a>",
    "aword.txt": "Long word " + "a" * 9000 + " end. " + "https://long.example/" + "b/" * 500,
}
JSON_LINES: list[Any] = [
    {"url": "https://p.example/flat", "title": "Flat", "text": "A flat record about herring.", "date": "2001", "links": ["https://p.example/2"]},
    {"id": "doc-2", "text": "Text of the metadata kind.", "metadata": {"title": "Meta", "url": "https://p.example/2"}},
    {"id": 3, "contents": '"A quoted title"\nThe passage says that Orlo lies north of Nib.'},
    {"docid": "4", "url": "https://p.example/4", "text": "---\ntitle: Fronted\ndate: 1999-01-02\n---\nWords below the front matter."},
    {"link": "https://p.example/5", "title": "Serper", "snippet": "Only a snippet of the reef."},
    {"url": "https://p.example/5/", "title": "Again", "text": "The same address once more."},
    {"url": "HTTP://P.example:80/a/../%66lat", "title": "Spelling", "text": "The same address in another spelling."},
    {"url": "https://p.example/links", "title": "Links", "text": "See [the quay](https://p.example/4), https://p.example/flat, "
     "www.p.example/flat, <https://p.example/2> and p.example/4.\n\n[1]: https://p.example/2\n\n<a href='https://p.example/4'>x</a> "
     "https://web.archive.org/web/2020/https://p.example/flat ![pic](https://p.example/2) [relative](flat)"},
    {"url": "https://quiz.example/1", "title": "Quiz", "text": "Which keeper of the northern lighthouse wrote forty odes to the tide "
     "before the great storm took his library? Orlo did."},
    {"url": "https://quiz.example/set", "title": "Set", "text": "tide odes keeper canary GUID 26b5c67b-86ad lighthouse"},
    {"url": "https://huggingface.co/datasets/owner/quiz", "title": "Rows", "text": "Rows of odes to the tide."},
    {"url": "https://p.example/blob", "title": "Blob", "text": "\x01\x02\x03" * 90},
    {"url": "", "text": "no address"}, {"url": "https://p.example/none"}, ["no object"], {"url": "https://p.example/t", "title": 7, "text": "Seven."},
]  # fmt: skip


def written_sources(place: Path) -> None:
    """A folder and a file of JSON lines."""
    for name, text in FILES.items():
        (place / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "docs" / name).write_text(text, encoding="utf-8")
    (place / "docs" / "latin.html").write_bytes(
        "<meta charset=iso-8859-1><p>Caf\xe9 am K\xfcste, ein sch\xf6ner Hafen.".encode("latin-1")
    )
    (place / "docs" / "paper.pdf").write_bytes(pdf("The paper counts sanderlings on the flats."))
    (place / "docs" / "torn.pdf").write_bytes(pdf("torn")[:200])
    (place / "lines.jsonl").write_text("".join(json.dumps(each) + "\n" for each in JSON_LINES) + "{torn", encoding="utf-8")


def pdf(words: str) -> bytes:
    """A PDF of one page."""
    writer = pypdf.PdfWriter()
    page, kind, table = writer.add_blank_page(600, 200), pypdf.generic.NameObject, pypdf.generic.DictionaryObject
    font = table({kind("/Type"): kind("/Font"), kind("/Subtype"): kind("/Type1"), kind("/BaseFont"): kind("/Helvetica")})
    page[kind("/Resources")] = table({kind("/Font"): table({kind("/F1"): font})})
    stream = pypdf.generic.StreamObject()
    stream.set_data(f"BT /F1 12 Tf 20 100 Td ({words}) Tj ET".encode())
    page[kind("/Contents")] = stream
    writer.add_metadata({"/Title": "A paper", "/CreationDate": "D:20200301120000Z"})
    held = io.BytesIO()
    writer.write(held)
    return held.getvalue()


def queries(pages: list[Any], count: int, seed: int) -> list[str]:
    """Queries made of words that pages hold: runs, mixtures, titles, operators, odd characters."""
    draw = random.Random(seed)
    forms = ["{0} {1} {2}", '"{0} {1}"', "site:{3} {0}", "{0} AND ({1} OR -{2})", "{4}", "{4} {0}?", "who {0} the {1} of {2}",
             "{0}* +{1}~2 ^3", "intitle:{0} after:2020-01-01", "  {0}\t\n{1} \x00 [x]{{y}}", "{0}的{1} 灯台", "{2}"]  # fmt: skip
    found = []
    for number in range(count):
        page = pages[draw.randrange(len(pages))]
        words = (f"{page.title} {page.text}"[:4000]).split() or ["x"]
        start = draw.randrange(len(words))
        run_of = [words[(start + k) % len(words)][:40] for k in range(3)]
        host = page.url.partition("://")[2].partition("/")[0]
        found.append(forms[number % len(forms)].format(*run_of, host, page.title[:80]))
    return found


def over_a_world(name: str, directory: Path, count: int) -> dict[str, Any]:
    """Searches and visits over one world, plain and under masks."""
    world = open_as_met(directory)
    pages, cases = list(open_world(directory).all_pages()), {}
    draw = random.Random(count)
    for number, query in enumerate(queries(pages, count, len(pages))):
        limit, words = (10, 3, 1, 25)[number % 4], (30, 12, 60)[number % 3]
        masked = frozenset(draw.choice(pages).url.replace("https://", "HTTP://") + "#x" for _ in range(number % 3))
        plain = search(world, query, limit=limit, snippet_words=words)
        shown = [hit["url"] for hit in plain["hits"][:1]]
        under = search(world, query, limit=limit, snippet_words=words, occasion=Occasion(masked=masked | set(shown)))
        cases[f"{name}: query {number}"] = f"{len(plain['hits'])} {digest(plain)} {len(under['hits'])} {digest(under)}"
    together = now(world.search_many(["herring", "", "tide tables", "herring"], limit=4))
    told = [dataclasses.asdict(reply) for reply in together]
    for hit in (hit for reply in told for hit in reply["hits"]):
        assert hit.pop("source") == ""  # it came after these goldens, and is of several places
    cases[f"{name}: searched together"] = digest(told)
    goals = ["", "when it was built", "herring and ships", "owner of Tern 9-3", "zzz", "灯台"]
    for number in range(10):
        page = pages[number * len(pages) // 10]
        told = []
        for goal, most in itertools.product(goals[number % 2 :: 2], (12, 70, 300)):
            for address in (page.url, f"{page.url}#page={1 + number % 4}"):
                masking = Occasion(masked=frozenset({pages[-1].url, *page.links[:1]}))
                told.append(visit(world, address, goal, max_words=most))
                told.append(visit(world, address, goal, max_words=most, occasion=masking))
        statuses, parts = sorted({each["status"] for each in told}), max(each["parts"] for each in told)
        cases[f"{name}: visit {number}"] = [statuses, parts, digest(told)]
    return cases


def over_filters(place: Path) -> dict[str, Any]:
    """Masks with near-duplicates and blocked sites, the guard, faults: over the world of the folder and JSON lines."""
    cases: dict[str, Any] = {}
    groups = [["https://p.example/flat", "https://p.example/2"], ["https://p.example/4", "https://p.example/links"]]
    blocked = Blocklist.parse("elsewhere.example # a host\nhttps://p.example/5\n*/datasets/owner/quiz\nquiz.example")
    local = open_world(place)
    masked = MaskedWorld(local, groups, blocked)
    occasions = [
        Occasion(),
        Occasion(masked=frozenset({"http://P.example/flat/"})),
        Occasion(masked=frozenset({"https://p.example/links"})),
    ]
    asked = ["herring flat record", "Orlo Nib reef", "odes to the tide keeper", "snippet", "words"]
    urls = [page.url for page in local.all_pages() if "hostile" not in page.url][:28]
    urls += ["https://p.example/gone", "nonsense"]
    lines: list[Any] = []
    text = "Which keeper of the northern lighthouse wrote forty odes to the tide before the great storm took his library?"
    guard = Guard(blocked, {"q1": text}, ["canary GUID 26b5c67b-86ad"], lines.append)
    guarded = open_as_met(place, guard=guard)
    worlds = {"masked": masked, "guarded": guarded, "calm": open_as_met(place, "calm", 3), "web": open_as_met(place, "web", 3)}
    worlds |= {"hostile": open_as_met(place, "hostile", 5), "injected": open_as_met(place, "web", 3, injected=0.6)}
    worlds |= {"guarded and hostile": open_as_met(place, "hostile", 5, guard=guard)}
    for name, world in worlds.items():
        cases[f"{name}: fingerprint"] = [world.name, world.fingerprint[:24], world.page_count]
        for number, seen in enumerate(occasions):
            for seed in range(2):
                who = dataclasses.replace(seen, episode_seed=seed, occurrence=seed, question=f"q{1 + seed % 2}")
                found = [search(world, query, limit=6, occasion=who) for query in asked]
                pages = [visit(world, url, "reef", max_words=40 + 900 * (seed == 1), occasion=who) for url in urls]
                kinds = [each["status"] for each in found] + [each["status"] for each in pages]
                cases[f"{name}: {number} {seed}"] = [
                    {kind: kinds.count(kind) for kind in sorted(set(kinds))},
                    digest(found),
                    digest(pages),
                ]
        made = [
            hit["url"] for query in asked for hit in search(world, query, limit=20, occasion=Occasion(episode_seed=9))["hits"]
        ]
        cases[f"{name}: what it lists can be read"] = digest(
            [visit(world, url, "tide", occasion=Occasion(episode_seed=9)) for url in made]
        )
    cases["guard: lines"] = [len(lines), digest([line.model_dump(mode="json") for line in lines])]
    return cases


def over_the_web() -> dict[str, Any]:
    """The live tools over a site of ours, with masks, blocked addresses, a guard and failures."""
    texts = {
        f"https://web.example/{n}": f"Page {n} of herring. " * (n * 40) + f"[next](https://web.example/{n + 1})"
        for n in range(1, 7)
    }
    texts["https://web.example/quiz"] = (
        "Which keeper of the northern lighthouse wrote forty odes to the tide before the great storm?"
    )
    moved = {"https://web.example/short": "https://blocked.example/a", "https://web.example/hop": "https://web.example/2"}
    failures = {"https://web.example/403": 403, "https://web.example/410": 410, "https://web.example/429": 429}

    def answer(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        if request.url.path == "/search":
            if asked["q"] == "bad words":
                return httpx.Response(400, json={"message": "no"})
            hits = [{"title": f"T {url}", "link": url, "snippet": text[:90], "date": "2020"} for url, text in texts.items()]
            return httpx.Response(
                200, json={"organic": [*hits, {"title": "B", "link": "https://blocked.example/a", "snippet": "s"}, "odd"]}
            )
        url = asked["url"]
        if url in failures:
            return httpx.Response(failures[url], json={"message": "failed"})
        if url.endswith("warned"):
            return httpx.Response(200, json={"data": {"warning": "Target URL returned error 404", "content": "Not found"}})
        found = moved.get(url, url)
        return httpx.Response(
            200,
            json={
                "data": {"url": found, "title": f"Title {found}", "content": texts.get(found, "Moved. " * found.endswith("a"))}
            },
        )

    lines: list[Any] = []
    guard = Guard(Blocklist.parse("blocked.example"), {"q1": texts["https://web.example/quiz"]}, (), lines.append)
    cases: dict[str, Any] = {}

    async def told() -> None:
        at = {"serper": "http://s.test", "jina": "http://r.test"}
        config = LiveConfig(urls=at, pause_s=0.0, attempts=2, age_h=0)
        async with LiveWeb(config, {}, transport=httpx.MockTransport(answer)) as web:
            tools = {
                "plain": world_tools(filtered(web), PROFILE),
                "guarded": world_tools(filtered(web, guard=guard), PROFILE.model_copy(update={"visit_parts": True})),
            }
            tools["blocked"] = world_tools(filtered(web, Blocklist.parse("https://web.example/2\nblocked.example")), PROFILE)
            urls = [
                *texts, *moved, *failures, "https://web.example/warned", "ftp://x", "https://web.example/3#page=2",
                "https://web.example/3#page=99",
            ]  # fmt: skip
            for name, pair in tools.items():
                context = ToolContext(question="q1", masked_urls=frozenset({"http://web.example/4", "https://web.example/6/"}))
                for number, arguments in enumerate([{"query": ["herring", "bad words"]}, {"query": "odes"}, {"query": 3}]):
                    found = await pair["search"](arguments, context)
                    cases[f"live: {name}: search {number}"] = [found.status, found.parts, found.provenance, digest(found.text)]
                for url in urls:
                    found = await pair["visit"]({"url": [url], "goal": "herring"}, context)
                    cases[f"live: {name}: {url}"] = [found.status, found.provenance, digest(found.text)]

    asyncio.run(told())
    cases["live: guard"] = [[line.kind, line.url, line.rule] for line in lines]
    return cases


ODD_ADDRESSES = """https://A.example:443/b/../c/%7Ed?q=%2F%3F#f|http://a.example|a.example/x|//a.example/y|ftp://A.example/x/|local://docs/a%20b
https://bücher.example/ü|https://xn--bcher-kva.example/%C3%BC|https://a.example/(x)_[y]|https://a.example/./..//z|mailto:x|A.B|https://u:p@a.example:80/
https://web.archive.org/web/2020/https://hub.example/datasets/quiz|https://r.jina.ai/https://HUB.example/datasets//quiz?x=1|https://hub-example.translate.goog/datasets/quiz
https://hf.co/datasets/owner/quiz|https://huggingface.co/api/datasets/owner/quiz/parquet|https://hf-mirror.com/datasets/owner/quiz|https://raw.githubusercontent.com/owner/quiz/main/a.csv
https://google.com/url?q=https%3A%2F%2Fhub.example%2Fdatasets%2Fquiz&sa=1|https://a.example/?u=hub.example/datasets/quiz|view-source:https://leaks.example/|https://leaks.example.org/
https://translate.google.com/translate?u=leaks.example|https://en.wikipedia.example/wiki/leaks.example/x|https://cdn.jsdelivr.net/gh/owner/quiz@1/a|https://github.com/owner/quiz.git
https://12ft.io/leaks.example|https://proxy.example/leaks.example/a|https://proxy.example/https:/leaks.example/a|HTTPS://WWW.LEAKS.EXAMPLE./a|https://user@leaks.example/|https://notleaks.example/"""
RULES = "leaks.example\nhttps://hub.example/datasets/quiz\n*/datasets/owner\nhttps://github.com/owner/quiz\n"


def pure() -> dict[str, Any]:
    """Addresses, erased links and parts of pages, on odd input."""
    addresses, rules = ODD_ADDRESSES.replace("\n", "|").split("|"), Blocklist.parse(RULES)
    cases: dict[str, Any] = {f"address: {url}": [canonical_url(url), rules.rule_for(url), len(spots(url))] for url in addresses}
    draw = random.Random(11)
    alphabet = [
        "https://", "http:", "/", "//", ".", "..", "a", "b.example", "%2F", "%zz", "?", "#", "&q=", "ü", "[", ")", ":80",
        "@", "\\", " ",
    ]  # fmt: skip
    noisy = ["".join(draw.choices(alphabet, k=draw.randrange(1, 14))) for _ in range(1_000)]
    cases["addresses: 1000 odd ones"] = digest([[canonical_url(url), rules.rule_for(url), spots(url)] for url in noisy])
    bits = ["[a](https://b.example/x)", "![i](/y)", "https://b.example/x", "www.b.example/x", "b.example/x.", "\n\n", "\n", " ", "word ", "[", "](", ")", "|",
            "# H\n", "<a href='https://b.example/x'>", "[r]: https://b.example/x\n", "《https://b.example/x》", "- item\n", "Sentence one. Sentence Two! ",
            "| a | b |\n", "|---|---|\n", "潮汐。", "`code`", "[n [in](https://b.example/x) out](https://c.example)", "x" * 120]  # fmt: skip
    texts = ["".join(draw.choices(bits, k=draw.randrange(1, 60))) for _ in range(250)]
    hidden = {"https://b.example/x", "https://a.example/y"}.__contains__
    cases["links erased from 250 odd texts"] = digest([without_links(text, "https://a.example/p", hidden) for text in texts])
    cases["parts of 250 odd texts"] = digest([split_page(text.strip(), most) for text in texts for most in (3, 20, 80)])
    return cases


def make(scratch: Path, recorded: Path | None) -> dict[str, Any]:
    """All cases of the area."""
    written_sources(scratch)
    docs, lines, worlds = scratch / "docs", scratch / "lines.jsonl", scratch / "worlds"
    base = ("--base-url", "https://docs.example/")
    run("world", "build", "encyclopedia", "--size", "60", "--seed", "7", "--out", worlds / "encyclopedia")
    run("world", "build", "from", docs, *base, "--out", worlds / "folder")
    feed = Gathering([open_source(lines, "jsonl")])
    build_world(worlds / "jsonl", feed, name="lines", source="jsonl lines.jsonl")
    run("world", "build", "from", docs, lines, "encyclopedia:40/2", "--name", "several", "--out", worlds / "several")
    run("world", "build", "from", lines, "--out", worlds / "grown")
    run("world", "add", worlds / "grown", docs, *base)
    run("world", "add", worlds / "grown", "encyclopedia:40/2", lines)
    cases = pure() | over_the_web() | over_filters(worlds / "several")
    for name, count in {"encyclopedia": 50, "folder": 40, "jsonl": 20, "grown": 30}.items():
        cases[f"{name}: world"] = account(worlds / name, scratch)
        cases |= over_a_world(name, worlds / name, count)
    cases["several: world"] = account(worlds / "several", scratch)
    if recorded is not None:
        for name in ("dr-venus-rl", "dr-venus-sft", "literesearcher-cases", "webdancer"):
            place = worlds / name
            run("world", "build", "recorded", "--from", recorded / name, "--out", place, "--hold-out", "0.2", "--seed", "3")
            found = account(place, scratch) | over_a_world(f"recorded: {name}", place, 10)
            told = [(place / file).read_text() for file in ("questions.jsonl", "built_from.json")]
            cases[f"recorded: {name}"] = found | {"files": digest(told)}
    return cases
