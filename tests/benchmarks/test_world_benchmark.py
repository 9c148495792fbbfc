"""The benchmark of worlds runs in small, and its parts mean what its tables say."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import torch

from sanderling.train.fit import MFU, Load

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable, str(BENCHMARKS / "world.py"), "--work", str(tmp_path / "work"), "--out", str(tmp_path / "out"),
        *options,
    ]  # fmt: skip
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


# -- The ways that are compared score the same, and the page says what the figures say -------------------------------------


@pytest.fixture
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(request.config.rootpath / "benchmarks"))
    import information_gain

    return information_gain


def test_all_ways_give_the_same_scores(bench: Any) -> None:
    found = bench.measure(bench.Case.of(96, 6), bench.model(), 1)
    assert set(found["largest_gap_nats"]) == {"naive", "padded", "slices"}
    assert max(found["largest_gap_nats"].values()) < 1e-4
    assert found["boundaries_run"]["naive"] == 6, "of a short trajectory all boundaries are run"


def test_what_is_run_of_a_long_one_stands_for_all(bench: Any) -> None:
    case = bench.Case.of(65_536, 200)
    for way in ("naive", "padded"):
        some = case.some(way)
        step = 200 // len(some)
        assert len(some) > 1 and some == list(range(some[0], 200, step))
        # No part of the trajectory is favoured: the mean length is that of all.
        assert sum(case.cuts[at] for at in some) / len(some) == pytest.approx(sum(case.cuts) / 200, rel=0.01)


def test_the_page_is_made_of_the_figures(bench: Any, request: pytest.FixtureRequest) -> None:
    results = request.config.rootpath / "benchmarks" / "results"
    record = json.loads((results / "information_gain.json").read_text(encoding="utf-8"))
    assert (results / "information_gain.md").read_text(encoding="utf-8") == bench.told(record)


# -- The list that waits for a GPU: every item exists, and what compares two ways finds them alike where both are small ----


@pytest.fixture
def modules(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(request.config.rootpath / "benchmarks"))
    import gpu
    import gpu_checks
    import gpu_parts
    import gpu_rl
    import gpu_training

    return {"list": gpu, "checks": gpu_checks, "parts": gpu_parts, "rl": gpu_rl, "training": gpu_training}


def test_every_item_of_the_list_is_there_once(modules: dict[str, Any]) -> None:
    made = [*modules["training"].TRAININGS, *modules["checks"].CHECKS, *modules["parts"].PARTS, *modules["rl"].LOOPS]
    assert sorted(made) == sorted(modules["list"].ITEMS)


def test_the_peak_of_a_gpu_is_its_makers_figure(modules: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import train_step

    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100 80GB HBM3")
    assert train_step.peak_flops("cuda", torch.get_num_threads()) == 989e12


def test_every_training_fits_an_h200_by_the_plan_and_ends_in_eight_minutes(modules: dict[str, Any]) -> None:
    training = modules["training"]
    for name, case in training.TRAININGS.items():
        lora = 33_000_000 if case.rank else None
        config = training.TrainerConfig(
            precision="bfloat16",
            memory=case.memory,
            micro_batch_tokens=case.tokens * case.rows,
            logit_chunk=training.LOGIT_CHUNK,
        )
        load = Load(case.tokens, sharded=not case.rank, lora_parameters=lora)
        planned = training.estimate(training.QWEN3_4B, config, load)
        assert planned.total < 130 * 2**30 and planned.host < 100 * 2**30, name
        # A third more for what is computed again.
        assert (case.steps + 0.1) * planned.flops / (training.PEAK * MFU) * 4 / 3 < 400, name


def test_forks_merged_and_apart_and_heads_agree(modules: dict[str, Any]) -> None:
    small, device = modules["training"].SMALL, torch.device("cpu")
    forks = modules["checks"].forks(device, small)
    assert forks["loss_gap"] < 1e-5 and forks["relative_gradient_gap"] < 0.02
    assert forks["merged"]["tokens"] < forks["apart"]["tokens"] / 3
    chunks = modules["checks"].head(device, small)["chunks"].values()
    first, second = (one["mean_logprob"] for one in chunks)
    assert first == pytest.approx(second, abs=1e-5)


def test_a_lora_and_all_weights_take_a_step(modules: dict[str, Any]) -> None:
    training = modules["training"]
    for name in ("LoRA 32K", "full 128K"):
        found = training.train(training.TRAININGS[name], torch.device("cpu"), training.SMALL)
        assert found["losses"][0] > found["losses"][-1] and found["mfu"] > 0


def test_gains_of_one_pass_are_those_of_a_pass_for_each(modules: dict[str, Any]) -> None:
    parts = modules["parts"]
    found = parts.PARTS["gain 64K"](parts.Bench(torch.device("cpu"), parts.SMALL))
    assert found["largest_gap_nats"] < 0.02 and found["boundaries"] == 16  # in bfloat16


@pytest.mark.slow
def test_the_loop_of_reinforcement_learning_runs_in_small(modules: dict[str, Any]) -> None:
    found = modules["rl"].LOOPS["RL 0.6B"](torch.device("cpu"), small=True)
    assert found["trajectories_per_second"] > 0 and found["tokens_trained_per_second"] > 0


def test_the_written_list_says_of_every_item_whether_it_was_measured(
    modules: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    results = request.config.rootpath / "benchmarks" / "results"
    record = json.loads((results / "gpu.json").read_text()) if (results / "gpu.json").is_file() else {}
    assert (results / "gpu.md").read_text() == modules["list"].told(record), (
        "PYTHONPATH=src python3 benchmarks/gpu.py --seconds 0"
    )
    some = modules["list"].told({"full 32K": {"mfu": 0.47, "tokens": 32_768}, "scoring": {"failed": "out of memory"}})
    assert "| full 32K |  | 0.47 |  |  | tokens 3.277e+04 |" in some and "| scoring |  |  |  |  | out of memory |" in some
    assert some.count("not yet measured") == len(modules["list"].ITEMS) - 2
