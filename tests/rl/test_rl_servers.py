"""RL over worlds and tools behind servers: the record is the same as in process, also where the server is killed meanwhile."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import vllm_double
from rl_runs import recipe_of, silent, write_given
from vllm_double import Double

pytest.importorskip("mcp", reason="tool servers need the extra serve")

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.rl.config import RlRecipe
from sanderling.rl.launch import Order, run_rl_command
from sanderling.runs.run import records
from sanderling.tools.python.rungs import find_bwrap
from sanderling.train.metrics import read_metrics

SERVED = ("rl.pipeline.placement=served", "sampler.served=m", "rollout.turn_tokens=256", "rollout.max_turns=5", "rl.steps=2")


class Researcher(Double):
    """Searches a word of the question, reads one of the pages that it was shown, and answers with a word of that."""

    def _speak(self, body: dict[str, Any]) -> dict[str, Any]:
        text = self.tokenizer.decode(list(body["prompt"]))
        urls, number = re.findall(r"https://[^\s\"<\\\\]+", text), body["seed"]
        if "<tool_response>" not in text:
            words = re.findall(r"[A-Z][a-z]{3,}", text.rpartition("user")[2]) or ["town"]
            call = f'{{"name": "search", "arguments": {{"query": ["{words[number % len(words)]}"]}}}}'
        elif text.count("<tool_response>") == 1 and urls:
            call = f'{{"name": "visit", "arguments": {{"url": ["{urls[number % len(urls)]}"], "goal": "town"}}}}'
        else:
            call = ""
        words = re.findall(r"[A-Z][a-z]{3,}", text) or ["x"]
        said = f"<tool_call>\n{call}\n</tool_call>" if call else f"<answer>{words[number % len(words)]}</answer>"
        return self._turn(body, said)

    def _turn(self, body: dict[str, Any], said: str) -> dict[str, Any]:
        ids = [*self.tokenizer.encode(f"a\n</think>\n{said}"), self._end]
        choice = {"text": "", "token_ids": ids, "logprobs": {"token_logprobs": [-1.0] * len(ids)}}
        choice |= {"finish_reason": "stop", "stop_reason": None}
        return {"choices": [choice], "usage": {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(ids)}}


class Programmer(Researcher):
    """Searches, runs a program that keeps a file and a variable, and another that reads them."""

    def _speak(self, body: dict[str, Any]) -> dict[str, Any]:
        turn = self.tokenizer.decode(list(body["prompt"])).count("<tool_response>")
        keeps = f"import os, random, time\nx = {body['seed'] % 97}\nopen('a', 'w').write(str(random.random()))\n"
        calls = [
            {"name": "search", "arguments": {"query": ["town"]}},
            {"name": "python", "arguments": {"code": f"{keeps}x, time.time(), os.urandom(3).hex()"}},
            {"name": "python", "arguments": {"code": "print(open('a').read(), x)"}},
        ]
        said = f"<tool_call>\n{json.dumps(calls[turn])}\n</tool_call>" if turn < len(calls) else "<answer>x</answer>"
        return self._turn(body, said)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_given(tmp_path_factory.mktemp("given"), (1, 2))


MORTAL = """
import os, signal
from pathlib import Path
from sanderling.world.filters import Filter

STARTS = Path(__file__).with_suffix(".starts")


