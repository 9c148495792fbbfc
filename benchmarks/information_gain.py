"""What information gain costs: one pass over a trajectory and all its boundaries, against the three ways others take.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/information_gain.py            # 25 minutes of one core
    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/information_gain.py --quick    # half a minute, short trajectories

A randomly initialised model of Qwen3's architecture, small enough for 64K tokens on a CPU; a trajectory of random ids with
boundaries at even distances, at each of them 12 tokens of probe and an answer of 6. The ways:

- naive: one forward for each boundary, over its context and the probe (the original IGPO);
- padded: all boundaries as rows of a batch, filled up to the longest (DR-Venus, "prealigned");
- slices: the trajectory's cache is made once, then for each boundary it is cut there, and its last token and the probe are run
  over it, by transformers' own cache (what DR-Venus runs). The cache is made in one piece, which is the fastest here;
- one pass: `train.scorer`.

`bare` is a forward over the trajectory alone with one token's log-probability, `update` an optimizer step on the trajectory
(every fourth token trained). Seconds are the process's own of one thread, so that others on the machine disturb
little. Every way is run in turn, with the most boundaries of a length twice, and a ratio is the median of the ratios within a
turn; each turn's figures are kept. Of the naive and the padded way only some boundaries are run where all would take too long:
every n-th from the middle of its stretch, whose mean stands for the mean of all; these are marked with ~. Memory is a
process's largest, over what it had before, each way in a process of its own. Writes results/information_gain.json and .md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.cache_utils import DynamicCache, DynamicLayer

from sanderling.runs.progress import command_line, machine
from sanderling.train.config import TrainerConfig
from sanderling.train.rows import Row, ScoreRequest, sft
from sanderling.train.scorer import ModelScorer
from sanderling.train.trainer import Trainer, row_logprobs

HERE = Path(__file__).parent
SHAPE = {
    "vocab_size": 8_192, "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 64, "max_position_embeddings": 131_072,
}  # fmt: skip
PROBE, ANSWER = 12, 6
CASES = {8_192: (10, 50, 200), 16_384: (10, 50, 200), 32_768: (200,), 65_536: (10, 50, 200)}
QUICK = {2_048: (10,), 4_096: (10, 50)}
MOST = {"naive": 500_000, "padded": 270_000}
"""Tokens that a slow way runs at most; more where a boundary is longer than that."""
Scores = list[np.ndarray]
CONFIG = TrainerConfig(micro_batch_tokens=1)


@dataclass(frozen=True)
class Case:
    """A trajectory, its boundaries, and the probe at each."""

    ids: list[int]
    cuts: list[int]
    probe: list[int]

    @classmethod
    def of(cls, tokens: int, turns: int) -> "Case":
        rng = np.random.default_rng((tokens, turns))
        ids, probe = (rng.integers(0, SHAPE["vocab_size"], count).tolist() for count in (tokens, PROBE + ANSWER))
        return cls(ids, [tokens * (n + 1) // turns for n in range(turns)], probe)

    @property
    def request(self) -> ScoreRequest:
        count = len(self.cuts)
        return ScoreRequest(self.ids, self.cuts, [self.probe] * count, [(PROBE, PROBE + ANSWER)] * count)

    def row(self, trained: np.ndarray) -> Row:
        return Row(np.array(self.ids), trained, trajectory="t")

    def some(self, way: str) -> list[int]:
        """Indices of the boundaries that stand for all: every n-th, from the middle."""
        each = len(self.ids) if way == "padded" else len(self.ids) / 2
        step = max(1, round(len(self.cuts) * each / MOST[way]))
        while len(self.cuts) % step:
            step += 1
        return list(range(step // 2, len(self.cuts), step))


def model() -> Qwen3ForCausalLM:
    """The same whenever it is made."""
    torch.manual_seed(0)
    return Qwen3ForCausalLM(Qwen3Config(**SHAPE)).eval()


class Ways:
    """The ways, over one model and case; each returns its scores, and which boundaries they are of."""

    def __init__(self, net: Qwen3ForCausalLM, case: Case) -> None:
        self.net, self.case = net, case
        self.scorer = ModelScorer(net, CONFIG)
        self.all = list(range(len(case.cuts)))
        places = np.arange(len(case.ids))
        self.last, self.trained = (case.row(mask) for mask in (places == len(places) - 1, places % 4 == 3))

    def _answer(self, hidden: Tensor) -> np.ndarray:
        """Of hidden states that end with the last probe token."""
        logits = self.net.lm_head(hidden[-ANSWER - 1 : -1])
        return logits.log_softmax(-1)[torch.arange(ANSWER), torch.tensor(self.case.probe[PROBE:])].numpy()

    def naive(self) -> tuple[Scores, list[int]]:
        places = self.case.some("naive")
        return [self._whole([self.case.cuts[at]])[0] for at in places], places

    def padded(self) -> tuple[Scores, list[int]]:
        places = self.case.some("padded")
        return self._whole([self.case.cuts[at] for at in places], self.case.cuts[-1]), places

    def _whole(self, cuts: Sequence[int], longest: int = 0) -> Scores:
        """Contexts and probes as rows, filled up on the right, where causal attention needs no mask."""
        rows = [[*self.case.ids[:cut], *self.case.probe] for cut in cuts]
        width = max(len(self.case.probe) + longest, *map(len, rows))
        batch = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        hidden = self.net.model(input_ids=batch, use_cache=False).last_hidden_state
        return [self._answer(one[: len(row)]) for one, row in zip(hidden, rows, strict=True)]

    def slices(self) -> tuple[Scores, list[int]]:
        cache = DynamicCache()
        self.net.model(input_ids=torch.tensor(self.case.ids)[None], past_key_values=cache, use_cache=True)
        found = []
        for cut in self.case.cuts:
            line = torch.tensor([self.case.ids[cut - 1], *self.case.probe])[None]
            hidden = self.net.model(input_ids=line, past_key_values=_sliced(cache, cut - 1), use_cache=True).last_hidden_state
            found.append(self._answer(hidden[0]))
        return found, self.all

    def one_pass(self) -> tuple[Scores, list[int]]:
        return self.scorer.score_many([self.case.request])[0], self.all

    def bare(self) -> tuple[Scores, list[int]]:
        row_logprobs(self.scorer.scored, [self.last], CONFIG)
        return [], self.all


WAYS: dict[str, Callable[[Ways], tuple[Scores, list[int]]]] = {
    "bare": Ways.bare, "one pass": Ways.one_pass, "slices": Ways.slices, "padded": Ways.padded, "naive": Ways.naive,
}  # fmt: skip
HELD = ("bare", "one pass", "slices")
"""What memory is measured of."""
ONCE = {"padded", "naive"}
"""What is so slow that one turn of it has to do."""


def _sliced(cache: DynamicCache, length: int) -> DynamicCache:
    """The cache up to a place: views of its keys and values."""
    cut = DynamicCache()
    for layer in cache.layers:
        one = DynamicLayer()
        one.lazy_initialization(layer.keys, layer.values)
        one.keys, one.values = layer.keys[:, :, :length], layer.values[:, :, :length]
        cut.layers.append(one)
    return cut


def measure(case: Case, net: Qwen3ForCausalLM, turns: int) -> dict[str, Any]:
    """Seconds of every way, in turn, and how far its scores lie from those of one pass."""
    ways = Ways(net, case)
    rounds: list[dict[str, float]] = []
    gaps: dict[str, float] = {}
    shares: dict[str, int] = {}
    with torch.inference_mode():
        WAYS["bare"](ways)  # the first one finds cold memory
        for turn in range(turns):
            seconds: dict[str, float] = {}
            reference: Scores = []
            for name, way in WAYS.items():
                if name in ONCE and turn:
                    continue
                began = time.process_time()
                scores, places = way(ways)
                seconds[name] = (time.process_time() - began) * len(case.cuts) / len(places)
                reference = scores if name == "one pass" else reference
                if scores and name != "one pass":
                    gap = max(float(np.abs(a - reference[at]).max()) for a, at in zip(scores, places, strict=True))
                    gaps[name], shares[name] = max(gap, gaps.get(name, 0.0)), len(places)
            rounds.append(seconds)
    return {
        "tokens": len(case.ids), "turns": len(case.cuts), "probe_tokens": len(case.cuts) * (PROBE + ANSWER - 1),
        "ratios": ratios(rounds), "largest_gap_nats": gaps, "boundaries_run": shares, "seconds": rounds,
    }  # fmt: skip


def ratios(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    """Medians of ratios, each of two figures of the same turn."""

    def middle(figure: Callable[[dict[str, float]], float], *names: str) -> float:
        return statistics.median(figure(one) for one in rounds if all(name in one for name in names))

    over = {
        f"{name} / one pass": middle(lambda s, n=name: s[n] / s["one pass"], name) for name in ("naive", "padded", "slices")
    }
    return {
        **over,
        "one pass over bare": middle(lambda s: s["one pass"] / s["bare"] - 1),
        "slices over bare": middle(lambda s: s["slices"] / s["bare"] - 1),
    }


def update(case: Case) -> float:
    """Seconds of an optimizer step on the trajectory, the second one."""
    trainer = Trainer(model(), TrainerConfig(micro_batch_tokens=1))
    rows, seconds = [Ways(trainer.model, case).trained], 0.0  # pyright: ignore[reportArgumentType]
    for _ in range(2):
        began = time.process_time()
        trainer.step(rows, sft)
        seconds = time.process_time() - began
    return seconds


def peak_mib(way: str, tokens: int, turns: int) -> float:
    """What a way needs in a process of its own, over the model."""
    command = [sys.executable, __file__, "--memory", way, str(tokens), str(turns)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def memory(way: str, tokens: int, turns: int) -> float:
    """In this process: MiB at its largest, over what it has with the model and its kernels loaded. Linux only."""
    net = model()
    with torch.inference_mode():
        WAYS[way](Ways(net, Case.of(256, 2)))
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak so far is forgotten
        before = _resident("VmHWM")
        WAYS[way](Ways(net, Case.of(tokens, turns)))
    return _resident("VmHWM") - before


def _resident(name: str) -> float:
    """MiB. Not `getrusage`: what it tells of a new process begins with its parent's."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name}:"))) / 1024


