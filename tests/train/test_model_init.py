"""`sanderling model init` as a person meets it: a model over a world, and one sentence for whatever is wrong."""

import io
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from rich.console import Console
from safetensors import SafetensorError
from typer.testing import CliRunner

from sanderling.cli.model import app
from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.policy.model_directory import load_model
from sanderling.runs.progress import Report
from sanderling.train import random_weights
from sanderling.train.random_model import ModelInit, init_model
from sanderling.world.disk.store import build_world
from sanderling.world.encyclopedia import generate_pages


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("worlds") / "one"
    build_world(directory, generate_pages(60, 1), name="one", source="test")
    return directory


@pytest.fixture(scope="module")
def model(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "tiny"
    init_model(ModelInit(out=directory, world=world, vocab=500), quiet())
    return directory


def quiet() -> Report:
    return Report(Console(file=io.StringIO()))


def refused(wish: ModelInit) -> str:
    with pytest.raises(UserError) as caught:
        init_model(wish, quiet())
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_command_makes_a_model_that_loads(world: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["init", "--out", str(tmp_path / "m"), "--world", str(world), "--dtype", "float32"])
    assert done.exit_code == 0, done.output
    loaded, tokens = load_model(tmp_path / "m"), load_tokenizer(tmp_path / "m")
    assert loaded.config.vocab_size == tokens.vocab_size <= 4096, "tiny: a row for each token"
    parameters = sum(parameter.numel() for parameter in loaded.parameters())
    assert f"a Qwen3 of {parameters:,} parameters" in done.output.replace("\n", " ")
    assert loaded.config.eos_token_id == tokens.token_id("<|im_end|>")
    assert {path.stat().st_mode for path in (tmp_path / "m").iterdir()} == {(tmp_path / "m" / "config.json").stat().st_mode}


def test_the_same_wish_gives_the_same_files(world: Path, model: Path, tmp_path: Path) -> None:
    init_model(ModelInit(out=tmp_path / "again", world=world, vocab=500), quiet())
    init_model(ModelInit(out=tmp_path / "copied", tokenizer=model, vocab=500), quiet())
    init_model(ModelInit(out=tmp_path / "other", world=world, vocab=500, seed=1), quiet())
    for file in ("config.json", "tokenizer.json", "model.safetensors"):
        bytes_of = {
            name: (path / file).read_bytes() for name, path in [("", model), *((p.name, p) for p in tmp_path.iterdir())]
        }
        assert bytes_of[""] == bytes_of["again"] == bytes_of["copied"]
        assert (bytes_of[""] == bytes_of["other"]) is (file != "model.safetensors")


def test_wishes_that_say_too_much_or_too_little(world: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    assert "give --world" in refused(ModelInit(out=out))
    assert "give --world" in refused(ModelInit(out=out, world=world, tokenizer=model))
    assert "no size '7b': choose tiny, 0.6b" in refused(ModelInit(out=out, size="7b", world=world))
    assert "too small for a tokenizer: give --vocab 267" in refused(ModelInit(out=out, world=world, vocab=100))
    assert "The tokenizer has 500 tokens" in refused(ModelInit(out=out, tokenizer=model, vocab=300))
    assert "no world at" in refused(ModelInit(out=out, world=tmp_path / "nowhere"))
    assert "No tokenizer.json" in refused(ModelInit(out=out, tokenizer=tmp_path))
    assert not out.exists()


def test_a_place_that_is_taken_is_left_alone(model: Path, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    init_model(ModelInit(out=tmp_path / "m", tokenizer=model), quiet())
    before = (tmp_path / "m" / "model.safetensors").read_bytes()
    assert "is not empty (it holds config.json)" in refused(ModelInit(out=tmp_path / "m", tokenizer=model, seed=1))
    assert "is a file" in refused(ModelInit(out=tmp_path / "m" / "config.json", tokenizer=model))
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == before


def test_a_disk_without_room_is_told_before_and_amid(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda place: usage(10**12, 10**12 - 10**6, 10**6))
        assert "The weights take 1.19 GB and the disk of" in refused(
            ModelInit(out=tmp_path / "m", size="0.6b", tokenizer=model)
        )

    def full(*_: object, **__: object) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patched:
        patched.setattr(random_weights, "save_torch_state_dict", full)
        assert "No space left on device (os error 28)): free some space" in refused(
            ModelInit(out=tmp_path / "m", tokenizer=model)
        )
    assert not (tmp_path / "m").exists()
    init_model(ModelInit(out=tmp_path / "m", tokenizer=model), quiet())


def test_what_a_kill_left_is_no_hindrance(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(random_weights, "save_torch_state_dict", killed)
        with pytest.raises(KeyboardInterrupt):
            init_model(ModelInit(out=tmp_path / "m", tokenizer=model), quiet())
    assert not (tmp_path / "m" / "config.json").exists()
    init_model(ModelInit(out=tmp_path / "m", tokenizer=model), quiet())
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    assert not any(path.is_dir() for path in (tmp_path / "m").iterdir())
