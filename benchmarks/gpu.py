"""What training, sampling and scoring cost on one accelerator, with a randomly initialised Qwen3-4B.

    PYTHONPATH=src python3 benchmarks/gpu.py --seconds 550          # what is not measured yet, most wanted first
    PYTHONPATH=src python3 benchmarks/gpu.py "full 32K" scoring     # these, again
    PYTHONPATH=src python3 benchmarks/gpu.py --device cpu --small   # does every part run? Figures of no interest

A list in order of priority: a long step of all weights and its goal (MFU of 45% at 32K) first, then LoRA, then what checks
numbers. Each item runs in a process of its own, below eight minutes, and stands in the result file as soon as it ends, out of
memory included; called again, the list goes on with what is missing. Beside results/gpu.json stands gpu.md: of every item what
was measured, or that it was not (``--seconds 0`` writes it without measuring). Needs torch, transformers, safetensors, numpy,
tokenizers, pydantic (with pydantic-core, annotated-types, typing-inspection) and json5, for LoRA peft 0.19, and no network.
FLOPs are the model's own, causal, without recomputation; a frozen weight's gradient, which nobody computes, is not among them.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LONGEST = 480.0
"""Seconds that one item may take."""
ITEMS = (
    "full 32K", "full 256K", "LoRA 256K", "agreement", "gain 64K", "gain 256K", "RL 0.6B", "RL 0.6B, synchronous", "RL 4B",
    "scoring", "forks", "head",
    "LoRA 32K", "full 128K", "full 64K", "LoRA 128K", "LoRA 64K", "plain transformers 8K",
    "full 32K in 8 rows", "sampling",
)  # fmt: skip

NEEDS = {
    "full 256K": 340, "LoRA 256K": 320, "gain 256K": 360, "full 128K": 200, "LoRA 128K": 190,
    "RL 0.6B": 240, "RL 0.6B, synchronous": 300, "RL 4B": 270,
}  # fmt: skip
"""Seconds, reckoned by hand for an H200: none has been measured. The others take less than ``BRIEF``."""
BRIEF = 90
COLUMNS = ("seconds_per_step", "mfu", "peak_gib", "planned_gib")


def measure(item: str, device: str, small: bool) -> dict[str, Any]:
    """One item, in this process."""
    import torch
    from gpu_checks import CHECKS
    from gpu_parts import PARTS, SMALL, Bench, Sizes
    from gpu_rl import LOOPS
    from gpu_training import QWEN3_4B, TRAININGS, train
    from gpu_training import SMALL as SMALL_SHAPE

    at, shape = torch.device(device), SMALL_SHAPE if small else QWEN3_4B
    if item in TRAININGS:
        return train(TRAININGS[item], at, shape)
    if item in CHECKS:
        return CHECKS[item](at, shape)
    if item in LOOPS:
        return LOOPS[item](at, small)
    return PARTS[item](Bench(at, SMALL if small else Sizes()))


def described(device: str) -> dict[str, Any]:
    """What the figures were measured with."""
    import torch
    import transformers

    from sanderling.runs.progress import command_line

    name = torch.cuda.get_device_name() if device == "cuda" else device
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    return {"command": command_line(), "device": name, "versions": versions, "date": datetime.now(UTC).date().isoformat()}


def in_a_process(item: str, arguments: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """One item in a process of its own; how it ended where it did not end well."""
    command = [
        sys.executable,
        __file__,
        "--item",
        item,
        "--device",
        arguments.device,
        *(["--small"] if arguments.small else []),
    ]
    # cuDNN's attention is built anew for each length, and sampling has another length at each token.
    apart = {"TORCH_CUDNN_SDPA_DEPRIORITIZED": "1"} if item.startswith("RL") or item in ("sampling", "scoring") else {}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False, env={**os.environ, **apart}
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {seconds:.0f} seconds"}
    if done.returncode:
        told = done.stderr.strip().splitlines()
        last = told[-1][:500] if told else f"exit status {done.returncode}"
        return {"failed": last, "trace": "\n".join(told[-25:])[-3000:]}
    return json.loads(done.stdout.splitlines()[-1])


def told(record: dict[str, Any]) -> str:
    """The whole list as Markdown: figures, failures, and what is not yet measured."""
    lines = [
        "# On one accelerator",
        "",
        "Written by `benchmarks/gpu.py`, whose items these are; a randomly initialised Qwen3-4B.",
        "",
        "| item | seconds a step | MFU | peak GiB | planned GiB | |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for item in ITEMS:
        found = record.get(item)
        if found is None:
            lines.append(f"| {item} | | | | | not yet measured |")
            continue
        cells = [f"{found[name]:.3g}" if found.get(name) is not None else "" for name in COLUMNS]
        others = {name: value for name, value in found.items() if isinstance(value, float | int) and name not in COLUMNS}
        more = found.get("failed") or "; ".join(f"{name} {value:.4g}" for name, value in others.items())
        lines.append(f"| {item} | {' | '.join(cells)} | {more} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what was asked for, or what is missing; write the file after each item."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("items", nargs="*", metavar="ITEM", help="; ".join(ITEMS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="a minuscule model and little work")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no item is begun that might not end by then")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "gpu.json")
    parser.add_argument("--item", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.item is not None:
        print(json.dumps(measure(arguments.item, arguments.device, arguments.small)))
        return
    if unknown := set(arguments.items) - set(ITEMS):
        parser.error(f"no such item: {', '.join(sorted(unknown))}; there are {', '.join(ITEMS)}")
    record = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.is_file() else {}
    end = time.monotonic() + arguments.seconds
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    # What failed before comes last, so that it cannot use up the time of what was never tried.
    missing = [name for name in ITEMS if name not in record] + [name for name in ITEMS if "failed" in record.get(name, ())]
    for item in arguments.items or missing:
        left = end - time.monotonic()
        if left < (1 if arguments.small else NEEDS.get(item, BRIEF)):
            print(f"{item}: not enough time left; call again")
            continue
        record[item] = in_a_process(item, arguments, min(LONGEST, left)) | {"measured": described(arguments.device)}
        print(item, json.dumps(record[item]), flush=True)
        arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    arguments.out.with_suffix(".md").write_text(told(record), encoding="utf-8")


if __name__ == "__main__":
    main()
