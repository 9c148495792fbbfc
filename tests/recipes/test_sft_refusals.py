"""What `sanderling train sft` refuses before the first step: one sentence each, and nothing is begun."""

import io
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from safetensors.numpy import load_file, save_file
from sft_runs import write_base, write_data, write_settings

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.recipes.find import find_settings
from sanderling.runs.progress import Report
from sanderling.runs.run import DATABASE
from sanderling.train.config import SftConfig
from sanderling.train.row_source import SCHEMA
from sanderling.train.sft.run import Order, prepare, record_of, run_sft_command


@pytest.fixture
def given(tmp_path: Path) -> Path:
    write_base(tmp_path / "base")
    write_data(tmp_path / "data.jsonl", 4)
    write_settings(tmp_path / "settings.toml")
    return tmp_path


def order(given: Path, *overrides: str, data: str = "data.jsonl") -> Order:
    config = find_settings("sft", SftConfig, str(given / "settings.toml"), overrides)
    files = config.data.model_copy(update={"files": (given / data,) if data else ()})
    return Order(config.model_copy(update={"model": given / "base", "data": files}), given / "run")


def refused(asked: Order, processes: int = 1) -> str:
    """The sentence; what runs in `prepare` runs before torch is there."""
    with pytest.raises(UserError) as caught:
        prepare(asked, Report(Console(file=io.StringIO())), processes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write_rows(given: Path, ids: list[int], mask: list[bool], tokenizer: str | None = None) -> str:
    told = tokenizer or load_tokenizer(given / "base").fingerprint
    table = [{"trajectory": "t0", "group": "g", "ids": ids, "loss_mask": mask}]
    pq.write_table(pa.Table.from_pylist(table, schema=SCHEMA.with_metadata({"tokenizer": told})), given / "rows.parquet")
    return "rows.parquet"


def test_rows_of_another_tokenizer(given: Path) -> None:
    data = write_rows(given, [1, 2], [False, True], "other")
    assert "ids of tokenizer other, the model's is" in refused(order(given, data=data))
    assert not (given / "run" / "sft.toml").exists(), "no run was begun"


def test_rows_longer_than_the_model_sees(given: Path) -> None:
    data = write_rows(given, [1] * 2049, [False] + [True] * 2048)
    assert "Row t0 has 2,049 tokens, the model has 2,048 positions" in refused(order(given, data=data))
    config = json.loads((given / "base" / "config.json").read_text())
    config["rope_parameters"] = {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 2048,
        "rope_theta": 1e4,
    }
    (given / "base" / "config.json").write_text(json.dumps(config))
    assert prepare(order(given, data=data), Report(Console(file=io.StringIO())), 1) is not None, "stretched positions count"


def test_rows_without_a_trained_token(given: Path) -> None:
    assert "None of the 1 rows has a token to train" in refused(order(given, data=write_rows(given, [1, 2], [False, False])))


def test_ids_beyond_the_vocabulary(given: Path) -> None:
    assert "token 90,000, and the model's vocabulary ends" in refused(
        order(given, data=write_rows(given, [1, 90_000], [False, True]))
    )


def test_no_data_no_model_no_profile_nothing_that_is_there(given: Path) -> None:
    assert "name files of trajectories" in refused(order(given, data=""))
    assert "There is no file" in refused(order(given, data="nowhere.jsonl"))
    assert "give --profile" in refused(order(given, 'data.profile=""'))
    without = order(given)
    assert "give --model" in refused(Order(without.config.model_copy(update={"model": None}), without.out))
    write_rows(given, [1, 2], [False, True])
    mixed = without.config.data.model_copy(update={"files": (given / "data.jsonl", given / "rows.parquet")})
    assert "holds rows, others hold trajectories" in refused(
        Order(without.config.model_copy(update={"data": mixed}), without.out)
    )
    assert "no rows to train on" in refused(order(given, "data.max_tokens=5"))


def sharded(weights: Path) -> None:
    names = {name: f"model-0000{1 + (n % 2)}-of-00002.safetensors" for n, name in enumerate(load_file(weights))}
    weights.rename(weights.with_name("model-00001-of-00002.safetensors"))
    weights.with_name("model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


def adapter(weights: Path) -> None:
    weights.with_name("config.json").rename(weights.with_name("adapter_config.json"))


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (sharded, "lack the file model-00002-of-00002.safetensors: finish the download"),
        (adapter, "is an adapter and no model"),
        (Path.unlink, "has no weights"),
    ],
)
def test_a_download_that_was_not_finished(given: Path, harm: Callable[[Path], None], sentence: str) -> None:
    harm(given / "base" / "model.safetensors")
    assert sentence in refused(order(given))


def test_weights_that_are_no_numbers(given: Path) -> None:
    tensors = load_file(given / "base" / "model.safetensors")
    name = next(name for name in tensors if "q_proj" in name)
    tensors[name][3] = np.nan
    save_file(tensors, given / "base" / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=rf"{name} holds NaN or infinity"):
        run_sft_command(order(given), Report(Console(file=io.StringIO())))


def begun(given: Path, *overrides: str) -> None:
    assert prepare(order(given, *overrides), Report(Console(file=io.StringIO())), 1) is not None


