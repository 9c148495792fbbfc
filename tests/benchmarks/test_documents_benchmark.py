"""The benchmark of documents runs over a small folder, and its questions are what its page says they are."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from openai_server import call, openai_server

from sanderling.data.questions import read_questions

PAGES = {
    "guide/harbour.html": "<h1>Harbour</h1><p>The harbour of Kendal was opened in 1803 by Ada Vell, who kept its mill.</p>",
    "guide/fees.html": "<h1>Fees</h1><p>A ship pays a fee of 40 crowns for each night in the harbour, not with mail.</p>",
    "birds.html": "<h1>Birds</h1><p>Sanderlings run along the edge of the waves and cross oceans in the autumn.</p>",
}
OPENED = {"page": "guide/harbour.html", "passage": "The harbour of Kendal was opened in 1803"}
FEE = {"page": "guide/fees.html", "passage": "A ship pays a fee of 40 crowns"}


@pytest.fixture
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(request.config.rootpath / "benchmarks"))
    import documents

    return documents


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in PAGES.items():
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(f"<html><body>{text}</body></html>", encoding="utf-8")
    return tmp_path / "docs"


def asked(id: str, text: str, answers: list[str], kind: str, *facts: list[dict[str, str]]) -> dict[str, Any]:
    return {"id": id, "text": text, "answers": answers, "meta": {"kind": kind, "wording": "page", "evidence": list(facts)}}


def run(
    bench: Any, folder: Path, questions: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, *more: str
) -> dict[str, Any]:
    file, out = folder.parent / "questions.jsonl", folder.parent / "out.json"
    file.write_text("".join(f"{json.dumps(one)}\n" for one in questions), encoding="utf-8")
    options = ["--questions", str(file), "--out", str(out), "--work", str(folder.parent / "work"), *more]
    monkeypatch.setattr("sys.argv", ["documents.py", str(folder), *options])
    bench.main()
    return json.loads(out.read_text(encoding="utf-8"))


QUESTIONS = [
    asked("opened", "When was the harbour of Kendal opened?", ["1803"], "fact", [OPENED]),
    asked(
        "both",
        "When was the harbour opened, and which fee does a ship pay?",
        ["1803 & 40 crowns"],
        "two pages",
        [OPENED],
        [FEE],
    ),
    asked("nowhere", "Which telescope did Quoll build?", ["not found"], "absent"),
]


def test_pages_passages_and_agents_are_scored(bench: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def says(messages: list[dict[str, Any]]) -> dict[str, Any]:
        question = next(one["content"] for one in messages if one["role"] == "user")
        if messages[-1]["role"] != "tool" and "harbour" in question:
            pages = [f"local://docs/{page}" for page in PAGES if page.startswith("guide/")]
            return {"tool_calls": [call("visit", {"url": pages, "goal": question})]}
        said = "The harbour of Kendal was opened in 1803. A ship pays a fee of 40 crowns." if "fee" in question else "1804"
        return {"content": f"<answer>{said if 'harbour' in question else 'It was not found.'}</answer>"}

    with openai_server(says) as (url, _, refused):
        record = run(bench, folder, QUESTIONS, monkeypatch, "--model", f"{url}#m")
    assert not refused
    everywhere = {row["search"]: row for row in record["found"] if row["questions"] == "all"}
    assert everywhere["lexical"]["a right page in 3"]["percent"][0] == 100
    assert everywhere["FTS5, all words"]["a right page in 10"]["percent"][0] == 0  # no page has "when"
    assert record["not found"] == [] and record["passage shown"]["for the question"]["percent"][0] == 100
    scripted = record["agents"]["best sentence of three pages"]
    assert scripted["wrong"] == ["both"] and scripted["every proof was read"]["percent"][0] == 100
    assert scripted["sentences that are supported"]["percent"][0] == 100
    assert scripted["right, without an answer"]["percent"][0] == 100 and scripted["right, in other words"]["percent"] == []
    model = record["agents"]["m"]
    assert model["wrong"] == ["opened"] and model["unscored"] == 0
    assert model["right, of two pages"]["percent"][0] == 100 and model["sentences that are supported"]["sentences"] == 3


def test_a_passage_that_does_not_stand_on_its_page_is_told(bench: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = asked("opened", "When?", ["1804"], "fact", [{**OPENED, "passage": "The harbour of Kendal was opened in 1804"}])
    with pytest.raises(SystemExit, match=r"opened: guide/harbour\.html: The harbour of Kendal was opened in 1804"):
        run(bench, folder, [wrong], monkeypatch)


def test_the_questions_are_of_the_kinds_that_are_told(bench: Any) -> None:
    questions = read_questions(bench.QUESTIONS)
    assert len({one.id for one in questions}) == len({one.text for one in questions}) == 50
    assert Counter(one.meta["wording"] for one in questions) == {"own": 25, "page": 25}
    kinds = Counter(one.meta["kind"] for one in questions)
    assert kinds["two pages"] == 10 and kinds["absent"] == 5
    for one in questions:
        needed = {"absent": 0, "two pages": 2}.get(one.meta["kind"], 1)
        assert len(bench.facts(one)) == needed and one.answers, one.id
        assert all(0 < len(passage) <= 200 for fact in bench.facts(one) for _, passage in fact), one.id
