"""The list that waits for a GPU: every item exists, and what compares two ways finds them alike where both are small."""

import json
from typing import Any

import pytest
import torch

from sanderling.train.fit import MFU, Load


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
