"""Replies of a served world in every dialect, its dense and hybrid rankings, its faults, and a report of its fidelity.

Everything but the last is asked over HTTP, in process: what a client is told is what is pinned.
"""

import base64
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from goldens import digest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from sanderling.cli.world import app as world_command
from sanderling.serve.app import create_app
from sanderling.serve.limits import ServerSettings
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.store import open_as_met
from sanderling.world.faults import get_faults

TOLERANCE = 1e-9
HERE = "http://127.0.0.1:8018"
CLOCKED = {"search_time", "query_time"}
SPACE = [
    {"url": "https://en.example/wiki/Alien_(film)", "title": "Alien (film)", "date": "1979-05-25"},
    {"url": "https://b.example/x?y=1&z=a%2Fb", "title": "Bees", "text": "Bees make honey; a film about bees followed."},
    {"url": "https://zh.example/维基/外星人", "title": "外星人", "text": "外星人 is a film known by many names."},
]
SPACE[0]["text"] = "# Alien\n\nAlien is a 1979 film by Ridley Scott.\n\nSigourney Weaver plays Ripley."
FILM, BEES = SPACE[0]["url"], SPACE[1]["url"]
LONG = "\n\n".join(f"Paragraph {i} tells of ships, sails and tides in year {1500 + i}." for i in range(400))
WORDS = (
    "film", "honey", "ridley scott film", "ships of the year 1777", "外星人", "!!!", "", "tides, sails", "who plays Ripley?",
)  # fmt: skip


FIGURES = ("overlap", "visit_held")
COUNTS = ("label", "trajectories", "questions", "searches", "asked_before", "visits")
ABOUT = ("world", "world_source", "fingerprint", "pages", "same_question")


