"""The benchmark of worlds runs in small, and its parts mean what its tables say."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        str(BENCHMARKS / "world.py"),
        "--work",
        str(tmp_path / "work"),
        "--out",
        str(tmp_path / "out"),
        *options,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.fixture
def corpus(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import world_corpus

    return world_corpus


def test_the_corpus_is_the_same_each_time_and_longer_ones_begin_alike(corpus):
    few, many = list(corpus.pages(30, 1)), list(corpus.pages(600, 1))
    assert many[:30] == few and list(corpus.pages(30, 2)) != few
    assert [corpus.number_of(page.url) for page in many] == list(range(600))
    assert 240 < sum(len(page.text.split()) for page in many) / 600 < 360
    assert len(set(corpus.vocabulary())) == corpus.WORD_TYPES
    assert not corpus.STOP_WORDS & set(corpus.vocabulary())


def test_queries_have_as_many_common_words_as_asked(corpus):
    common = set(corpus.vocabulary()[: corpus.COMMON_RANKS])
    for words in (0, 5):
        for query in corpus.queries(20, 3, common=words):
            assert len(query.split()) == 5 + words
            assert sum(word in common for word in query.split()) == words


def test_every_engine_that_is_here_finds_what_the_world_finds(corpus, tmp_path):
    from engines import ENGINES

    from sanderling.world.disk.index import indexed_text
    from sanderling.world.local import LocalWorld

    pages = list(corpus.pages(300))
    world = LocalWorld.in_memory(pages, name="t")
    for name, engine in ENGINES.items():
        if engine.missing():
            continue
        (tmp_path / name).mkdir()
        engine.build(tmp_path / name, [indexed_text(page.title, page.text) for page in pages])
        from sanderling.world.contract import answered

        other = world.with_ranker(engine.open(tmp_path / name))
        for page in pages[::60]:
            query = f"{page.title} {page.text.split()[-1]}"
            ours, theirs = answered(world.search(query)).hits, answered(other.search(query)).hits
            assert theirs[0].url == ours[0].url == page.url, name
            assert {hit.url: hit.snippet for hit in theirs}[ours[0].url] == ours[0].snippet
        assert answered(other.search("?!")).hits == () == answered(other.search("zzz")).hits


def test_some_stages_in_small(tmp_path):
    done = run(tmp_path, "--pages", "200", "--stages", "index,build,tries,report")
    assert done.returncode == 0, done.stderr
    stages = json.loads((tmp_path / "out" / "world.json").read_text(encoding="utf-8"))["stages"]
    assert [row["pages"] for row in stages["build"]["found"]] == [50, 200]
    shipped = stages["tries"]["found"]["200"]["rows"][0]
    assert shipped["shared_with_exact"] == 1.0 and shipped["same_lists"] == 1.0
    assert "### The whole build" in done.stdout and "### Ranking" not in done.stdout


def test_what_cannot_be_measured_is_said_in_a_line(tmp_path):
    assert "no stage is called serch" in run(tmp_path, "--stages", "serch").stderr
    assert "at least 100" in run(tmp_path, "--pages", "3").stderr
    assert "run the stage `build` first" in run(tmp_path, "--pages", "200", "--stages", "engines").stderr


@pytest.mark.slow
def test_every_stage_in_small(tmp_path):
    recorded = os.environ.get("SANDERLING_RECORDED")
    done = run(tmp_path, "--pages", "200", *(["--recorded", recorded] if recorded else []))
    assert done.returncode == 0, done.stderr
    stages = json.loads((tmp_path / "out" / "world.json").read_text(encoding="utf-8"))["stages"]
    assert stages["search"]["found"][1]["ten"]["n"] == 100
    assert {row["engine"] for row in stages["quality"]["found"]["rows"]} >= {"Sanderling", "FTS5"}
    drawn = ElementTree.parse(tmp_path / "out" / "world.svg").getroot()
    assert len(drawn.findall("{http://www.w3.org/2000/svg}polyline")) == 4
