"""`sanderling train sft`: from trajectories to a model, and what it refuses before the first step, a sentence each."""

import io
import json
import runpy
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from rl_runs import write_given
from safetensors.numpy import load_file
from sft_runs import weights, write_base, write_data, write_settings

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.recipes.find import find_settings
from sanderling.runs.files import locked
from sanderling.runs.progress import Report
from sanderling.train.checkpoint import merge_adapter
from sanderling.train.config import SftConfig
from sanderling.train.fit import OVERHEAD, Devices, described
from sanderling.train.metrics import read_metrics
from sanderling.train.row_source import SCHEMA
from sanderling.train.sft import Job, Order, plan_sft, prepare, run_sft_command

MIB = 2**20
Look = Callable[[], Devices]
CPU: Look = lambda: Devices("processor", 1, 2**40, gpus=False)  # noqa: E731


@pytest.fixture
def given(tmp_path: Path) -> Path:
    write_base(tmp_path / "base")
    write_data(tmp_path / "data.jsonl", 4)
    write_settings(tmp_path / "settings.toml")
    return tmp_path


def order(given: Path, *overrides: str, data: str = "data.jsonl", **more: bool) -> Order:
    config = find_settings("sft", SftConfig, str(given / "settings.toml"), overrides)
    files = config.data.model_copy(update={"files": (given / data,) if data else ()})
    return Order(config.model_copy(update={"model": given / "base", "data": files}), given / "run", **more)


def run(asked: Order) -> str:
    console = Console(file=(text := io.StringIO()), width=200)
    run_sft_command(asked, Report(console))
    return text.getvalue()


def begin(asked: Order, look: Look = CPU, processes: int = 1) -> Job | None:
    return prepare(asked, Report(Console(file=io.StringIO())), processes, look)


def refused(asked: Order, look: Look = CPU, processes: int = 1) -> str:
    with pytest.raises(UserError) as caught:
        begin(asked, look, processes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# -- from trajectories to a model --------------------------------------------------------------------------------------------


def test_while_an_adapter_is_merged_nobody_else_has_the_directory(given: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def merging(base: Path, adapter: Path, dtype: object) -> object:
        with pytest.raises(UserError), locked(given / "run"):
            pass
        return merge_adapter(base, adapter, dtype)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr("sanderling.train.sft.merge_adapter", merging)
    asked = order(given, "lora.rank=2", "merge=true", "max_steps=1")
    assert "The model is in" in run(asked) and (given / "run" / "model" / "config.json").is_file()


def test_a_run_ends_in_a_model_a_second_one_does_nothing_and_its_rows_give_the_same_weights(given: Path) -> None:
    write_data(given / "data.jsonl")
    said = run(order(given))
    assert "12 trajectories made 12 rows." in said and "6 steps." in said
    assert f"The model is in {given}/run/model: ask it with" in said
    metrics = read_metrics(given / "run" / "metrics.jsonl")
    assert [line["step"] for line in metrics] == [1, 2, 3, 4, 5, 6] and metrics[-1]["loss"] < metrics[0]["loss"]
    assert [line["rows"] for line in metrics] == [4] * 6
    before = (given / "run" / "model" / "model.safetensors").stat().st_mtime_ns
    assert "finished before" in run(order(given))
    assert (given / "run" / "model" / "model.safetensors").stat().st_mtime_ns == before
    (given / "run" / "rows.parquet").rename(given / "made.parquet")
    ours = weights(given / "run" / "model")
    run(order(given, data="made.parquet", fresh=True))
    theirs = weights(given / "run" / "model")
    assert ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name]) for name in ours)


# -- what is refused ---------------------------------------------------------------------------------------------------------


def write_rows(given: Path, ids: list[int], mask: list[bool], tokenizer: str | None = None) -> str:
    told = tokenizer or load_tokenizer(given / "base").fingerprint
    table = [{"trajectory": "t0", "group": "g", "ids": ids, "loss_mask": mask}]
    pq.write_table(pa.Table.from_pylist(table, schema=SCHEMA.with_metadata({"tokenizer": told})), given / "rows.parquet")
    return "rows.parquet"


