"""Same seed, same machine: byte-identical trajectories, metrics and weights, in processes of their own.

The model has been taught just enough to call tools now and then, so that its sessions and the tools take turns as in earnest.
"""

import asyncio
import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from tiny_base import PHRASES

from sanderling.agent.agent import Agent
from sanderling.core.chat import load_tokenizer
from sanderling.core.profiles import TINY
from sanderling.core.types import FixedClock
from sanderling.runs.work import in_parallel
from sanderling.synth.chains import chain_questions
from sanderling.synth.head import ModeShares
from sanderling.synth.teacher import TeacherPolicy
from sanderling.tools.world_tools import world_tools
from sanderling.train.config import SupervisedConfig, TrainerConfig
from sanderling.train.random_model import ModelShape, train_tokenizer, write_random_model
from sanderling.train.row_source import sft_rows
from sanderling.train.rows import Encoding, Limit
from sanderling.train.sft import run_sft
from sanderling.world.encyclopedia import generate_encyclopedia
from sanderling.world.local import LocalWorld

HERE = Path(__file__).parent
SHAPE = ModelShape(hidden=48, layers=2, heads=2, kv_heads=1, head_dim=24, intermediate=96)
SFT = SupervisedConfig(epochs=60, batch_tokens=1_500, max_steps=60, trainer=TrainerConfig(lr=1e-2, warmup_steps=5))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("determinism")
    world = generate_encyclopedia(60, 5)
    questions = chain_questions(world, 6, 5, {1: 0.5, 2: 0.5})
    pages = [item.page for item in world.pages]
    write_random_model(place / "base", train_tokenizer((page.text for page in pages), 520, PHRASES), SHAPE, seed=0)
    agent = Agent(
        TeacherPolicy(world, {question.id: question for question in questions}, ModeShares()),
        world_tools(LocalWorld.in_memory(pages, name=world.name), TINY),
        TINY,
        FixedClock(date(2026, 1, 1)),
    )
    taught = asyncio.run(in_parallel(lambda question: agent.run(question, id=question.id), questions, 2))
    rows = sft_rows(taught, Encoding(load_tokenizer(place / "base"), TINY), Limit(2_000))
    run_sft(SFT, rows, place / "base", place / "sft")
    return place / "sft" / "model"


def test_two_processes_give_the_same_bytes(model: Path, tmp_path: Path) -> None:
    running = []
    for seed in ("1", "2"):  # of Python's hashes: an order that hangs on them would show
        command = [sys.executable, str(HERE / "one_run.py"), str(model), str(tmp_path / seed)]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"}
        running.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    found = []
    for process in running:
        out, trouble = process.communicate(timeout=300)
        assert process.returncode == 0, trouble
        found.append(json.loads(out))
    assert found[0] == found[1]
    assert found[0]["calls"] > 5, "a model that never calls a tool tests too little"
    assert [line["updates"] for line in found[0]["metrics"]] == [1, 1], "RL that changes no weight tests too little"
