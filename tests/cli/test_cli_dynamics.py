"""Faults and masks from the command line: --faults, world fit-faults."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.world.contract import Occasion, Page, answered
from sanderling.world.disk.store import build_world
from sanderling.world.opening import open_as_met

TEXT = "Orlo was a poet of the northern coast who wrote forty odes to the tide and kept a lighthouse there until he died"


@pytest.fixture
def world(tmp_path: Path) -> Path:
    pages = [
        Page(url="https://w.example/Orlo", title="Orlo", text=TEXT),
        Page(url="https://m.example/orlo", title="Orlo", text=f"{TEXT} again"),
        Page(url="https://w.example/Bex", title="Bex", text="Bex was a poet too."),
    ]
    build_world(tmp_path / "w", pages, name="w", source="test")
    return tmp_path / "w"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_masks_reach_near_duplicates(world: Path) -> None:
    masked = frozenset({"https://w.example/Orlo"})
    assert [hit.url for hit in answered(open_as_met(world).search("poet", occasion=Occasion(masked=masked))).hits] == [
        "https://w.example/Bex"
    ]
    (world / "blocklist.txt").write_text("m.example\n")
    assert "m.example" not in run("search", world, "poet")


def test_fit_faults_writes_a_profile_that_can_be_used(world: Path, tmp_path: Path) -> None:
    observation = "The useful information in https://w.example/Orlo for user goal age as follows: \n\nEvidence in page: \n"
    row = {
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "Who?"},
            {
                "role": "assistant",
                "content": '<think>x</think>\n<tool_call>\n{"name": "visit", "arguments": {"url": ["https://w.example/Orlo"], '
                '"goal": "age"}}\n</tool_call>',
            },
            {"role": "user", "content": f"<tool_response>\n{observation}He was old.\n\nSummary: \nOld.\n</tool_response>"},
            {"role": "assistant", "content": "<think>x</think>\n<answer>Orlo</answer>"},
        ]
    }
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "a.jsonl").write_text(json.dumps(row) + "\n")
    out = tmp_path / "mine.toml"
    assert "0 queries and 1 visits, with 0 and 0 delays" in run("fit-faults", "--from", tmp_path / "records", "--out", out)
    assert tomllib.loads(out.read_text())["name"] == "mine"
    assert "Orlo" in run("visit", world, "https://w.example/Orlo", "--faults", out)


def test_injected_pages_hold_an_order_and_change_nothing_else(world: Path) -> None:
    met, plain = open_as_met(world, injected=1.0), open_as_met(world)
    ordered = answered(met.visit("https://w.example/Orlo")).text
    assert len(re.findall(r"sdl-canary-[0-9a-f]{10}", ordered)) == 1
    assert TEXT in ordered and answered(plain.visit("https://w.example/Orlo")).text == TEXT
    assert met.fingerprint != plain.fingerprint and answered(met.search("poet")) == answered(plain.search("poet"))