class Mortal(Filter):
    calls = 0

    def __init__(self, world):
        super().__init__(world, world.fingerprint)
        self.starts = int(STARTS.read_text()) + 1 if STARTS.exists() else 1
        STARTS.write_text(str(self.starts))

    async def search_many(self, *asked, **how):
        Mortal.calls += 1
        if Mortal.calls == 3 and self.starts in (2, 3):
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().search_many(*asked, **how)
"""


def trained(
    given: Path, out: Path, monkeypatch: pytest.MonkeyPatch, *, who: type[Double] = Researcher, **place: object
) -> tuple[list[str], list[float]]:
    """Train with scripted turns; its rollouts, and the rewards of its steps."""
    tokenizer = load_tokenizer(given / "base")
    monkeypatch.setattr(vllm_double, "Double", who)
    monkeypatch.setattr(who, "tokenizer", tokenizer, raising=False)
    with vllm_double.served(given / "base", tokenizer.encode("<|im_end|>")[0]) as (address, _):
        recipe = recipe_of(given, *SERVED, f"sampler.endpoint={address}")
        recipe = RlRecipe.model_validate(recipe.model_dump() | place)
        run_rl_command(Order(recipe, out), silent())
    left_out = {"seconds": True, "nodes": {"__all__": {"seconds"}}}
    found = sorted((one for one in records(out)), key=lambda one: one.id)
    return [one.model_dump_json(exclude=left_out) for one in found], [one["reward"] for one in metrics_of(out)]


def metrics_of(out: Path) -> list[dict[str, Any]]:
    return read_metrics(out / "metrics.jsonl")


def behind(world: Path, *more: str) -> dict[str, object]:
    words = (sys.executable, "-m", "sanderling", "tools", "serve", "--world", str(world), *more)
    return {"worlds": (), "mcp": {"far": {"command": words}}}


@contextmanager
def docked(world: Path, directory: Path, more: str = "") -> Iterator[tuple[str, list[int]]]:
    """A dock of four replicas of a world, killed one after the other; its address, and after how many calls that was."""
    words = json.dumps(["sanderling", "tools", "serve", "--world", str(world)])
    (directory / "dock.toml").write_text(
        f"port = 0\nstate = '{directory}/state'\n[pools.world]\ncommand = {words}\nreplicas = 4\n{more}"
    )
    command = [sys.executable, "-m", "sanderling", "dock", "up", str(directory / "dock.toml")]
    process, over, kills = subprocess.Popen(command, stderr=subprocess.PIPE, text=True), threading.Event(), list[int]()
    assert process.stderr
    address = process.stderr.readline().split()[-1]

    def replicas() -> list[dict[str, Any]]:
        return httpx.get(f"{address}/dock/state", trust_env=False).json()["pools"][0]["replicas"]

    def kill() -> None:
        while not over.wait(0.02):
            found = replicas()
            ready = [one["pid"] for one in found if one["state"] == "ready"]
            if len(ready) > 1 and any(one["served"] for one in found):
                with suppress(ProcessLookupError):  # it was killed before, and that is not yet known there
                    os.kill(ready[-1], signal.SIGKILL)
                    kills.append(sum(one["served"] for one in found))

    killing = threading.Thread(target=kill)
    try:
        while not all(one["state"] == "ready" for one in replicas()):
            time.sleep(0.05)
        killing.start()
        yield address, kills
    finally:
        over.set()
        killing.join()
        process.terminate()
        process.wait()


@pytest.mark.slow
def test_a_run_over_a_served_world_is_the_run_over_the_world(
    given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = trained(given, tmp_path / "here", monkeypatch)
    assert sum('"name":"visit"' in one for one in here[0]) >= 4, "they research"
    assert trained(given, tmp_path / "far", monkeypatch, **behind(given / "w1")) == here
    (tmp_path / "mortal.py").write_text(MORTAL)
    mortal = behind(given / "w1", "--set", f"filters=['{tmp_path / 'mortal.py'}:Mortal']")
    assert trained(given, tmp_path / "killed", monkeypatch, **mortal) == here
    assert int((tmp_path / "mortal.starts").read_text()) == 4, "killed twice"
    with docked(given / "w1", tmp_path) as (address, kills):
        assert trained(given, tmp_path / "dock", monkeypatch, worlds=(), dock=address) == here
    assert len(kills) >= 2, "replicas were killed meanwhile"
    other = recipe_of(given, *SERVED, "sampler.endpoint=http://127.0.0.1:9/v1").model_dump() | behind(given / "w2")
    with pytest.raises(UserError, match="other servers"):  # another world behind the same settings
        run_rl_command(Order(RlRecipe.model_validate(other), tmp_path / "far"), silent())


@pytest.mark.slow
@pytest.mark.skipif(not find_bwrap(), reason="there is no bubblewrap")
def test_a_run_over_a_dock_of_a_world_and_of_programs_is_the_run_in_process(
    given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = {"who": Programmer, "as_of": "2026-01-01"}
    here = trained(given, tmp_path / "here", monkeypatch, **how, python="bubblewrap")
    assert all(one.count('"name":"python","role":"","status":"ok"') == 2 for one in here[0]), "programs run"
    command = ["sanderling", "tools", "serve", "--set", "python=bubblewrap", "--set", "as_of='2026-01-01'"]
    with docked(given / "w1", tmp_path, f"[pools.programs]\ncommand = {json.dumps(command)}\nreplicas = 2") as (address, _):
        assert trained(given, tmp_path / "far", monkeypatch, **how, worlds=(), dock=address) == here
