"""What was exported, read back by Inspect itself. Runs where Inspect is installed: see docs/evaluation.md."""

import asyncio
from importlib import import_module
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from inspect_runs import answering, calling, episode, make_run, plain, question_node, seen, system
from measured_runs import go

from sanderling.core.types import Ending, ToolStatus
from sanderling.evaluate.inspect_log import export_run

pytest.importorskip("inspect_ai", reason="the extra [inspect] is not installed: it wants an environment of its own")

IDS = ["q", "jsonl/a/b", "../up", "emoji 🐦 \u202e", "x" * 300, 'quote"\\', "a_epoch_1", "nul\ufffd"]


def odd_run(root: Path) -> None:
    """One attempt of each odd kind, under odd ids."""
    several = calling(1, ("search", {"query": ["a"], "none": None}), ("visit", {"url": "u", "deep": [{"x": 1.5}]}))
    results = seen(2, ("found", ToolStatus.OK), ("gone", ToolStatus.GONE))
    counts = {"prompt_tokens": 9, "prefilled_tokens": 4, "sampled_tokens": 2}
    stored = [
        plain(id=IDS[0]),
        episode([system(), question_node("\ud800"), several, results, answering(3)], id=IDS[1], correct=False),
        episode(id=IDS[2], ending=Ending.POLICY_OUTAGE, detail="away"),
        plain(id=IDS[3], ending=Ending.TURN_LIMIT, correct=False, detail="12 turns"),
        plain(id=IDS[4], correct=None),
        episode([system(), question_node(), calling(1, ("f", {}), rejected=True), answering(1)], id=IDS[5]),
        episode([system(), question_node(), answering(1, **counts)], id=IDS[6], seconds=1.5),
        plain(id="nul\0", ending=Ending.TOOL_OUTAGE),
    ]
    make_run(root, stored, 1)


@pytest.mark.parametrize("suffix", [".eval", ".json"])
def test_odd_attempts_are_read_back(tmp_path: Path, suffix: str) -> None:
    odd_run(tmp_path / "run")
    out = tmp_path / f"log{suffix}"
    assert export_run(tmp_path / "run", out).samples == len(IDS)
    log: Any = import_module("inspect_ai.log")
    whole = log.read_eval_log(str(out))
    found = {sample.id: sample for sample in whole.samples}
    assert set(found) == set(IDS) and (whole.status, whole.version) == ("success", 2)
    assert whole.results.scores[0].metrics["accuracy"].value == pytest.approx(3 / 5)
    assert sum(isnan(one.value) for one in whole.reductions[0].samples) == 3
    assert [call.arguments for call in found[IDS[1]].messages[2].tool_calls] == [
        {"query": ["a"], "none": None},
        {"url": "u", "deep": [{"x": 1.5}]},
    ]
    assert found[IDS[1]].messages[4].error.message == "gone" and found[IDS[1]].messages[1].content == "\ufffd"
    assert found[IDS[2]].error.message == "away" and not found[IDS[2]].output.choices
    assert (found[IDS[3]].limit.type, found[IDS[3]].limit.limit) == ("turn", 12)
    assert isnan(found[IDS[4]].scores["exact"].value)
    assert found[IDS[5]].metadata["rejected_turns"] == 1
    assert found[IDS[6]].model_usage["sanderling/made-up"].total_tokens == 11
    for id in IDS:
        one = log.read_eval_log_sample(str(out), id=id, epoch=1)
        assert one.uuid == found[id].uuid and one.messages == found[id].messages
    summaries = {one.id: one for one in log.read_eval_log_sample_summaries(str(out))}
    assert summaries[IDS[2]].error == "away" and summaries[IDS[3]].limit == "turn" and summaries[IDS[0]].completed
    assert summaries[IDS[0]].message_count == 5


def test_both_formats_say_the_same(tmp_path: Path) -> None:
    asyncio.run(go(tmp_path / "run", 6, 3))
    log: Any = import_module("inspect_ai.log")
    read = []
    for name in ("a.eval", "a.json"):
        export_run(tmp_path / "run", tmp_path / name)
        read.append(log.read_eval_log(str(tmp_path / name)).model_dump_json())
    assert read[0] == read[1]


def test_inspect_finds_the_same_figures(tmp_path: Path) -> None:
    """Its own metrics over the samples: accuracy over the means of the epochs, what is unscored left out."""
    _, result = asyncio.run(go(tmp_path / "run", 20, 3))
    export_run(tmp_path / "run", tmp_path / "a.eval")
    log: Any = import_module("inspect_ai.log")
    whole = log.read_eval_log(str(tmp_path / "a.eval"))
    told = whole.results.scores[0]
    values: dict[str, list[float]] = {}
    for sample in whole.samples:
        value = sample.scores[result.judge].value
        if isinstance(value, str):
            values.setdefault(sample.id, []).append(float(value == "C"))
    means = {id: sum(given) / len(given) for id, given in values.items()}
    assert told.metrics["accuracy"].value == pytest.approx(sum(means.values()) / len(means))
    assert told.scored_samples == len(means) and told.scored_samples + told.unscored_samples == 20
    assert {one.sample_id: one.value for one in whole.reductions[0].samples if not isnan(one.value)} == pytest.approx(means)


def test_the_viewer_lists_what_we_say_it_lists(tmp_path: Path) -> None:
    make_run(tmp_path / "run", [plain()], 1)
    log: Any = import_module("inspect_ai.log")
    names = ["a.json", "a.eval", "2026-01-31T12-00-00_a.json"]
    told = {name for name in names if export_run(tmp_path / "run", tmp_path / "logs" / name).listed}
    assert {Path(one.name).name for one in log.list_eval_logs(str(tmp_path / "logs"))} == told


def test_private_texts_are_not_in_it(tmp_path: Path) -> None:
    make_run(tmp_path / "run", [plain()], 1, private=True)
    export_run(tmp_path / "run", tmp_path / "a.json")
    inside = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert "Vumhum" not in inside and "Which town" not in inside and '"C"' in inside
