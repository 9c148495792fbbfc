"""Made-up records of others: AgentToLeaP's folders as its programs write and copy them, and single files."""

import json
import shutil
from pathlib import Path
from typing import Any

from sanderling.core.record import Question

SEEN = "<tool_response>\n[]\n</tool_response>"


def benchmark(*rows: tuple[str, str, str]) -> list[Question]:
    """Questions of a benchmark called ``b``: native id, text, accepted answer."""
    return [Question(id=f"b/{native}", text=text, answers=(answer,) if answer else ()) for native, text, answer in rows]


def history(query: str, answer: str | None) -> list[dict[str, Any]]:
    """One search, and an answer between tags; None: last words without any."""
    called = {"id": "1", "type": "function", "function": {"name": "search", "arguments": '{"query": ["a"]}'}}
    last = "I do not know." if answer is None else f"<answer>{answer}</answer>"
    return [
        {"role": "system", "content": "sys"},
        {"role": "user", "content": f"Your task is to answer the user's question: {query}"},
        {"role": "assistant", "content": "", "thought": "hm", "tool_calls": [called]},
        {"role": "user", "content": SEEN},
        {"role": "assistant", "content": last, "thought": "so"},
    ]


def result_of(task: str, query: str, answer: str | None, **changes: Any) -> dict[str, Any]:
    """What AgentToLeaP writes of an attempt."""
    told = {"task_id": task, "query": query, "success": True, "conversation_history": history(query, answer)}
    told |= {"tool_calls": [], "execution_time": 60.0, "interactions": 2, "max_interactions_reached": False, "logprobs": []}
    return told | changes


def save_attempt(folder: Path, task: str, query: str, answer: str | None, **changes: Any) -> Path:
    """An attempt's folder with the files that stand in it."""
    folder.mkdir(parents=True, exist_ok=True)
    told = result_of(task, query, answer, **changes)
    (folder / "result.json").write_text(json.dumps(told, indent=2), encoding="utf-8")
    (folder / "dialog.json").write_text(json.dumps(told["conversation_history"][1:]), encoding="utf-8")
    (folder / "trace.json").write_text("[]", encoding="utf-8")
    (folder / "meta_config.json").write_text(json.dumps({"model": "agent-4b", "provider": "openai"}), encoding="utf-8")
    return folder


def copy_judged(raw: Path, to: Path, task: str, index: int, runs: int, *, right: bool) -> Path:
    """What the harness copies of an attempt once it is judged."""
    name = f"{task}_run_{index}" if runs > 1 else task
    target = to / ("success" if right else "fail") / name
    shutil.copytree(raw / task / f"traj_{index}", target)
    return target
