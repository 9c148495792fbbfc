"""How well models copy names they never saw, by how far back these stand.

    OMP_NUM_THREADS=1 python benchmarks/copying.py NAME=MODEL_DIRECTORY ...

Texts are walks through a held-out world, as in the base model's training. A name that stands a second time is copied when each
of its tokens after the first is the likeliest; the first one is left out, since which name comes next is not a matter of
copying. Reported per distance (tokens back to the name's last occurrence): cases, nats per token, share copied.
"""

import argparse
import json
import random
from collections import defaultdict
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path

import torch

from sanderling.core.chat import load_tokenizer
from sanderling.policy.model_directory import load_model
from sanderling.recipes.tiny_text import documents
from sanderling.runs.progress import command_line, machine
from sanderling.world.encyclopedia import Names, generate_encyclopedia

TOKENS = 700
BOUNDS = (8, 16, 32, 64, 128, 256, TOKENS)
"""Upper ends of the classes of distance."""


def repeats(text: str, starts: list[int], names: set[str]) -> list[tuple[int, int, int]]:
    """``(first token, end, distance)`` of each name that stands in the text again; ``starts`` are the tokens' characters."""
    token_at = {start: index for index, start in enumerate(starts)}
    found = []
    for name in names:
        before, at = None, text.find(name)
        while at >= 0:
            if at in token_at and at + len(name) in token_at:
                first, end = token_at[at], token_at[at + len(name)]
                if before is not None:
                    found.append((first, end, first - before))
                before = first
            at = text.find(name, at + 1)
    return found


def measure(model_directory: Path, texts: int, seed: int) -> list[dict[str, float]]:
    """One row for each class of distance."""
    model, tokenizer = load_model(model_directory), load_tokenizer(model_directory)
    world = generate_encyclopedia(80, seed, Names.HELD_OUT)
    names = {entity.name for entity in world.facts.entities}
    stream = documents(world, random.Random(seed))
    seen: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for _ in range(texts):
        ids = tokenizer.encode(next(stream))[:TOKENS]
        pieces = [tokenizer.decode([token]) for token in ids]
        with torch.inference_mode():
            scores = model(torch.tensor([ids])).logits[0].float().log_softmax(-1)
        for first, end, distance in repeats("".join(pieces), [0, *accumulate(map(len, pieces))], names):
            label = next(bound for bound in BOUNDS if distance <= bound)
            for place in range(first + 1, end):
                likeliest = int(scores[place - 1].argmax()) == ids[place]
                seen[label].append((-float(scores[place - 1, ids[place]]), likeliest))
    return [
        {
            "distance_up_to": bound,
            "tokens": len(seen[bound]),
            "nats": sum(nats for nats, _ in seen[bound]) / len(seen[bound]),
            "copied": sum(right for _, right in seen[bound]) / len(seen[bound]),
        }
        for bound in BOUNDS
        if seen[bound]
    ]


def main() -> None:
    """Measure models, print a table of each, write them down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL_DIRECTORY")
    parser.add_argument("--texts", type=int, default=40)
    parser.add_argument("--seed", type=int, default=999)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/copying.json"))
    chosen = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {}
    for told in chosen.models:
        name, told_so, directory = told.partition("=")
        if not told_so or name in found:
            parser.error(f"{told} is not NAME=MODEL_DIRECTORY, or the name is there twice")
        found[name] = measure(Path(directory), chosen.texts, chosen.seed)
        print(f"{name}\n{'distance':>9} {'tokens':>7} {'nats':>6} {'copied':>7}")
        for row in found[name]:
            print(f"{row['distance_up_to']:>9} {row['tokens']:>7} {row['nats']:>6.2f} {row['copied']:>7.1%}", flush=True)
    record = {"command": command_line(), "machine": machine(), "date": datetime.now(UTC).date().isoformat(), "models": found}
    chosen.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
