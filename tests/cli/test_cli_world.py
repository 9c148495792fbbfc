"""``sanderling world``: build, look, search, visit, embed, push and faults; one sentence for what cannot be done."""

import json
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sanderling.cli import INTERRUPTED
from sanderling.cli.main import build_app
from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.data.questions import read_questions
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world
from sanderling.world.encyclopedia import generate_pages

PAGES = [
    Page(url="https://w.example/h", title="Herring", text="Herring are silvery fish. They school in the north."),
    Page(url="https://w.example/o", title="Orlo", text="Orlo is a town. It was founded in 1203 by a poet."),
    Page(url="https://w.example/g", title="Glass", text="Glass is blown in winter. " * 300),
]


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def pages_file(tmp_path) -> Path:
    file = tmp_path / "pages.jsonl"
    rows = [
        {
            "url": "https://w.example/Orlo_(town)",
            "title": "Orlo [town]",
            "text": "Orlo is a town. It was founded in 1203.",
            "date": "2020",
        },
        {"id": 7, "contents": "A passage about herring."},
        {"id": "8", "text": "Nested herring page.", "metadata": {"url": "https://w.example/h", "title": "Herring"}},
    ]
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", encoding="utf-8")
    return file


def test_from_json_lines_to_a_page(pages_file, tmp_path):
    world = tmp_path / "w"
    assert "3" in run("build", "from", pages_file, "--out", world)
    assert "pages.jsonl" in run("info", world)
    found = run("search", world, "founded town", "--limit", 1)
    assert "[1] Orlo [town]\nhttps://w.example/Orlo_(town)\n" in found
    assert "No results." in run("search", world, "zzzz")
    assert "founded in 1203" in run("visit", world, "w.example/Orlo_(town)", "--goal", "founded")
    assert "herring" in run("visit", world, "local://7")


def test_a_long_page_is_read_on(pages_file, tmp_path):
    text = "\n\n".join(f"Paragraph {n} of the chronicle has about ten words in it." for n in range(40))
    pages_file.write_text(json.dumps({"url": "https://w.example/c", "title": "C", "text": text}), encoding="utf-8")
    world = tmp_path / "w"
    run("build", "from", pages_file, "--out", world)
    shown, address = run("visit", world, "https://w.example/c", "--words", 100), "https://w.example/c#page=2"
    read = []
    while "Next: " in shown:
        assert f"Next: {address}" in shown
        read.append(shown)
        shown = run("visit", world, address, "--words", 100)
        address = f"https://w.example/c#page={len(read) + 2}"
    read.append(shown)
    assert f"(Part {len(read)} of {len(read)}, the last.)" in shown
    assert all(sum(f"Paragraph {n} of" in part for part in read) == 1 for n in range(40))
    assert "Passages of a long page" in run("visit", world, "w.example/c", "--words", 50, "--goal", "paragraph 17")
    missed = CliRunner().invoke(app, ["visit", str(world), address, "--words", "100"], env={"COLUMNS": "200"})
    assert missed.exit_code == 1 and f"No part {len(read) + 1} of {len(read)}." in missed.stderr
    assert "Part" not in run("visit", world, "https://w.example/c", "--profile", "dr-venus-4b")


def test_a_store_that_breaks_while_it_is_read_is_one_sentence(pages_file, tmp_path):
    world = tmp_path / "w"
    run("build", "from", pages_file, "--out", world)
    store = bytearray((world / "pages-0.sqlite").read_bytes())
    store[4096:] = b"\xff" * (len(store) - 4096)  # the header says that all is well
    (world / "pages-0.sqlite").write_bytes(store)
    for profile in ((), ("--profile", "tiny")):
        for arguments in (("search", world, "herring"), ("visit", world, "local://7")):
            with pytest.raises(UserError, match=r"is damaged .*: copy the world again"):
                run(*arguments, *profile)


