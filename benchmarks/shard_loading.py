"""Host memory and time of ranks that open a model and keep a shard each: rank 0 reads it and hands it out, or each reads it.

A random Qwen3 of 0.3 billion parameters in bfloat16 files, two processes on this machine over gloo, FSDP2. Run it so:

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/shard_loading.py
"""

import json
import multiprocessing
import platform
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.queues import Queue
from pathlib import Path

RESULT = Path(__file__).parent / "results" / "shard_loading.json"
RANKS = 2
SHAPE = {
    "vocab_size": 50_000, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 16, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128,
}  # fmt: skip
CASES = {"all weights, float32": (0, "float32"), "LoRA, float32": (16, "float32"), "LoRA, bfloat16": (16, "bfloat16")}


def status_mb(field: str) -> float:
    """A figure of this process' memory, as Linux has it: VmHWM is the most it ever held, RssAnon what no file stands behind."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


class Peak(threading.Thread):
    """The most anonymous memory while it runs, looked at 200 times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before = self.most = status_mb("RssAnon")
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.005):
            self.most = max(self.most, status_mb("RssAnon"))


def rank(number: int, meeting: Path, base: Path, case: tuple[int, str], each: bool, told: "Queue[dict[str, float]]") -> None:
    """Open the model as a run does; with ``each``, every rank reads all of it first."""
    import peft  # noqa: F401  # imported before memory is looked at
    import torch
    from transformers.models.qwen3 import modeling_qwen3  # noqa: F401

    from sanderling.train.checkpoint import open_model
    from sanderling.train.config import LoraConfig, ParallelConfig, SupervisedConfig, TrainerConfig
    from sanderling.train.launch import Place, opened_team
    from sanderling.train.team import SOLO
    from sanderling.train.trainer import Trainer

    torch.set_num_threads(1)
    config = SupervisedConfig(trainer=TrainerConfig(precision=case[1]), lora=LoraConfig(rank=case[0]))
    half = case[1] == "bfloat16"
    with opened_team(ParallelConfig(), Place(number, RANKS, number, RANKS), meeting, bfloat16=half) as (team, _):
        peak, began = Peak(), time.perf_counter()
        peak.start()
        trainer = Trainer(open_model(config, base, None, SOLO if each else team), config.trainer, team)
        team.gather(None)
        seconds = time.perf_counter() - began
        peak.ended.set()
        peak.join()
        held = sum(p.to_local().nbytes for p in trainer.model.parameters()) / 2**20  # pyright: ignore[reportAttributeAccessIssue]
        figures = {"anonymous_mb": peak.most - peak.before, "shard_mb": held, "seconds": seconds}
        told.put({"rank": number, **figures, "peak_rss_mb": status_mb("VmHWM")})


def measure(base: Path, case: tuple[int, str], each: bool) -> list[dict[str, float]]:
    """What each rank has told of one case."""
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    with tempfile.TemporaryDirectory() as meeting:
        ranks = [context.Process(target=rank, args=(n, Path(meeting), base, case, each, told)) for n in range(RANKS)]
        for one in ranks:
            one.start()
        found = [told.get(timeout=600) for _ in ranks]
        for one in ranks:
            one.join()
    return sorted(found, key=lambda figures: figures["rank"])


def write_base(directory: Path) -> int:
    """Random weights; returns their number. For a process apart: what they take here, forked ones would begin with."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(**SHAPE, tie_word_embeddings=True)).to(torch.bfloat16)
    model.save_pretrained(directory)
    return sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    """Measure every case in both ways, print it and write it down."""
    with tempfile.TemporaryDirectory() as place, ProcessPoolExecutor(1) as apart:
        parameters = apart.submit(write_base, Path(place) / "base").result()
        rows = {}
        for name, case in CASES.items():
            for way, each in (("each rank reads it", True), ("rank 0 reads it", False)):
                rows[f"{name}: {way}"] = measure(Path(place) / "base", case, each)
                print(f"{name}: {way}")
                for figures in rows[f"{name}: {way}"]:
                    print("   ", ", ".join(f"{key} {value:,.1f}" for key, value in figures.items()))
    found = {
        "command": " ".join(["python", *sys.argv]),
        "machine": f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        "date": time.strftime("%Y-%m-%d"),
        "parameters": parameters,
        "ranks": rows,
    }
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
