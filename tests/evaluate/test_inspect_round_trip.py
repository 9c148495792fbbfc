"""What was exported, read back by Inspect itself. Runs where Inspect is installed: see docs/evaluation.md."""

from importlib import import_module
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from inspect_runs import answering, calling, episode, make_run, plain, question_node, seen, system

from sanderling.core.types import Ending, ToolStatus
from sanderling.evaluate.inspect_log import export_run

pytest.importorskip("inspect_ai", reason="the extra [inspect] is not installed: it wants an environment of its own")

IDS = ["q", "jsonl/a/b", "../up", "emoji 🐦 \u202e", "x" * 300, 'quote"\\']


def test_odd_attempts_are_read_back(tmp_path: Path) -> None:
    several = calling(1, ("search", {"query": ["a"], "none": None}), ("visit", {"url": "u", "deep": [{"x": 1.5}]}))
    results = seen(2, ("found", ToolStatus.OK), ("gone", ToolStatus.GONE))
    counts = {"prompt_tokens": 9, "prefilled_tokens": 4, "sampled_tokens": 2}
    stored = [
        plain(id=IDS[0]),
        episode([system(), question_node("\ud800"), several, results, answering(3)], id=IDS[1], correct=False),
        episode(id=IDS[2], ending=Ending.POLICY_OUTAGE, detail="away"),
        plain(id=IDS[3], ending=Ending.TURN_LIMIT, correct=False, detail="12 turns"),
        plain(id=IDS[4], correct=None),
        episode([system(), question_node(), answering(1, **counts)], id=IDS[5], seconds=1.5),
    ]
    make_run(tmp_path / "run", stored, 1)
    out = tmp_path / "log.eval"
    assert export_run(tmp_path / "run", out, texts=True) == len(IDS)
    log: Any = import_module("inspect_ai.log")
    whole = log.read_eval_log(str(out))
    found = {sample.id: sample for sample in whole.samples}
    assert set(found) == set(IDS) and (whole.status, whole.version) == ("success", 2)
    assert whole.results.scores[0].metrics["accuracy"].value == pytest.approx(2 / 4)
    assert [call.arguments for call in found[IDS[1]].messages[2].tool_calls] == [
        {"query": ["a"], "none": None},
        {"url": "u", "deep": [{"x": 1.5}]},
    ]
    assert found[IDS[1]].messages[3].role == "tool" and found[IDS[1]].messages[1].content == "?"
    assert found[IDS[2]].error.message == "away" and not found[IDS[2]].output.choices
    assert isnan(found[IDS[4]].scores["exact"].value)
    assert found[IDS[5]].model_usage["sanderling/made-up"].total_tokens == 11
    assert log.read_eval_log_sample(str(out), id=IDS[0], epoch=1).uuid == found[IDS[0]].uuid
    summaries = {one.id: one for one in log.read_eval_log_sample_summaries(str(out))}
    assert summaries[IDS[2]].error == "away" and summaries[IDS[0]].completed and summaries[IDS[0]].message_count == 5
    assert [Path(one.name).name for one in log.list_eval_logs(str(tmp_path))] == ["log.eval"]