@pytest.mark.parametrize(
    ("ids", "mask", "tokenizer", "sentence"),
    [
        ([1, 2], [False, True], "other", "ids of tokenizer other, the model's is"),
        ([1] * 2049, [False] + [True] * 2048, None, "The longest row has 2,049 tokens, the model has 2,048 positions"),
        ([1, 2], [False, False], None, "None of the 1 rows has a token to train"),
    ],
)
def test_rows_that_do_not_fit_the_model(given: Path, ids: list[int], mask: list[bool], tokenizer: str | None, sentence: str):
    assert sentence in refused(order(given, data=write_rows(given, ids, mask, tokenizer)))
    assert not (given / "run" / "sft.toml").exists(), "no run was begun"


def test_processes_are_started_by_torchrun_or_by_the_command(given: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match="torchrun has started the processes already: leave --processes out"):
        run(replace(order(given), processes=2))


def test_no_data_no_model_no_profile_nothing_that_is_there(given: Path) -> None:
    assert "name files of trajectories" in refused(order(given, data=""))
    assert "There is no file" in refused(order(given, data="nowhere.jsonl"))
    assert "give --profile" in refused(order(given, 'data.profile=""'))
    without = order(given)
    assert "give --model" in refused(Order(without.config.model_copy(update={"model": None}), without.out))
    write_rows(given, [1, 2], [False, True])
    mixed = without.config.data.model_copy(update={"files": (given / "data.jsonl", given / "rows.parquet")})
    asked = Order(without.config.model_copy(update={"data": mixed}), without.out)
    assert "holds rows, others hold trajectories" in refused(asked)
    assert "no rows to train on" in refused(order(given, "data.max_tokens=5"))
    still = refused(order(given, "max_steps=1", "trainer.warmup_from_zero=true"))
    assert "run is 1 step, in which the learning rate is still 0" in still and not (given / "run" / "run.db").exists()
    with pytest.raises(UserError, match="warmup_steps and warmup_share are both set: set one of them to 0"):
        order(given, "trainer.warmup_steps=3")
    with pytest.raises(UserError, match="Nothing says how long rows are: give --row-tokens, or"):
        plan_sft(order(given, 'data.profile=""').config, CPU())


def sharded(weights: Path) -> None:
    names = {name: f"model-0000{1 + (n % 2)}-of-00002.safetensors" for n, name in enumerate(load_file(weights))}
    weights.rename(weights.with_name("model-00001-of-00002.safetensors"))
    weights.with_name("model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [(sharded, "lack the file model-00002-of-00002.safetensors: finish the download"), (Path.unlink, "has no weights")],
)
def test_a_download_that_was_not_finished(given: Path, harm: Callable[[Path], None], sentence: str) -> None:
    harm(given / "base" / "model.safetensors")
    assert sentence in refused(order(given))


def test_a_directory_of_another_run_and_what_differs(given: Path) -> None:
    assert begin(order(given)) is not None
    free = ("save_every=7", "trainer.memory.recompute=full", "parallel.kind=none", "trainer.micro_batch_tokens=300")
    assert begin(order(given, *free)) is not None
    said = refused(order(given, "trainer.lr=2e-2", "lora.rank=3", "seed=9"))
    assert "lora.rank was 0 and is 3; seed was 3 and is 9; trainer.lr was 0.01 and is 0.02" in said
    write_data(given / "data.jsonl", 5)
    assert "other data" in refused(order(given))
    write_base(given / "base", seed=2)
    assert "other model" in refused(order(given))


def test_another_number_of_processes_where_the_loss_depends_on_it(given: Path) -> None:
    by_cut = "trainer.aggregation=micro_batch_mean"
    assert begin(order(given, by_cut), processes=2) is not None
    for processes in (1, 4):
        assert "number of parts that batches are dealt into was " in refused(order(given, by_cut), processes=processes)
    shared = order(given, by_cut, "parallel.context=2")
    assert begin(shared, processes=4) is not None, "four that share rows by twos hold two parts"