def test_an_interrupted_build_goes_on_with_the_same_command(tmp_path, monkeypatch):
    real = generate_pages

    def interrupted(*given, **how):
        yield from islice(real(*given, **how), 40)
        raise KeyboardInterrupt

    monkeypatch.setattr("sanderling.world.disk.building._SECONDS", 0.0)
    command = ["build", "encyclopedia", "--size", "60", "--out", str(tmp_path / "w")]
    with monkeypatch.context() as patched:
        patched.setattr("sanderling.world.sources.kinds.generate_pages", interrupted)
        result = CliRunner().invoke(app, command)
    assert result.exit_code == INTERRUPTED
    assert "Interrupted: run the same command again to resume.\n" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [".w.building"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0 and [path.name for path in tmp_path.iterdir()] == ["w"]


def test_a_built_encyclopedia_is_taught_from_the_command_line(tmp_path):
    """Its name has no set of names, as the encyclopedia's own has: questions name the world as it is called on the disk."""
    world, questions, out = tmp_path / "w", tmp_path / "q.jsonl", tmp_path / "t.jsonl"
    run("build", "encyclopedia", "--size", "240", "--seed", "7", "--out", world)
    for command in (
        ["synth", "chains", world, "--out", questions, "--count", 4],
        ["data", "generate", questions, "--world", world, "--model", "teacher:240/7", "--judge", "exact", "--out", out],
        ["synth", "graph", world, "--out", tmp_path / "g.jsonl", "--count", 4],
    ):
        group = build_app(str(command[0]))
        result = CliRunner().invoke(group, list(map(str, command)), catch_exceptions=False)
        assert result.exit_code == 0, result.output
    taught = list(TrajectoryStore(out))
    assert len(taught) == 4 and all(one.answer for one in taught)
    asked = [*read_questions(questions), *read_questions(tmp_path / "g.jsonl")]
    assert {one.meta["world"] for one in asked} == {"encyclopedia-240-7"}


def test_failures_are_one_sentence(pages_file, tmp_path):
    for arguments, message in (
        (("build", "from", tmp_path / "none", "--out", tmp_path / "w"), "There is no source"),
        (("build", "recorded", "--from", tmp_path / "none", "--out", tmp_path / "w"), "none"),
        (("info", tmp_path / "w"), "There is no world"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            run(*arguments)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "w").exists()


def test_pages_cannot_reach_for_the_terminal(tmp_path):
    file = tmp_path / "pages.jsonl"
    page = {
        "url": "https://w.example/x",
        "title": "T\x1b[31m",
        "text": "tidal \x1b]0;taken\x07 flat \x9b2J \u202e and many words beside these, so that it still is text " * 3,
    }
    file.write_text(json.dumps(page), encoding="utf-8")
    told = run("build", "from", file, "--out", tmp_path / "w", "--name", "n\x1b[2J")
    told += run("search", tmp_path / "w", "tidal flat") + run("visit", tmp_path / "w", "https://w.example/x")
    assert "tidal" in told and not set(told) & set("\x1b\x07\x9b\u202e")


@pytest.fixture
def embeddable(tmp_path: Path) -> Path:
    build_world(tmp_path / "w", PAGES, name="t", source="test")
    return tmp_path / "w"


def test_from_no_index_to_hybrid_results(embeddable: Path) -> None:
    assert "dense search  none" in run("info", embeddable)
    with pytest.raises(UserError, match="no dense index: make one"):
        run("search", embeddable, "herring", "--search", "hybrid")
    with pytest.raises(UserError, match="Name the embedder"):
        run("embed", embeddable)
    assert "3 pages as 6 passages of 64 dimensions by hashed-1:64" in run("embed", embeddable, "--embedder", "hashed:64")
    assert "3 pages as 6 passages, 64 dimensions by hashed-1:64" in run("info", embeddable)
    assert "Herring" in run("search", embeddable, "herrings", "--search", "dense", "--limit", 1)
    assert "Orlo" in run("search", embeddable, "founded poets", "--search", "hybrid", "--limit", 1)
    assert "Orlo" in run("search", embeddable, "founded by", "--search", "hybrid", "--profile", "tiny", "--faults", "web")
    assert "No results." in run("search", embeddable, "zzzz")


def test_what_cannot_be_embedded_is_one_sentence(embeddable: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no world at"):
        run("embed", tmp_path / "none", "--embedder", "hashed")
    with pytest.raises(UserError, match="There is no embedder 'word2vec'"):
        run("embed", embeddable, "--embedder", "word2vec")
    assert not (embeddable / "dense" / "dense.json").exists()


def test_a_pushed_world_is_used_like_any_other(tmp_path: Path) -> None:
    pytest.importorskip("pymilvus", reason="needs the extra [milvus]")
    pytest.importorskip("milvus_lite", reason="needs milvus-lite")
    world, there = tmp_path / "w", tmp_path / "there"
    build_world(world, PAGES[:2], name="t", source="test")
    uri = tmp_path / "lite.db"
    assert "2 pages and 0 passages are on" in run("push", world, "--milvus", uri, "--out", there)
    with pytest.raises(UserError, match="no dense index"):
        run("search", there, "herring", "--search", "dense")
    run("embed", world, "--embedder", "hashed:64")
    assert "2 pages and 2 passages" in run("push", world, "--milvus", uri, "--out", there, "--vectors", "FLAT")
    assert "Orlo" in run("search", there, "founded poets", "--search", "hybrid", "--limit", 1)
    assert "founded in 1203" in run("visit", there, "w.example/o", "--goal", "founded")
    assert "pages" in run("info", there)


@pytest.mark.parametrize("command", ["build from", "add", "embed", "visit", "serve"])
def test_help_on_settings_needs_no_world(command: str) -> None:
    assert " = " in run(*command.split(), "--set", "help")