def test_a_directory_of_another_run_and_what_differs(given: Path) -> None:
    begun(given)
    begun(given, "save_every=7", "trainer.memory.recompute=full", "parallel.kind=none", "trainer.micro_batch_tokens=300")
    said = refused(order(given, "trainer.lr=2e-2", "lora.rank=3", "seed=9"))
    assert "lora.rank 0, now 3; seed 3, now 9; trainer.lr 0.01, now 0.02" in said
    write_data(given / "data.jsonl", 5)
    assert "other data" in refused(order(given, "trainer.lr=2e-2"))
    write_base(given / "base", seed=2)
    assert "other model" in refused(order(given, "trainer.lr=2e-2"))


def test_another_number_of_processes_where_the_loss_depends_on_it(given: Path) -> None:
    def started(asked: Order, processes: int) -> bool:
        return prepare(asked, Report(Console(file=io.StringIO())), processes) is not None

    by_cut = "trainer.aggregation=micro_batch_mean"
    assert started(order(given, by_cut), 2)
    assert "a run of 2 parts a batch, now 1" in refused(order(given, by_cut))
    assert "a run of 2 parts a batch, now 4" in refused(order(given, by_cut), 4)
    assert started(order(given, by_cut, "parallel.context=2"), 4), "four that share rows by twos hold two parts"
    (given / "run" / "model").mkdir()
    (given / "run" / "model" / "config.json").write_text("{}")
    assert not started(order(given, by_cut), 2), "a finished run changes no more"


def test_a_checkpoint_of_another_architecture(given: Path) -> None:
    run_sft_command(order(given, "save_every=1"), Report(Console(file=io.StringIO())))
    (given / "run" / "model").rename(given / "gone")
    saved = max((given / "run" / "checkpoints").iterdir()) / "config.json"
    config = json.loads(saved.read_text())
    saved.write_text(json.dumps({**config, "num_hidden_layers": 5}))
    with pytest.raises(UserError, match=r"another architecture \(num_hidden_layers 5; .* has 2\)"):
        run_sft_command(order(given, "save_every=1"), Report(Console(file=io.StringIO())))


def test_fresh_empties_runs_only(given: Path) -> None:
    begun(given)
    record_of(given / "run").check_fresh([given / "base"])
    record_of(given / "run").empty()
    assert list((given / "run").iterdir()) == []
    record_of(given / "run").check_fresh([])
    begun(given)
    (given / "run" / DATABASE).write_text("x" * 5000)
    with pytest.raises(UserError, match="is damaged"):
        record_of(given / "run").empty()
    (given / "run" / DATABASE).unlink()
    record_of(given / "run").check_fresh([])
    record_of(given / "run").empty()
    assert list((given / "run").iterdir()) == []
    record_of(given / "nowhere").check_fresh([])
    with pytest.raises(UserError, match="not the directory of a run"):
        record_of(given / "base").check_fresh([])


def test_fresh_deletes_nothing_that_is_read_and_nothing_before_data_is_found(given: Path) -> None:
    begun(given)
    held = sorted((given / "run").rglob("*"))
    asked = replace(order(given), fresh=True)
    inside = replace(asked, config=asked.config.model_copy(update={"model": given / "run" / "model"}))
    data = asked.config.data
    nowhere, longer, unknown = (
        replace(asked, config=asked.config.model_copy(update={"data": data.model_copy(update=changed)}))
        for changed in ({"files": (given / "typo.jsonl",)}, {"max_tokens": 2}, {"profile": "nope"})
    )
    shutil.copytree(given / "base", given / "run" / "model", dirs_exist_ok=True)
    refusals = (inside, "lies in .*, which --fresh empties"), (nowhere, "typo"), (longer, "train"), (unknown, "no profile")
    for one, told in refusals:
        with pytest.raises(UserError, match=told):
            run_sft_command(one, Report(Console(file=io.StringIO())))
    assert set((given / "run").rglob("*")) >= set(held) and not (given / ".run.fresh").exists()
    shutil.rmtree(given / "run" / "model")
    job = prepare(asked, Report(Console(file=io.StringIO())), 1)
    assert job is not None and (given / "run" / "rows.parquet").is_file() and not (given / ".run.fresh").exists()


def test_a_directory_of_something_else_is_neither_written_nor_taken_for_a_result(given: Path) -> None:
    write_base(given / "run" / "model")
    assert "holds other things (model) and no run" in refused(order(given))
    (given / "run" / "model").rename(given / "elsewhere")
    (given / "run" / "rows.parquet").write_bytes(b"of a run that was killed before it began")
    begun(given)


def test_settings_that_contradict_each_other_and_unknown_views(given: Path) -> None:
    with pytest.raises(UserError, match="set one of them to 0"):
        order(given, "trainer.warmup_steps=3")
    with pytest.raises(UserError, match="no view 'tensorbord'"):
        run_sft_command(order(given, 'watch=["tensorbord"]'), Report(Console(file=io.StringIO())))


def test_names_that_are_no_text_are_names(given: Path) -> None:
    name = os.fsdecode(b"data\xff.jsonl")
    (given / "data.jsonl").rename(given / name)
    assert prepare(order(given, data=name), Report(Console(file=io.StringIO())), 1) is not None
    assert prepare(order(given, data=name), Report(Console(file=io.StringIO())), 1) is not None
