"""Models of random weights and their tokenizers, by hand and by the command."""

import io
import json
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import tokenizers
import torch
from pydantic import ValidationError
from rich.console import Console
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import Qwen3Config, Qwen3ForCausalLM
from typer.testing import CliRunner

from sanderling.cli.model import app
from sanderling.core.chat import Tokenizer, load_tokenizer
from sanderling.core.errors import UserError
from sanderling.policy.model_directory import load_model
from sanderling.runs.progress import Report
from sanderling.train import random_weights
from sanderling.train.random_model import (
    CONTROL_TOKENS,
    IM_END,
    PROTOCOL_TAGS,
    PUBLISHED_VOCABULARY,
    SIZES,
    ModelInit,
    ModelShape,
    init_model,
    model_settings,
    train_tokenizer,
    write_random_model,
)
from sanderling.train.random_weights import write_random_weights
from sanderling.train.shape import shape_of
from sanderling.world.disk.store import build_world
from sanderling.world.encyclopedia import generate_pages

SHAPE = ModelShape(hidden=16, layers=1, heads=2, kv_heads=1, head_dim=8, intermediate=16)
PHRASE = "https://atlas.example/wiki/"


@pytest.fixture(scope="module")
def tokenizer() -> tokenizers.Tokenizer:
    return train_tokenizer((page.text for page in generate_pages(60, 1)), 600, (PHRASE,))


@pytest.fixture(scope="module")
def written(tokenizer: tokenizers.Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    write_random_model(directory, tokenizer, SHAPE, 7)
    return directory


def test_same_texts_same_tokenizer(tokenizer: tokenizers.Tokenizer) -> None:
    again = train_tokenizer((page.text for page in generate_pages(60, 1)), 600, (PHRASE,))
    assert again.to_str() == tokenizer.to_str()
    assert tokenizer.get_vocab_size(with_added_tokens=True) == 600


def test_control_tokens_tags_and_phrases_are_one_token(tokenizer: tokenizers.Tokenizer) -> None:
    for text in (*CONTROL_TOKENS, *PROTOCOL_TAGS, PHRASE):
        assert len(tokenizer.encode(text).ids) == 1


def test_a_name_is_spelled_alike_wherever_it_stands(written: Path) -> None:
    fast = Tokenizer(written)
    name = fast.encode("Ziston")
    for before in ("", " ", "the painter ", PHRASE, '"', "_", "("):
        assert fast.encode(before + "Ziston")[-len(name) :] == name


@pytest.mark.parametrize("text", ["", "é ü 京都 \u200b\n\t  x", "<|im_end|> in a page", "1912 and 19 12", "a" * 500])
def test_text_comes_back_as_it_was(written: Path, text: str) -> None:
    fast = Tokenizer(written)
    assert fast.decode(fast.encode(text)) == text
    assert fast.token_id(IM_END) not in fast.encode(text)


def test_the_caller_s_random_numbers_are_left_alone(tokenizer: tokenizers.Tokenizer, tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    write_random_model(tmp_path, tokenizer, SHAPE, 1)
    assert torch.equal(torch.rand(3), expected)


def test_heads_that_cannot_share_are_refused() -> None:
    with pytest.raises(ValidationError, match="multiple of kv_heads"):
        ModelShape(heads=5, kv_heads=2)


PARAMETERS = {
    "0.6b": 596_049_920, "1.7b": 1_720_574_976, "4b": 4_022_468_096, "4b-2507": 4_022_468_096, "8b": 8_190_735_360,
    "14b": 14_768_307_200, "32b": 32_762_123_264,
}  # fmt: skip
"""As the released weights have them."""
SMALL = ModelShape(hidden=64, layers=3, heads=4, kv_heads=2, head_dim=16, intermediate=96, tied=False)


def config(shape: ModelShape = SMALL, vocabulary: int = 500, **more: object) -> Qwen3Config:
    return Qwen3Config.from_dict({**model_settings(shape, vocabulary), "pad_token_id": 7, **more})


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_published_sizes_have_the_published_parameters(name: str) -> None:
    settings = model_settings(SIZES[name], PUBLISHED_VOCABULARY)
    assert shape_of(settings, name).parameters == PARAMETERS[name]
    with torch.device("meta"):
        model = Qwen3ForCausalLM(Qwen3Config.from_dict(settings))
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[name]


def test_positions_turn_pairs() -> None:
    with pytest.raises(ValidationError, match="must be even"):
        ModelShape(head_dim=15)


@pytest.mark.parametrize("tied", [True, False])
def test_what_is_drawn_is_what_transformers_draws(tied: bool, tmp_path: Path) -> None:
    made = config(SMALL.model_copy(update={"tied": tied}), attention_bias=True)
    write_random_weights(tmp_path, made, 3, torch.float32)
    made.save_pretrained(tmp_path)
    ours, theirs = load_model(tmp_path).state_dict(), Qwen3ForCausalLM(made).state_dict()
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert ours[name].shape == tensor.shape
        assert float(ours[name].mean()) == pytest.approx(float(tensor.mean()), abs=0.003), name
        assert float(ours[name].std()) == pytest.approx(float(tensor.std()), rel=0.1, abs=1e-9), name
    assert not ours["model.embed_tokens.weight"][7].any()
    assert ("lm_head.weight" in load_file(tmp_path / "model.safetensors")) is not tied


def test_shards_change_no_number_and_precision_only_rounds(tmp_path: Path) -> None:
    whole, parts, rounded = (tmp_path / name for name in ("whole", "parts", "rounded"))
    for place in (whole, parts, rounded):
        place.mkdir()
    drawn: list[int] = []
    write_random_weights(whole, config(), 3, torch.float32, drawn.append)
    write_random_weights(parts, config(), 3, torch.float32, shard_bytes=50_000)
    write_random_weights(rounded, config(), 3, torch.bfloat16)
    expected = load_file(whole / "model.safetensors")
    assert sum(drawn) == sum(tensor.numel() for tensor in expected.values())
    index = json.loads((parts / "model.safetensors.index.json").read_text())
    files = sorted(path.name for path in parts.glob("*.safetensors"))
    assert sorted(set(index["weight_map"].values())) == files and len(files) > 3
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in expected.values())
    found = {name: tensor for file in files for name, tensor in load_file(parts / file).items()}
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor)
        assert index["weight_map"][name] in files
        assert torch.equal(load_file(rounded / "model.safetensors")[name], tensor.bfloat16())
    assert all(len(load_file(parts / file)) == 1 or (parts / file).stat().st_size < 60_000 for file in files)


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
