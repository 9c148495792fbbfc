"""What a training step costs: packed against padded, chunked head against full logits, ours against TRL's SFTTrainer.

    OMP_NUM_THREADS=2 SANDERLING_RECORDED=TRAJECTORIES python benchmarks/train_step.py

Every case runs in a process of its own, over the same random model and rows; ratios are taken within this run. Lengths are
those of recorded trajectories (characters over four), scaled down so that a CPU can train on the longest. Memory is what the
process at its largest had more than before its first step; TRL's has been larger while it was set up, which spares it some.
TRL is left out where `trl` is not installed, the recorded lengths where SANDERLING_RECORDED is not set. Writes
results/train_step.json.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from sanderling.data.importing import open_trajectories
from sanderling.runs.progress import command_line, machine
from sanderling.train.fit import described

HERE = Path(__file__).parent
SHAPE = {
    "vocab_size": 32_000, "hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 65_536,
}  # fmt: skip
LONGEST = 1_024
"""Tokens that the longest recorded trajectory is scaled down to."""
ROWS = 16
"""Rows of a step, drawn evenly from the sorted lengths."""


def recorded_lengths(root: Path) -> dict[str, list[int]]:
    """Lengths in tokens, about, of the DR-Venus trajectories and of all."""
    found: dict[str, list[int]] = {"dr-venus": [], "all recorded": []}
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        lengths = [sum(len(node.text) for node in trajectory.nodes) // 4 for trajectory in open_trajectories(folder)]
        found["all recorded"] += lengths
        if "venus" in folder.name.lower():
            found["dr-venus"] += lengths
    return {name: sorted(lengths) for name, lengths in found.items() if lengths}


def scaled(lengths: list[int]) -> list[int]:
    """Some of them, evenly, the longest at LONGEST."""
    picked = [lengths[round(at * (len(lengths) - 1) / (ROWS - 1))] for at in range(ROWS)]
    return [max(32, length * LONGEST // picked[-1]) for length in picked]


def peak_flops(device: str, threads: int) -> float:
    """FLOPs a second that MFU is a share of: as a GPU's maker publishes them; a processor's large products are measured."""
    torch.set_num_threads(threads)
    if device == "cuda" and (known := described(torch.cuda.get_device_name(), 0, 1).peak_flops):
        return known
    one, product = torch.rand(2_048, 2_048, device=device), torch.empty(2_048, 2_048, device=device)
    seconds = []
    for _ in range(8):
        began = time.perf_counter()
        torch.mm(one, one, out=product)
        float(product[0, 0])  # waits for the device
        seconds.append(time.perf_counter() - began)
    return 2 * 2_048**3 / min(seconds)


class Bench:
    """Runs cases and keeps what they said."""

    def __init__(self, directory: Path, device: str, threads: int, steps: int) -> None:
        self.directory, self.device, self.threads, self.steps = directory, device, threads, steps
        self.peak_flops = peak_flops(device, threads)

    def run(self, kind: str, lengths: list[int], trainer: dict[str, Any], **more: Any) -> dict[str, Any]:
        """One case; tokens are those of the rows, padding not counted."""
        case = {
            "kind": kind, "lengths": lengths, "trainer": {"lr": 1e-4, "weight_decay": 0.01, **trainer}, "shape": SHAPE,
            "steps": self.steps, "threads": self.threads, "device": self.device,
            "directory": str(self.directory / "model"), **more,
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, str(HERE / "train_case.py")], input=json.dumps(case), capture_output=True, text=True, check=False
        )
        if done.returncode:
            return {"failed": done.stderr.strip().splitlines()[-1]}
        found = json.loads(done.stdout.splitlines()[-1])
        tokens = sum(lengths)
        return {
            "tokens_per_second": round(tokens / found["seconds"], 1),
            "step_seconds": round(found["seconds"], 3),
            "peak_mb": round(found["bytes"] / 1e6, 1),
            "mfu": round(found["flops"] / found["seconds"] / self.peak_flops, 3),
            "losses": [round(loss, 4) for loss in found["losses"]],
        }


def packing(bench: Bench, lengths: dict[str, list[int]]) -> dict[str, Any]:
    """Packed, and padded to the longest, on each distribution."""
    found: dict[str, Any] = {}
    for name, all_lengths in lengths.items():
        rows = scaled(all_lengths)
        budget = {"micro_batch_tokens": 2 * LONGEST}
        ways = {
            "packed": bench.run("ours", rows, budget),
            "padded to the longest, one a pass": bench.run("ours", rows, {"micro_batch_tokens": 1}, pad_to=LONGEST),
        }
        best = ways["packed"]["tokens_per_second"]
        ratios = {
            f"packed over {way}": round(best / one["tokens_per_second"], 2) for way, one in ways.items() if way != "packed"
        }
        found[name] = {"trajectories": len(all_lengths), "longest": all_lengths[-1], "ways": ways, "ratios": ratios}
    return found


def head(bench: Bench) -> dict[str, Any]:
    """One long row whose every token is trained, layers recomputed; logits whole, and in chunks."""
    settings = {"micro_batch_tokens": 4_096, "memory": {"recompute": "full"}}
    ways = {
        name: bench.run("ours", [4_096], {**settings, "logit_chunk": chunk}, trained=1)
        for name, chunk in (("chunked", 4_000_000), ("whole", 10**12))
    }
    return {"ways": ways, "memory_ratio": round(ways["chunked"]["peak_mb"] / ways["whole"]["peak_mb"], 3)}


def growth(bench: Bench) -> dict[str, Any]:
    """One row, twice as long each time, as thrifty as the settings allow: memory has to grow as the row does, not faster."""
    thrifty = {"memory": {"recompute": "full", "mlp_tile": 1_024}, "logit_chunk": 4_000_000}
    return {
        f"{length // 1024}K": bench.run("ours", [length], {"micro_batch_tokens": length, **thrifty}, steps=1)
        for length in (4_096, 8_192, 16_384, 32_768)
    }


def against_trl(bench: Bench, lengths: dict[str, list[int]]) -> dict[str, Any]:
    """The same rows packed to the same length by both, and one long row."""
    if importlib.util.find_spec("trl") is None:
        return {"left out": "trl is not installed"}
    found: dict[str, Any] = {}
    cases = {"recorded lengths": (scaled(lengths["all recorded"]), 2 * LONGEST)} if lengths else {}
    for name, (rows, budget) in {**cases, "long row": ([8_192], 8_192)}.items():
        memory = {"recompute": "full"} if name == "long row" else {}
        settings: dict[str, Any] = {"micro_batch_tokens": budget, "memory": memory}
        mine, theirs = bench.run("ours", rows, settings), bench.run("trl", rows, settings)
        found[name] = {"ours": mine, "trl": theirs}
        if "failed" not in theirs:
            found[name]["speed_ratio"] = round(mine["tokens_per_second"] / theirs["tokens_per_second"], 2)
            found[name]["memory_ratio"] = round(mine["peak_mb"] / theirs["peak_mb"], 3)
            gaps = (abs(ours - trl) for ours, trl in zip(mine["losses"], theirs["losses"], strict=True))
            found[name]["largest_gap_of_losses"] = round(max(gaps), 4)
    return found


def show(console: Console, found: dict[str, Any]) -> None:
    """One table of all cases."""
    table = Table("case", "tokens/s", "step", "grows by MB", "MFU")

    def add(name: str, one: dict[str, Any]) -> None:
        if "failed" in one:
            table.add_row(name, "failed", "", "", one["failed"][:60])
        elif "tokens_per_second" in one:
            table.add_row(
                name,
                f"{one['tokens_per_second']:,}",
                f"{one['step_seconds']} s",
                f"{one['peak_mb']:,}",
                f"{one['mfu']:.0%}",
            )
        else:
            for key, value in one.items():
                if isinstance(value, dict):
                    add(f"{name} · {key}", value)

    add("", found)
    console.print(table)


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "results" / "train_step.json")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", "2")))
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    root = os.environ.get("SANDERLING_RECORDED")
    lengths = recorded_lengths(Path(root)) if root else {}
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), args.device, args.threads, args.steps)
        found = {
            "packing": packing(bench, lengths),
            "head": head(bench),
            "growth": growth(bench),
            "against TRL": against_trl(bench, lengths),
        }
    surroundings = f"OMP_NUM_THREADS={args.threads} SANDERLING_RECORDED=TRAJECTORIES"
    told = {
        "command": f"{surroundings} python benchmarks/{command_line()}", "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(), "threads": args.threads,
        "steps": args.steps, "peak_gflops_per_second": round(bench.peak_flops / 1e9, 1),
        "shape": SHAPE, "longest": LONGEST, "rows": ROWS,
    }  # fmt: skip
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(told | found, indent=1) + "\n", encoding="utf-8")
    show(Console(), found)


if __name__ == "__main__":
    main()
