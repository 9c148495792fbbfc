"""`sanderling train sft` on devices that are too small: refused before anything is begun, and only where that is certain."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from sft_runs import write_base, write_data, write_settings

from sanderling.core.errors import UserError
from sanderling.recipes.find import find_settings
from sanderling.runs.progress import Report
from sanderling.train.config import SftConfig
from sanderling.train.fit import OVERHEAD, Devices, described, plan_sft
from sanderling.train.sft.run import Job, Order, prepare, run_sft_command
from sanderling.train.shape import read_shape

MIB = 2**20


@pytest.fixture
def given(tmp_path: Path) -> Path:
    write_base(tmp_path / "base")
    write_data(tmp_path / "data.jsonl", 4)
    write_settings(tmp_path / "settings.toml")
    return tmp_path


def order(given: Path, *overrides: str, anyway: bool = False) -> Order:
    config = find_settings("sft", SftConfig, str(given / "settings.toml"), overrides)
    files = config.data.model_copy(update={"files": (given / "data.jsonl",)})
    return Order(config.model_copy(update={"model": given / "base", "data": files}), given / "run", anyway=anyway)


def card(mebibytes: float, **more: object) -> Callable[[], Devices]:
    """A card with so much room beside what CUDA takes."""
    found = replace(described("a card", mebibytes / 1024, 1), **more)
    return lambda: replace(found, bytes=found.bytes + OVERHEAD) if found.gpus else found


def begin(asked: Order, look: Callable[[], Devices], processes: int = 1) -> Job | None:
    return prepare(asked, Report(Console(file=io.StringIO())), processes, look)


def need(given: Path, *overrides: str, processes: int = 1) -> float:
    """What the plan says of the longest row there is, in MiB."""
    job = begin(order(given, *overrides, anyway=True), card(1e6))
    assert job is not None
    config = job.order.config
    batch = max(int(job.index.lengths[a : a + 4].sum()) for a in range(0, len(job.index.lengths), 4))
    trainer = config.trainer.model_copy(update={"micro_batch_tokens": min(batch, config.trainer.micro_batch_tokens)})
    for file in (given / "run").iterdir():
        file.unlink()
    devices = described("a card", 1e6, processes)
    return plan_sft(config.model_copy(update={"trainer": trainer}), devices, job.index.survey.longest).estimate.total / MIB


def parameters(given: Path) -> int:
    return read_shape(given / "base").parameters


def test_a_card_that_is_too_small_is_refused_with_the_knob_and_nothing_is_begun(given: Path) -> None:
    enough = need(given)
    with pytest.raises(UserError) as caught:
        run_sft_command(order(given), Report(Console(file=io.StringIO())), card(enough - 0.5))
    said = str(caught.value)
    assert 'set trainer.memory.recompute = "selective"' in said and "--anyway tries it" in said and "\n" not in said
    assert not (given / "run" / "sft.toml").exists() and not (given / "run" / "checkpoints").exists()
    assert begin(order(given, "trainer.memory.recompute=selective"), card(enough - 0.5)) is not None


def test_what_is_told_to_be_changed_may_be_changed(given: Path) -> None:
    with pytest.raises(UserError, match=r"lora\.rank"):
        begin(order(given), card(0.4))
    assert begin(order(given, "lora.rank=2"), card(need(given, "lora.rank=2"))) is not None


def test_anyway_tries_it_with_a_warning(given: Path) -> None:
    with pytest.warns(UserWarning, match="going on all the same"):
        assert begin(order(given, anyway=True), card(0.4)) is not None


def test_rows_count_as_long_as_they_are_not_as_they_might_be(given: Path) -> None:
    limits = ("data.max_tokens=2048", "trainer.micro_batch_tokens=100000")
    planned = plan_sft(order(given, *limits).config, described("a card", 1, 1)).estimate.total / MIB
    assert planned > 3 * need(given, *limits)
    assert begin(order(given, *limits), card(need(given, *limits) + 0.1)) is not None


@pytest.mark.parametrize("kind", ["fsdp", "replicate"])
def test_as_many_processes_as_there_are_share_the_work(kind: str, given: Path) -> None:
    enough = need(given, f"parallel.kind={kind}", processes=3)
    assert (enough < need(given)) is (kind == "fsdp")
    with pytest.raises(UserError, match="on each rank"):
        begin(order(given, f"parallel.kind={kind}"), card(enough - 0.1), 3)
    assert begin(order(given, f"parallel.kind={kind}"), card(enough + 0.1), 3) is not None


def test_a_model_of_unknown_sizes_is_not_judged(given: Path) -> None:
    file = given / "base" / "config.json"
    told = json.loads(file.read_text())
    del told["intermediate_size"]
    file.write_text(json.dumps(told))
    assert begin(order(given), card(0.001)) is not None
