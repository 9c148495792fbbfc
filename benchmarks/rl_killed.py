"""An asynchronous RL run of the tiny recipe, killed again and again: what is lost, and what its ledger gives.

    OMP_NUM_THREADS=1 python benchmarks/rl_killed.py --tiny runs/tiny --out runs/rl-killed [--result NAME=DIRECTORY ...]

``--tiny`` is the directory of a finished ``sanderling recipe run tiny``, whose SFT model on correct trajectories is reinforced.
The command's whole process group gets SIGKILL after one to four more steps and up to seven seconds, ten times; then it runs to
its end. Counted are the groups' rollouts, none of which may be missing or there twice. A copy that holds the ledger alone is
then run: it has to end with the same weights. ``--result`` adds a measurement's directory to the table, such as those of the
recipe; the first is compared with each of the others. Called again, it goes on with what is missing. Needs two cores and a
quarter of an hour. The model is measured as the recipe measures, between the two calls:

    sanderling eval run jsonl runs/tiny/questions/held-out.jsonl --model runs/rl-killed/model
        --world 'runs/tiny/worlds/held-out-*' --judge exact --attempts 4
        --seed 51 --profile tiny --concurrency 64 --out runs/rl-killed.held-out
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.statistics import paired_difference
from sanderling.rl.config import RlConfig
from sanderling.rl.queue import Ledger
from sanderling.runs.progress import command_line, machine
from sanderling.runs.run import DATABASE, reading
from sanderling.train.checkpoint import CHECKPOINTS
from sanderling.train.metrics import METRICS, read_metrics

FILE = Path(__file__).parent / "results" / "rl_tiny_async.json"
KILLS = 10
PROCESSES = 2
WEIGHTS = Path("model") / "model.safetensors"


def command(tiny: Path, out: Path) -> list[str]:
    """What is run, and killed."""
    given = ["--model", tiny / "sft-correct" / "model", "--questions", tiny / "questions" / "train-*.jsonl"]
    given += ["--world", tiny / "worlds" / "train-*", "--out", out, "--processes", str(PROCESSES)]
    main = "from sanderling.cli.main import main; main()"
    return [sys.executable, "-c", main, "train", "rl", "--recipe", "tiny", *map(str, given)]


def steps_settled(out: Path) -> int:
    """Steps whose groups are written down."""
    if not (out / DATABASE).is_file():
        return 0
    with reading(out) as tables:
        return len(tables("batches")[0].keys())


def run_and_kill(tiny: Path, out: Path) -> None:
    """Until it is finished; the steps that it was killed in stand in ``kills.json`` beside it."""
    log = out.with_name(f"{out.name}.kills.json")
    killed: list[int] = json.loads(log.read_text()) if log.is_file() else []
    dice = random.Random(f"{out.name} {len(killed)}")
    while not (out / WEIGHTS).is_file():
        running = subprocess.Popen(command(tiny, out), start_new_session=True)
        goal = steps_settled(out) + dice.randrange(1, 5)
        while running.poll() is None and (len(killed) == KILLS or steps_settled(out) < goal):
            time.sleep(0.2)
        time.sleep(dice.uniform(0, 7))
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            killed.append(steps_settled(out) + 1)
            log.write_text(json.dumps(killed))
        elif running.wait():
            raise SystemExit(f"the run ended with exit status {running.returncode}")


def replayed(tiny: Path, out: Path) -> bool:
    """Whether the ledger alone gives the same weights, with nothing sampled."""
    copy = out.with_name(f"{out.name}-replayed")
    if not (copy / WEIGHTS).is_file():
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(out, copy, ignore=shutil.ignore_patterns("model", CHECKPOINTS, METRICS))
        subprocess.run(command(tiny, copy), check=True)
    return (copy / WEIGHTS).read_bytes() == (out / WEIGHTS).read_bytes()


def counted(out: Path, size: int) -> dict[str, Any]:
    """The ledger's groups and rollouts, and what the steps' figures say of ages."""
    ledgers = [Ledger(out, rank) for rank in range(PROCESSES)]
    settled = [group for batch in ledgers[0].batches() for group in batch.items()]
    wrong = stored = 0
    for number, _ in settled:
        attempts = sorted(attempt for ledger in ledgers for attempt in ledger.ended(number))
        stored += len(attempts)
        wrong += attempts != list(range(number * size, (number + 1) * size))
    steps = read_metrics(out / METRICS)
    return {
        "steps": len(steps),
        "groups": Counter(status.value for _, status in settled),
        "rollouts": stored,
        "groups_with_rollouts_missing_or_twice": wrong + len(settled) - len({number for number, _ in settled}),
        "age_mean": sum(step["age"] for step in steps) / len(steps),
        "age_oldest": max(step["age_oldest"] for step in steps),
    }


def points(one: EvalResult, other: EvalResult) -> list[float]:
    """How many points better the first is on the same questions, with a 95% interval."""
    # By their words: `eval run` puts a benchmark's name before ids, and the recipe does not.
    shares = [{q.text_digest: q.correct / q.scored for q in result.questions if q.scored} for result in (one, other)]
    ids = sorted(shares[0].keys() & shares[1].keys())
    found = paired_difference([shares[0][i] for i in ids], [shares[1][i] for i in ids], seed=0)
    return [100 * value for value in (found.difference, *found.interval)]


def main() -> None:
    """Run, kill, count, replay, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tiny", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--result", action="append", default=[], metavar="NAME=DIRECTORY")
    given = parser.parse_args()
    run_and_kill(given.tiny, given.out)
    killed = json.loads(given.out.with_name(f"{given.out.name}.kills.json").read_text())
    pairs = (one.split("=", 1) for one in given.result)
    results = {name: EvalResult.load(Path(place) / "result.json") for name, place in pairs}
    told: dict[str, Any] = {
        "command": command_line(),
        "machine": machine(),
        "date": datetime.now(UTC).date().isoformat(),
        "killed_in_steps": killed,
        **counted(given.out, RlConfig().group_size),
        "the_ledger_alone_gives_the_same_weights": replayed(given.tiny, given.out),
        "measured": {
            name: {"seed": one.seed, "questions": len(one.questions), "attempts": one.attempts, "command": one.command}
            for name, one in results.items()
        },
        "pass_at_1": {name: [one.pass_at_1.value, *(one.pass_at_1.interval or ())] for name, one in results.items()},
    }
    if results:
        first, *others = results
        told["points"] = {f"{first} over {other}": points(results[first], results[other]) for other in others}
    FILE.write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