def run(*arguments: object) -> str:
    """What a command says on standard output. It must succeed."""
    done = CliRunner().invoke(world_command, [str(a) for a in arguments], env={"COLUMNS": "200"}, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def small_world(scratch: Path) -> Path:
    file, place = scratch / "small.jsonl", scratch / "small"
    rows = [*SPACE, {"url": "https://sea.example/ships", "title": "Ships", "text": LONG}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run("build", "from", file, "--out", place, "--name", "small")
    return place


@contextmanager
def served(
    place: Path, faults: str | None = None, mode: str = "lexical", seed: int = 0, **settings: Any
) -> Iterator[TestClient]:
    """A client of a world as it is met."""
    world = open_as_met(place, faults, seed, SearchMode(mode))
    with TestClient(create_app(world, ServerSettings(**settings)), base_url=HERE) as client:
        yield client


def told(reply: Any) -> list[Any]:
    """Status, headers that mean something, and the body without its clocks; a long body by its digest."""
    headers = {
        name: reply.headers[name] for name in ("content-type", "www-authenticate", "retry-after") if name in reply.headers
    }
    body: Any = reply.text
    if headers.get("content-type", "").startswith("application/json"):
        body = reply.json()
        if isinstance(body, dict):
            body = {key: value for key, value in body.items() if key not in CLOCKED} | dict.fromkeys(CLOCKED & set(body), "…")
    long = len(json.dumps(body)) > 300
    return [reply.status_code, headers, {"digest": digest(body)} if long else body]


def search(query: str, **more: Any) -> dict[str, Any]:
    return {"queries": [query], **more}


POSTS: list[tuple[str, Any]] = [
    ("/v1/search", {"queries": list(WORDS)}),
    ("/native/v1/search", {"queries": list(WORDS), "limit": 2, "snippet_words": 6}),
    ("/v1/search", search("film", masked=[FILM])),
    ("/v1/visit", {"urls": [FILM, BEES, "https://nowhere.example/"]}),
    ("/v1/visit", {"urls": ["https://sea.example/ships", "https://sea.example/ships#page=2"], "goal": "1777", "max_words": 40}),
    ("/v1/visit", {"urls": ["https://sea.example/ships#page=9999"], "max_words": 40}),
    ("/v1/visit", {"urls": [FILM], "masked": [FILM]}),
    ("/search", {"q": "film"}),
    ("/serper/search", {"q": "film", "num": 1, "page": 2, "gl": "us"}),
    ("/search", [{"q": "film", "num": 1}, {"q": "honey"}, {"q": "film", "num": 1}]),
    ("/search", {"query": "film", "limit": 2}),
    ("/literesearcher/search", {"query": "!!!", "search_type": "dense"}),
    ("/batch_search", {"queries": ["film", "honey", "!!!"], "sparse_weight": 0.1}),
    ("/check_url", {"url": FILM}),
    ("/batch_check_url", {"urls": [FILM, BEES, "https://no.example/"]}),
    ("/web_parser", {"url": f"{FILM}#cast"}),
    ("/web_parser", {"url": "https://no.example/"}),
    ("/query", {"url": FILM, "question": "who directed it"}),
    ("/query", {"url": "https://no.example/", "goal": "who directed it"}),
    ("/retrieve", {"queries": ["Ridley Scott film", "!!!"], "topk": 2, "return_scores": True}),
    ("/search_r1/retrieve", {"queries": ["ships of 1777"]}),
    ("/asearcher/retrieve", {"queries": ["honey"], "topk": 1}),
    ("/access", {"urls": [FILM, BEES, "https://no.example/"]}),
    ("/", {"url": FILM}),
    ("/jina/", {"url": "https://no.example/"}),
]
BAD: list[tuple[str, Any]] = [
    ("/v1/search", search("x", limit=0)), ("/v1/search", search("x", limt=3)), ("/v1/search", {"queries": []}),
    ("/v1/search", {"queries": ["x"] * 101}), ("/v1/search", 7), ("/v1/visit", {"urls": ["x"], "max_words": -1}),
    ("/v1/visit", {"urls": None}), ("/search", {}), ("/search", []), ("/search", {"q": "x", "num": 101}),
    ("/search", {"query": "x", "search_type": "magic"}), ("/batch_check_url", {"urls": ["x"] * 1_001}),
    ("/query", {"url": "https://a.example/"}), ("/retrieve", {"queries": ["x"] * 1_025}), ("/access", {"urls": [None]}),
    ("/", {"url": ""}), ("/nothing", {}),
]  # fmt: skip
GETS = (
    "/health", "/v1/info", f"/{FILM}", f"/r/{FILM}", f"/jina/r/{BEES}", "/https%3A%2F%2Fb.example%2Fx%3Fy%3D1%26z%3Da%252Fb",
    "/https:/b.example/x?y=1&z=a%2Fb", "/r/https://no.example/", "/r/", "/nothing", "/mcp", "/v1/search",
    "/https://zh.example/%E7%BB%B4%E5%9F%BA/%E5%A4%96%E6%98%9F%E4%BA%BA",
)  # fmt: skip


def dialects(place: Path) -> dict[str, Any]:
    """Every route, and what it refuses."""
    cases: dict[str, Any] = {}
    with served(place) as client:
        for number, (path, body) in enumerate(POSTS):
            cases[f"post {number:02} {path}"] = told(client.post(path, json=body))
        for number, (path, body) in enumerate(BAD):
            cases[f"bad {number:02} {path}"] = told(client.post(path, json=body))
        for data in (b"", b"{", b"\xff\xfe", b'{"q": NaN}', b'{"queries": ["\\ud800"]}', b'"x"', b"x" * 1_100_000):
            cases[f"bytes {digest(data)}"] = told(client.post("/v1/search", content=data))
        for path in GETS:
            cases[f"get {path}"] = told(client.get(path))
        cases["json page"] = told(client.get(f"/r/{FILM}", headers={"Accept": "application/json"}))
        cases["wrong methods"] = [told(client.request(*each)) for each in (("DELETE", "/v1/search"), ("PUT", f"/r/{FILM}"))]
        for name, value in (("Host", "evil.example"), ("Origin", "https://evil.example"), ("Host", "["), ("Host", "localhost")):
            cases[f"{name} {value}"] = told(client.post("/v1/search", json=search("film"), headers={name: value}))
        cases["mcp"] = [told(client.post("/mcp", json=body, headers={"Accept": "application/json"})) for body in mcp_calls()]
    with served(place, token="s3cret", host="0.0.0.0", dialects=("native", "jina")) as client:
        basic = "Basic " + base64.b64encode(b"any:s3cret").decode()
        for key, value in (
            ("Authorization", "Bearer s3cret"), ("X-API-KEY", "s3cret"), ("Authorization", basic), ("X", "y"),
            ("Authorization", "Bearer wrong"), ("Authorization", "Basic !!!"),
        ):  # fmt: skip
            cases[f"token {key} {value}"] = told(client.get("/v1/info", headers={key: value}))
        cases["token health"] = told(client.get("/health"))
        cases["other dialect"] = told(client.post("/search", json={"q": "film"}, headers={"X-API-KEY": "s3cret"}))
    return cases


def mcp_calls() -> list[dict[str, Any]]:
    """Messages of one client."""
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}
    calls: list[tuple[str, dict[str, Any]]] = [("initialize", hello), ("tools/list", {})]
    for name, arguments in (
        ("search", {"queries": ["ripley", "zzz"], "limit": 1}),
        ("search", {"queries": ["x"], "limit": 0}),
        ("visit", {"urls": [FILM, "https://no.example/"], "goal": "who plays Ripley"}),
        ("visit", {"urls": ["https://sea.example/ships"], "max_words": 40}),
    ):
        calls.append(("tools/call", {"name": name, "arguments": arguments}))
    return [{"jsonrpc": "2.0", "id": n, "method": method, "params": params} for n, (method, params) in enumerate(calls)]


def failures(scratch: Path, place: Path) -> dict[str, Any]:
    """What each dialect makes of each way in which a world fails."""
    cases = {}
    kinds = [("search", name) for name in ("timeout", "rate_limited", "empty")]
    kinds += [("visit", name) for name in ("timeout", "rate_limited", "not_found", "gone", "blocked", "paywalled")]
    asked = {
        "search": [
            ("/v1/search", search("film")), ("/search", {"q": "film"}), ("/search", {"query": "film"}),
            ("/batch_search", search("film")), ("/retrieve", search("film")),
        ],
        "visit": [
            ("/v1/visit", {"urls": [FILM]}), ("/", {"url": FILM}), ("/web_parser", {"url": FILM}),
            ("/check_url", {"url": FILM}), ("/query", {"url": FILM, "goal": "g"}), ("/access", {"urls": [FILM]}),
        ],
    }  # fmt: skip
    for call, fault in kinds:
        (scratch / "one.toml").write_text(f'name = "one"\n[{call}]\n{fault} = 1.0\n')
        with served(place, str(scratch / "one.toml")) as client:
            cases[f"fault {call} {fault}"] = [told(client.post(path, json=body))[::2] for path, body in asked[call]]
    return cases


def faults(place: Path) -> dict[str, Any]:
    """The named profiles, and fifty seeded outcomes under each."""
    cases: dict[str, Any] = {}
    for name in ("calm", "web", "hostile"):
        cases[f"profile {name}"] = get_faults(name).model_dump(mode="json")
        with served(place, name, seed=7) as client:
            hits = client.post("/v1/search", json={"queries": ["born in"], "limit": 25}).json()["replies"][0]["hits"]
            urls, titles = [hit["url"] for hit in hits], [hit["title"] for hit in hits]
            cases[f"outcomes {name}"] = outcomes = [told(client.get("/v1/info"))[2]]
            for seed in range(50):
                body = {"episode_seed": seed, "occurrence": seed % 3}
                found = client.post("/v1/search", json=search(f"{titles[seed % 9]} born", **body)).json()["replies"][0]
                page = client.post("/v1/visit", json={"urls": [urls[seed % len(urls)]], **body}).json()["replies"][0]
                outcomes.append([[each["status"], each["latency_s"], digest(each)] for each in (found, page)])
            made = [url for url in urls if re.search(r"//(textvault|readshare|infomirror|pagekeep)\.", url)]
            pages = client.post("/v1/visit", json={"urls": made or urls[:1], "max_words": 60}).json()["replies"]
            cases[f"made pages {name}"] = [[page["url"], page["status"], digest(page["text"])] for page in pages]
    return cases


def rankings(place: Path) -> dict[str, Any]:
    """Dense and hybrid lists over two embeddings of the encyclopedia."""
    cases = {}
    queries = ["a river in the north", "painter born in a small town", "founded by", "novle about the sea", "", "1950 treaty"]
    for spec, more in (
        ("hashed", ()),
        ("hashed:64", ("--set", "chunking.most=1", "--set", "chunking.chars=200", "--set", "precision=float32")),
    ):
        world = place.parent / f"dense-{spec.replace(':', '-')}"
        run("build", "encyclopedia", "--out", world, "--size", 60, "--seed", 3)
        said = run("embed", world, "--embedder", spec, *more)
        cases[f"embed {spec}"] = said.partition(": /")[0]
        for mode in ("dense", "hybrid"):
            with served(world, mode=mode) as client:
                replies = client.post("/v1/search", json={"queries": queries, "limit": 5}).json()["replies"]
                cases[f"{mode} {spec}"] = [client.get("/v1/info").json()] + [
                    [reply["status"], [[hit["url"].rpartition("/")[2], hit["score"]] for hit in reply["hits"]]]
                    for reply in replies
                ]
    return cases


def recordings(scratch: Path) -> Path:
    """Twenty trajectories in a known layout; three pages are met by all, and some visits fail."""
    place = scratch / "recorded"
    place.mkdir()
    call = '<tool_call>\n{"name": "search", "arguments": {"query": ["x"]}}\n</tool_call>'
    for number in range(20):
        urls = [f"https://site{n}.example/page" for n in range(3)] + [f"https://only{number}.example/{n}" for n in range(3)]
        hits = [{"title": f"T {u}", "url": u, "snippet": f"bird {n * number} of the sea {u}"} for n, u in enumerate(urls)]
        lists = [{"query": f"topic{number} sea bird", "web_page_info_list": hits}]
        lists += [{"query": f"answer{number % 4} of {number}", "web_page_info_list": hits[::-1][: number % 5]}]
        lists += [{"query": "sea bird", "web_page_info_list": hits[2:]}] * (number % 3 == 0)
        page = f"The useful information in {urls[number % 4]} for user goal g as follows: \n\n"
        ending = (
            "Summary: \nIt could not be accessed." if number % 5 == 4 else f"Evidence in page: \nbirds, answer{number % 4}, of"
        )
        seen = [json.dumps(lists), page + ending + (" the sea\n\nSummary: \nshort" if number % 5 != 4 else "")]
        messages = [{"role": "system", "content": "s"}, {"role": "user", "content": f"question {number // 2}"}]
        for text in seen:
            messages.append({"role": "assistant", "content": call})
            messages.append({"role": "user", "content": f"<tool_response>\n{text}\n</tool_response>"})
        messages.append({"role": "assistant", "content": f"<answer>answer{number % 4}</answer>"})
        data = {"question": f"question {number // 2}", "messages": messages, "gt": f"answer{number % 4}"}
        (place / f"{number:02}.json").write_text(json.dumps(data))
    return place


def fidelity(scratch: Path) -> dict[str, Any]:
    """The figures of a world of some recordings against all of them."""
    against, cases = recordings(scratch), {}
    world, out = scratch / "from-question", scratch / "report-question"
    run("build", "recorded", "--from", against, "--out", world, "--hold-out", 0.4, "--seed", 1)
    cases["built from, by question"] = digest((world / "built_from.json").read_text())
    run("fidelity", world, "--against", against, "--out", out, "--k", 4)
    report = json.loads((out / "fidelity.json").read_text())
    part = report["compared"]
    figures = {each["name"]: [each["n"], each["value"], each["interval"]] for each in part["figures"]}
    cases["fidelity by question, held out"] = {name: figures[name] for name in FIGURES}
    cases["counts by question, held out"] = {name: part[name] for name in COUNTS}
    cases["report by question"] = {name: report[name] for name in ABOUT}
    return cases


def make(scratch: Path, recorded: Path | None) -> dict[str, Any]:
    """All cases of the area."""
    os.environ.setdefault("NO_COLOR", "1")
    small, large = small_world(scratch), scratch / "encyclopedia"
    run("build", "encyclopedia", "--out", large, "--size", 120, "--seed", 5)
    return dialects(small) | failures(scratch, small) | faults(large) | rankings(large) | fidelity(scratch)
