"""Questions from a graph of facts: all capabilities, lengths and seeds over a generated encyclopedia."""

import json
from pathlib import Path
from typing import Any

from goldens import digest
from typer.testing import CliRunner

from sanderling.cli.synth import app
from sanderling.world.disk.building import build_world
from sanderling.world.encyclopedia import generate_pages

CALLS = {
    "all": ["--count", "60", "--seed", "3"],
    "long": ["--count", "20", "--seed", "4", "--hops", "3-6", "--size", "7-8"],
    "statistics": ["--count", "10", "--capability", "statistics", "--hops", "1-3", "--size", "4"],
    "cross-verification": ["--count", "10", "--capability", "cross-verification", "--seed", "1"],
    "enumeration": ["--count", "10", "--capability", "enumeration", "--hops", "1-4", "--seed", "2"],
}


def make(scratch: Path, recorded: Path | None) -> dict[str, Any]:
    """Each call's questions: texts and answers in plain, everything else as a digest."""
    world = scratch / "world"
    build_world(world, generate_pages(80, 2), name="encyclopedia-80-2", source="encyclopedia --size 80 --seed 2", seed=2)
    cases: dict[str, Any] = {}
    for name, options in CALLS.items():
        out = scratch / f"{name}.jsonl"
        told = CliRunner().invoke(app, ["graph", str(world), "--out", str(out), *options], catch_exceptions=False)
        assert told.exit_code == 0, told.output
        lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        cases[f"{name}: whole"] = digest(lines)
        cases[f"{name}: first"] = [(line["text"], line["answers"][:1]) for line in lines[:3]]
        cases[f"{name}: number"] = len(lines)
    return cases