def told(record: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = [
        "# Information gain: one pass against the ways others take",
        "",
        f"`{record['command']}`; {record['machine']}; torch {record['torch']}, {record['threads']} threads; {record['date']}; "
        f"load before {record['load'][0]:.1f}, after {record['load'][1]:.1f}.",
        "",
        f"A Qwen3 of {record['parameters'] / 1e6:.1f}M random parameters ({SHAPE['num_hidden_layers']} layers of "
        f"{SHAPE['hidden_size']}, {SHAPE['num_attention_heads']} heads of {SHAPE['head_dim']}, {SHAPE['num_key_value_heads']} "
        f"for keys), float32; at each boundary a probe of {PROBE} tokens and an answer of {ANSWER}. Seconds are CPU time.",
        "A way's figure is how many times longer it takes than one pass; ~ is reckoned from some of its boundaries. What",
        "information gain costs is given as a share (+) on top of a bare forward of the trajectory.",
        "",
        "| tokens | boundaries | naive | padded | slices | one pass + | slices + | gap, nats |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for case in record["cases"]:
        r, run, turns = case["ratios"], case["boundaries_run"], case["turns"]
        times = [f"{'~' if run[name] < turns else ''}{r[f'{name} / one pass']:.3g}×" for name in ("naive", "padded", "slices")]
        shares = [f"{100 * r[name]:.1f}%" for name in ("one pass over bare", "slices over bare")]
        gap = max(case["largest_gap_nats"].values())
        lines.append(f"| {case['tokens']:,} | {turns} | {' | '.join(times)} | {' | '.join(shares)} | {gap:.1e} |")
    lines += ["", "## Memory beside the model, MiB", "", f"| tokens | boundaries | {' | '.join(HELD)} |"]
    lines.append("|---:" * (2 + len(HELD)) + "|")
    for one in record["memory"]:
        held = " | ".join(f"{one['mib'][way]:,.0f}" for way in HELD)
        lines.append(f"| {one['tokens']:,} | {one['turns']} | {held} |")
    lines += ["", "## As a share of an update", ""]
    for one in record["updates"]:
        lines.append(
            f"- {one['tokens']:,} tokens, {one['turns']} boundaries: an optimizer step on the trajectory takes "
            f"{one['update over bare']:.2f} bare forwards; information gain by itself is {100 * one['alone']:.1f}% of both "
            "together."
        )
    lines += ["", "Rollouts, which are most of a step of RL, are not counted in these."]
    return "\n".join(lines) + "\n"


def shares_of_update(case: Case, found: dict[str, Any]) -> dict[str, Any]:
    """Of scoring and updating on one trajectory, how much is information gain."""
    seconds = update(case)
    s = {name: statistics.median(one[name] for one in found["seconds"]) for name in ("bare", "one pass")}
    return {
        "tokens": len(case.ids), "turns": len(case.cuts), "update over bare": seconds / s["bare"],
        "alone": s["one pass"] / (s["one pass"] + seconds), "seconds": seconds,
    }  # fmt: skip


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short trajectories, one turn")
    parser.add_argument("--turns", type=int, default=2, help="times that each way is run, the slow ones once")
    parser.add_argument("--longest", type=int, default=65_536, help="leave out longer trajectories")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "information_gain.json")
    parser.add_argument("--memory", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory:
        way, tokens, turns = given.memory
        print(memory(way, int(tokens), int(turns)))
        return
    net, before = model(), os.getloadavg()[0]
    record: dict[str, Any] = {
        "command": command_line(), "date": datetime.now(UTC).date().isoformat(), "machine": machine(),
        "torch": torch.__version__, "threads": torch.get_num_threads(), "load": [before], "shape": SHAPE, "probe": PROBE,
        "answer": ANSWER, "parameters": sum(p.numel() for p in net.parameters()), "cases": [], "updates": [], "memory": [],
    }  # fmt: skip
    for tokens, counts in (QUICK if given.quick else CASES).items():
        for turns in counts if tokens <= given.longest else ():
            case, most = Case.of(tokens, turns), turns == counts[-1]
            record["cases"].append(measure(case, net, given.turns if most else 1))
            print(tokens, turns, json.dumps(record["cases"][-1]["ratios"]), flush=True)
            write(record, given.out)
            if most:
                record["updates"].append(shares_of_update(case, record["cases"][-1]))
                mib = {way: peak_mib(way, tokens, turns) for way in HELD}
                record["memory"].append({"tokens": tokens, "turns": turns, "mib": mib})
                write(record, given.out)
    print(told(record))


def write(record: dict[str, Any], path: Path) -> None:
    """What is measured so far, as it stands."""
    record["load"] = [record["load"][0], os.getloadavg()[0]]
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(told(record), encoding="utf-8")


if __name__ == "__main__":
    main()
