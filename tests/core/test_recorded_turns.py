"""Every assistant message ever recorded is read without losing a character of it."""

import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from sanderling.core.grammar import check_final, check_turn
from sanderling.core.parse import ParsedTurn, normalise_arguments, parse_turn
from sanderling.core.profiles import ToolNames
from sanderling.core.types import ToolCall

RECORDED = os.environ.get("SANDERLING_RECORDED")
pytestmark = pytest.mark.skipif(not RECORDED, reason="SANDERLING_RECORDED names no folder of recorded trajectories")
TAGS = re.compile(r"</?(?:think|tool_call|answer)>|\s")


def assistant_messages() -> list[tuple[str, str, bool]]:
    """Where from, text, and whether it is its conversation's last."""
    root = Path(RECORDED or "")
    sources = [(path.parent.name, json.loads(path.read_text())) for path in sorted(root.glob("dr-venus-*/*.json"))]
    lines = (root / "webdancer" / "sample_traj.jsonl").read_text().splitlines()
    sources += [("webdancer", json.loads(line)) for line in lines]
    found = []
    for source, conversation in sources:
        messages = conversation["messages"]
        texts = [(index, item["content"]) for index, item in enumerate(messages) if item["role"] == "assistant"]
        found += [(source, text, index == len(messages) - 1) for index, text in texts]
    return found


def content(turn: ParsedTurn) -> str:
    return TAGS.sub("", (turn.think or "") + "".join(call.raw for call in turn.calls) + (turn.answer or ""))


def test_every_recorded_message_is_read_whole() -> None:
    messages = assistant_messages()
    problems: Counter[str] = Counter()
    violations: Counter[str] = Counter()
    for source, text, last in messages:
        turn = parse_turn(text)
        problems.update(turn.problems)
        violations.update((check_final if last else check_turn)(text, think_open=False))
        assert turn.think
        assert (turn.answer is not None) == last, (source, text[-200:])
        assert len(turn.calls) == (0 if last else 1), (source, text[-200:])
        if turn.problems:
            assert turn.problems == ("several_answers",)
            assert turn.answer is not None
            assert text.endswith(f"<answer>\n{turn.answer}\n</answer>")
        else:
            assert content(turn) == TAGS.sub("", text)
    print(f"{len(messages)} messages; problems {dict(problems)}; violations {dict(violations)}")  # noqa: T201 (the counts are wanted with -s)
    assert len(messages) == 671
    assert problems == {"several_answers": 1}
    assert violations == {"several_answers": 1}


def test_every_recorded_call_is_already_canonical() -> None:
    calls = [call for _, text, _ in assistant_messages() for call in parse_turn(text).calls]
    assert Counter(call.name for call in calls) == {"search": 470, "visit": 91}
    assert all(normalise_arguments(call, ToolNames()) == call for call in calls)


def test_the_viewers_calls_become_canonical() -> None:
    """LiteResearcher's case files keep calls as ``queries`` and ``urls``."""
    found = 0
    for path in sorted(Path(RECORDED or "").glob("literesearcher-cases/*.json")):
        steps = [step for case in json.loads(path.read_text())["cases"] for step in case["steps"]]
        for raw in [raw for step in steps for raw in step.get("tool_calls") or []]:
            arguments = {key: value for key, value in raw.items() if key != "name"}
            call = normalise_arguments(ToolCall(name=raw["name"], arguments=arguments), ToolNames())
            wanted = {"query"} if call.name == "search" else {"url", "goal"}
            assert set(call.arguments) == wanted
            assert all(isinstance(call.arguments[key], list) for key in wanted - {"goal"})
            found += 1
    assert found == 246
