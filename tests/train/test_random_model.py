"""Models of random weights and their tokenizers, by hand and by the command."""

import io
import json
from pathlib import Path

import pytest
import tokenizers
import torch
from rich.console import Console
from safetensors.torch import load_file
from transformers import Qwen3Config, Qwen3ForCausalLM
from typer.testing import CliRunner

from sanderling.cli.train import models as app
from sanderling.core.chat import Tokenizer, load_tokenizer
from sanderling.core.errors import UserError
from sanderling.policy.model_directory import load_model
from sanderling.runs.progress import Report
from sanderling.train import random_model
from sanderling.train.config import Precision
from sanderling.train.fit import read_shape
from sanderling.world.disk.building import build_world
from sanderling.world.encyclopedia import generate_pages

SHAPE = random_model.ModelShape(hidden=64, layers=3, heads=4, kv_heads=2, head_dim=16, intermediate=96)
PHRASE = "https://atlas.example/wiki/"


@pytest.fixture(scope="module")
def tokenizer() -> tokenizers.Tokenizer:
    return random_model.train_tokenizer((page.text for page in generate_pages(60, 1)), 600, (PHRASE,))


@pytest.fixture(scope="module")
def written(tokenizer: tokenizers.Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    random_model.write_random_model(directory, tokenizer, SHAPE, 7)
    return directory


def test_same_texts_same_tokenizer_and_protocol_and_phrases_are_one_token(tokenizer: tokenizers.Tokenizer) -> None:
    again = random_model.train_tokenizer((page.text for page in generate_pages(60, 1)), 600, (PHRASE,))
    assert again.to_str() == tokenizer.to_str()
    assert tokenizer.get_vocab_size(with_added_tokens=True) == 600
    for text in (*random_model.CONTROL_TOKENS, *random_model.PROTOCOL_TAGS, PHRASE):
        assert len(tokenizer.encode(text).ids) == 1


def test_a_name_is_spelled_alike_wherever_it_stands(written: Path) -> None:
    fast = Tokenizer(written)
    name = fast.encode("Ziston")
    for before in ("", " ", "the painter ", PHRASE, '"', "_", "("):
        assert fast.encode(before + "Ziston")[-len(name) :] == name


PARAMETERS = {
    "0.6b": 596_049_920, "1.7b": 1_720_574_976, "4b": 4_022_468_096, "4b-2507": 4_022_468_096, "8b": 8_190_735_360,
    "14b": 14_768_307_200, "32b": 32_762_123_264,
}  # fmt: skip
"""As the released weights have them."""


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_published_sizes_have_the_published_parameters(name: str, tmp_path: Path) -> None:
    settings = random_model.model_settings(random_model.SIZES[name], random_model.PUBLISHED_VOCABULARY)
    (tmp_path / "config.json").write_text(json.dumps(settings))
    assert read_shape(tmp_path).parameters == PARAMETERS[name]
    with torch.device("meta"):
        model = Qwen3ForCausalLM(Qwen3Config.from_dict(settings))
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("tied", [True, False])
def test_what_is_drawn_is_what_transformers_draws(tied: bool, tokenizer: tokenizers.Tokenizer, tmp_path: Path) -> None:
    torch.manual_seed(5)
    random_model.write_random_model(tmp_path / "m", tokenizer, SHAPE.model_copy(update={"tied": tied}), 3)
    after = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(3), after), "the caller's random numbers are left alone"
    made = load_model(tmp_path / "m")
    ours, theirs = made.state_dict(), Qwen3ForCausalLM(made.config).state_dict()
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert ours[name].shape == tensor.shape
        assert float(ours[name].mean()) == pytest.approx(float(tensor.mean()), abs=0.003), name
        assert float(ours[name].std()) == pytest.approx(float(tensor.std()), rel=0.1, abs=1e-9), name
    assert not ours["model.embed_tokens.weight"][made.config.pad_token_id].any()
    random_model.write_random_model(
        tmp_path / "half", tokenizer, SHAPE.model_copy(update={"tied": tied}), 3, Precision.BFLOAT16
    )
    for name, tensor in load_file(tmp_path / "half" / "model.safetensors").items():
        assert torch.equal(tensor, ours[name].bfloat16()), "precision only rounds"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("worlds") / "one"
    build_world(directory, generate_pages(60, 1), name="one", source="test")
    return directory


def quiet() -> Report:
    return Report(Console(file=io.StringIO()))


def refused(**wish: object) -> str:
    with pytest.raises(UserError) as caught:
        random_model.init_model(random_model.ModelInit.model_validate(wish), quiet())
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_command_makes_a_model_that_loads_the_same_again(world: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["init", "--out", str(tmp_path / "m"), "--world", str(world), "--dtype", "float32"])
    assert done.exit_code == 0, done.output
    loaded, tokens = load_model(tmp_path / "m"), load_tokenizer(tmp_path / "m")
    assert loaded.config.vocab_size == tokens.vocab_size <= 4096, "tiny: a row for each token"
    parameters = sum(parameter.numel() for parameter in loaded.parameters())
    assert f"a Qwen3 of {parameters:,} parameters" in done.output.replace("\n", " ")
    assert loaded.config.eos_token_id == tokens.token_id("<|im_end|>")
    assert tokens.encode("a \ud800 half") == tokens.encode("a \ufffd half"), "no text ends a run"
    assert {path.stat().st_mode for path in (tmp_path / "m").iterdir()} == {(tmp_path / "m" / "config.json").stat().st_mode}
    again = {"out": tmp_path / "copied", "tokenizer": tmp_path / "m", "dtype": Precision.FLOAT32}
    for seed in (0, 1):
        random_model.init_model(
            random_model.ModelInit.model_validate(again | {"seed": seed, "out": tmp_path / f"seed {seed}"}), quiet()
        )
        for file in ("config.json", "tokenizer.json", "model.safetensors"):
            same = (tmp_path / "m" / file).read_bytes() == (tmp_path / f"seed {seed}" / file).read_bytes()
            assert same is (seed == 0 or file != "model.safetensors")


def test_what_is_in_the_way_is_one_sentence(world: Path, written: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    assert "give --world" in refused(out=out)
    assert "give --world" in refused(out=out, world=world, tokenizer=written)
    assert "no size '7b': choose tiny, 0.6b" in refused(out=out, size="7b", world=world)
    assert "no world at" in refused(out=out, world=tmp_path / "nowhere")
    assert "No tokenizer.json" in refused(out=out, tokenizer=tmp_path)
    assert not out.exists()
    for taken in (written, written / "config.json"):
        assert "is not an empty directory" in refused(out=taken, tokenizer=written)
