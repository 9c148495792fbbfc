"""A tiny model and trajectories for the tests of fine-tuning, and the command in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Ending, Role, ToolCall
from sanderling.runs.jsonl import write_trajectories
from sanderling.train.random_model import ModelShape, train_tokenizer, write_random_model

SHAPE = ModelShape(hidden=32, layers=2, heads=4, kv_heads=2, head_dim=8, intermediate=48, max_positions=2048)
WORDS = ("which", "person", "mayor", "of", "town", "potter", "river", "search", "visit", "found", "page", "north", "answer")
SETTINGS = """
title = "test"
epochs = 2
batch_trajectories = 4
save_every = 2
seed = 3

[data]
profile = "tiny"

[trainer]
lr = 1e-2
eps = 1e-3
schedule = "cosine"
warmup_share = 0.2
micro_batch_tokens = 512
"""
RUN = "import sys, torch; torch.set_num_threads(1); from sanderling.cli.main import main; sys.argv[0] = 'sanderling'; main()"


def write_base(directory: Path, seed: int = 1) -> Path:
    texts = [" ".join(WORDS[i:] + WORDS[:i]) for i in range(len(WORDS))]
    write_random_model(directory, train_tokenizer(texts, 400), SHAPE, seed)
    return directory


def trajectory(number: int, turns: int = 2) -> Trajectory:
    """A text-only research of so many turns."""
    rng = np.random.default_rng(number)

    def words(count: int) -> str:
        return " ".join(rng.choice(WORDS, count))

    nodes = [
        Node(parent=None, role=Role.SYSTEM, kind=NodeKind.SYSTEM, text="answer"),
        Node(parent=0, role=Role.USER, kind=NodeKind.QUESTION, text=words(6)),
    ]
    for _ in range(turns):
        calls = (ToolCall(name="search", arguments={"query": "x"}),)
        nodes.append(
            Node(parent=len(nodes) - 1, role=Role.ASSISTANT, kind=NodeKind.TURN, text=f"<think>\n{words(5)}", calls=calls)
        )
        nodes.append(Node(parent=len(nodes) - 1, role=Role.USER, kind=NodeKind.OBSERVATION, text=words(12)))
    last = Node(parent=len(nodes) - 1, role=Role.ASSISTANT, kind=NodeKind.TURN, text="<answer>river</answer>", answer="river")
    return Trajectory(
        id=f"t{number}",
        question=Question(id=f"q{number}", text=nodes[1].text, answers=("river",)),
        nodes=(*nodes, last),
        leaf=len(nodes),
        ending=Ending.ANSWERED,
    )


def write_data(path: Path, count: int = 12) -> Path:
    write_trajectories(path, [trajectory(number, 1 + number % 3) for number in range(count)])
    return path


def write_settings(path: Path, more: str = "") -> Path:
    path.write_text(SETTINGS + more, encoding="utf-8")
    return path


def command(*arguments: object, env: dict[str, str] | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    """``sanderling train sft ...`` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, "train", "sft", *map(str, arguments)],
        capture_output=True, text=True, timeout=600, env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def weights(directory: Path) -> dict[str, np.ndarray]:
    (file,) = directory.glob("*model.safetensors")
    return load_file(file)


def advised(sentence: str) -> list[tuple[int | None, dict[str, str]]]:
    """What a plan's refusal advises: devices, where it says so, and settings, of each way that it names."""
    ways = []
    for way in sentence.partition(": ")[2].removesuffix(".").split(", or "):
        devices = re.search(r"take (\d+) devices", way)
        ways.append((int(devices[1]) if devices else None, dict(re.findall(r"([a-z_.]+)=(\w+)", way))))
    return [way for way in ways if way != (None, {})]
