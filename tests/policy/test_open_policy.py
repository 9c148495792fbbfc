"""Specifications on the command line, right and wrong."""

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from policy_tiny import model_directory
from safetensors.torch import load_file, save_file
from scripted_server import plain, serve

from sanderling.core.errors import UserError
from sanderling.core.types import Message, Role, Sampling
from sanderling.policy.contract import Delta, SampleKey, ScriptedPolicy
from sanderling.policy.load import open_policy, place_of
from sanderling.policy.model_directory import load_model
from sanderling.policy.transformers_policy import TransformersPolicy

KEY = SampleKey(seed=0, question="q", attempt=0, turn=0)


async def test_a_url_is_a_chat_endpoint_with_a_key_from_the_environment(monkeypatch):
    monkeypatch.setenv("MY_KEY", "k-1")
    reply = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    with serve(plain(reply)) as server:
        policy = open_policy(f"{server.url}?key_env=MY_KEY&context=4096#some/model")
        message = Message(role=Role.USER, content="a")
        done = await policy.open(KEY).generate(Delta((message,)), Sampling(), KEY)
    assert (policy.name, policy.context_length, policy.tokenizer, done.text) == ("some/model", 4096, None, "hi")
    path, body, headers = server.asked[0]
    assert path == "/v1/chat/completions" and body["model"] == "some/model" and headers["Authorization"] == "Bearer k-1"


def test_a_tokenizer_makes_it_token_level(tmp_path):
    vocabulary = {"<|im_end|>": 0, "a": 1}
    file = {"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "a"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(file))
    policy = open_policy(f"http://localhost:1/v1?tokenizer={tmp_path}#m")
    assert policy.tokenizer is not None and policy.tokenizer.token_id("<|im_end|>") == 0


@pytest.mark.parametrize(
    "spec",
    [
        "no/such/directory", "http://localhost:8000/v1", "http:///v1#model", "http://localhost:1/v1?keyenv=X#model",
        "http://localhost:1/v1?key_env=SANDERLING_SURELY_UNSET#model", "http://localhost:1/v1?context=many#model",
        "http://localhost:1/v1?tokenizer=/no/such/directory#model", "http://localhost:1/v1?context=²#model",
        "http://localhost:1/v1?context=0#model", "http://[::1/v1#model", "http://localhost:port/v1#model",
        "http://localhost:99999/v1#model", "http://local host/v1#model", "ftp://localhost/model", "",
    ],
)  # fmt: skip
def test_wrong_specifications_are_one_sentence(spec):
    with pytest.raises(UserError) as error:
        open_policy(spec)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", ["schlüssel", "two\nlines"])
def test_a_key_that_no_header_can_hold_is_one_sentence(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(UserError, match=r"^The API key in OPENAI_API_KEY holds"):
        open_policy("http://localhost:1/v1#m")


def test_without_torch_the_extra_is_named(tmp_path, monkeypatch):
    for name in list(sys.modules):
        if name.startswith("sanderling.policy.transformers_policy"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UserError, match=r"\.\[local\]"):
        open_policy(str(tmp_path))


def test_what_needs_no_model_imports_without_torch():
    block = "import sys; sys.modules.update(torch=None, transformers=None)"
    names = ("load", "contract", "endpoint", "budget", "model_directory")
    rooms = ", ".join(f"sanderling.policy.{name}" for name in names)
    assert subprocess.run([sys.executable, "-c", f"{block}; import {rooms}"], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ("http://localhost:8000/v1#m", "http://localhost:8000/v1"),
        ("HTTP://me:secret@LocalHost:80/v1/?context=9&key_env=K#m", "http://localhost/v1"),
        ("https://m.example:443/v1#other", "https://m.example/v1"),
        ("https://m.example:80/V1#m", "https://m.example:80/V1"),
        ("http://[::1]:8000/v1#m", "http://[::1]:8000/v1"),
    ],
)
def test_a_place_is_written_one_way_and_tells_no_secret(spec, place):
    assert place_of(spec) == place


# -- Model directories that are not whole: one sentence each, and never a random weight ------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return shutil.copytree(model_directory(), tmp_path / "model")


def sentence(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        TransformersPolicy.load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("content", [None, b"", b'{"a":', b"{}", b"\xff\xfe\x00noise"])
def test_a_missing_torn_or_foreign_file_is_one_sentence(model: Path, name: str, content: bytes | None) -> None:
    (model / name).unlink() if content is None else (model / name).write_bytes(content)
    assert str(model) in sentence(model)


def test_no_directory_is_one_sentence(tmp_path: Path) -> None:
    assert "no model directory" in sentence(tmp_path / "model")


def test_weights_that_are_not_there_are_never_replaced_by_random_ones(model: Path) -> None:
    tensors = load_file(model / "model.safetensors")
    lost = next(name for name in tensors if "layers.1.mlp" in name)
    save_file({name: tensor for name, tensor in tensors.items() if name != lost}, model / "model.safetensors", {"format": "pt"})
    assert lost in sentence(model)


def test_weights_that_the_model_does_not_use_are_told(model: Path) -> None:
    tensors = load_file(model / "model.safetensors") | {"model.layers.0.self_attn.q_proj.bias": torch.ones(64)}
    save_file(tensors, model / "model.safetensors", {"format": "pt"})
    with pytest.warns(UserWarning, match=r"q_proj\.bias"):
        assert load_model(model) is not None


def test_a_tokenizer_of_another_model_is_refused(model: Path) -> None:
    file = model / "tokenizer.json"
    value = json.loads(file.read_text())
    vocabulary = value["model"]["vocab"]
    vocabulary.update({f"more {n}": len(vocabulary) + n for n in range(40)})
    file.write_text(json.dumps(value))
    assert "model's own tokenizer" in sentence(model)


# -- Scripted policies keep the branch they were told, and follow the session contract -------------------------------------


def said(*texts: str) -> Delta:
    return Delta(messages=tuple(Message(role=Role.USER, content=text) for text in texts))


async def test_rewind_forgets_and_close_is_idempotent():
    policy = ScriptedPolicy(lambda messages, key: "|".join(message.content for message in messages))
    session = policy.open(KEY)
    await session.generate(said("a"), Sampling(), KEY)
    mark = session.mark()
    await session.generate(said("b"), Sampling(), KEY)
    session.rewind(mark)
    assert (await session.generate(said("c"), Sampling(), KEY)).text == "a|a|c"
    with pytest.raises(ValueError):
        session.rewind(99)
    session.close()
    session.close()
    with pytest.raises(RuntimeError):
        await session.generate(said("d"), Sampling(), KEY)


# -- The examples that ask a model: of an endpoint, and of a directory in this process -------------------------------------

EXAMPLES = Path(__file__).parents[2] / "examples"
ANSWERED = plain({"choices": [{"message": {"content": "x</think><answer>Kent</answer>"}, "finish_reason": "stop"}]})


def ran(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object) -> str:
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def test_examples_ask_models(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kent.md").write_text("# Kent\nThe river Kent flows through Kendal.")
    with serve(ANSWERED) as server:
        assert ran("ask_endpoint", capsys, monkeypatch, f"{server.url}#m", tmp_path, "Which?") == "answered Kent\n[]\n"
    assert ran("ask_model", capsys, monkeypatch, model_directory(), tmp_path, "Which?").endswith(" tokens sampled\n")