def test_fresh_empties_a_run_and_nothing_else(given: Path) -> None:
    assert begin(order(given)) is not None
    fresh = replace(order(given, "seed=9"), fresh=True)
    inside = replace(fresh, config=fresh.config.model_copy(update={"model": write_base(given / "run" / "model")}))
    assert "which --fresh empties" in refused(inside)
    assert "typo" in refused(replace(order(given, data="typo.jsonl"), fresh=True))
    (given / "run" / "old").touch()
    assert begin(fresh) is not None and not (given / "run" / "old").exists()
    (given / "papers").mkdir()
    (given / "papers" / "thesis.tex").touch()
    assert "not the directory of a run" in refused(replace(fresh, out=given / "papers"))


def test_a_directory_of_something_else_is_neither_written_nor_taken_for_a_result(given: Path) -> None:
    write_base(given / "run" / "model")
    assert "holds other things (model) and no run" in refused(order(given))
    (given / "run" / "model").rename(given / "elsewhere")
    (given / "run" / "rows.parquet").write_bytes(b"of a run that was killed before it began")
    assert begin(order(given)) is not None


# -- devices that are too small ----------------------------------------------------------------------------------------------


def card(mebibytes: float) -> Look:
    """A card with so much room beside what CUDA takes."""
    return lambda: replace(found := described("a card", mebibytes / 1024, 1), bytes=found.bytes + OVERHEAD)


def need(given: Path, *overrides: str, processes: int = 1) -> float:
    """What the plan says of the longest row there is, in MiB."""
    asked = replace(order(given, *overrides), out=given / "looked at")
    job = begin(asked, card(1e6), processes)
    assert job is not None
    batch = max(int(job.index.lengths[a : a + 4].sum()) for a in range(0, len(job.index.lengths), 4))
    trainer = asked.config.trainer.model_copy(
        update={"micro_batch_tokens": min(batch, asked.config.trainer.micro_batch_tokens)}
    )
    config = asked.config.model_copy(update={"trainer": trainer})
    for file in asked.out.iterdir():
        file.unlink()
    return plan_sft(config, described("a card", 1e6, processes), job.index.survey.longest).estimate.total / MIB


def test_a_card_that_is_too_small_is_warned_of_with_the_knobs(given: Path) -> None:
    enough = need(given)
    with pytest.warns(UserWarning, match=r"set trainer.memory.recompute=full .*: going on"):
        assert begin(order(given), card(enough - 0.5)) is not None
    with warnings.catch_warnings(action="error"):
        assert begin(order(given, "trainer.memory.recompute=full"), card(enough - 0.5)) is not None


# -- The examples that train: on trajectories, and by reinforcement with an estimator written outside the package ----------

EXAMPLES = Path(__file__).parents[2] / "examples"


def ran(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object) -> str:
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out.splitlines()[-1]


@pytest.mark.filterwarnings("ignore")
def test_examples_train(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    given = write_given(tmp_path)
    write_data(given / "data.jsonl")
    few = ["epochs=1", "data.profile=tiny", "trainer.lr=1e-3"]
    adapter = ran("train_sft", capsys, monkeypatch, given / "base", given / "data.jsonl", given / "sft", *few)
    assert (Path(adapter) / "adapter_config.json").is_file()
    sets = (
        "rl.steps=1", "rl.questions_per_step=2", "rl.group_size=2", "rl.selection.every=0", "rollout.turn_tokens=8",
        "rollout.max_turns=2",
    )  # fmt: skip
    model = ran("train_rl", capsys, monkeypatch, given / "base", given / "q1.jsonl", given / "w1", given / "rl", *sets)
    assert (Path(model) / "config.json").is_file()
    assert "own_estimator.py:above_average" in (given / "rl" / "rl.toml").read_text()
    (line,) = (given / "rl" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["step"] == 1
