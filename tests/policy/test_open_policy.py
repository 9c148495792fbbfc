"""Specifications on the command line, right and wrong."""

import json
import subprocess
import sys

import pytest
from scripted_server import plain, serve

from sanderling.core.errors import UserError
from sanderling.core.types import Message, Role, Sampling
from sanderling.policy.contract import Delta, SampleKey
from sanderling.policy.load import open_policy, place_of

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
        "no/such/directory",
        "http://localhost:8000/v1",
        "http:///v1#model",
        "http://localhost:1/v1?keyenv=X#model",
        "http://localhost:1/v1?key_env=SANDERLING_SURELY_UNSET#model",
        "http://localhost:1/v1?context=many#model",
        "http://localhost:1/v1?tokenizer=/no/such/directory#model",
        "http://localhost:1/v1?context=²#model",
        "http://localhost:1/v1?context=0#model",
        "http://[::1/v1#model",
        "http://localhost:port/v1#model",
        "http://localhost:99999/v1#model",
        "http://local host/v1#model",
        "ftp://localhost/model",
        "",
    ],
)
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
