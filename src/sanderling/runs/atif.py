"""Trajectories in ATIF, the interchange format of Harbor, for others' viewers and trainers.

A document has the main branch as steps: what the model said with its calls, their results beside it, and its tokens with their
log-probabilities. What ATIF has no field for is in ``extra``: the question with its answers, how it ended, and the ids of what
the template added before a turn. The version is 1.7 (harbor, ``docs/rfcs/0001-trajectory-format.md``).
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sanderling import __version__
from sanderling.core.chat import BETWEEN_RESULTS, unwrap
from sanderling.core.record import FOLLOWS, Node, NodeKind, Trajectory, encode_record
from sanderling.core.types import Role
from sanderling.runs.files import or_cannot, replace_file

_VERSION = "ATIF-v1.7"
_APART = re.compile(r"<think>.*?</think>|<tool_call>.*?(?:</tool_call>|\Z)|</?answer>", re.DOTALL)
_SOURCES = {Role.SYSTEM: "system", Role.USER: "user", Role.ASSISTANT: "agent"}


def as_atif(trajectory: Trajectory, session: str = "") -> dict[str, Any]:
    """The document of one trajectory; ``session``: the conversation that it is of."""
    copied = trajectory.meta.get(FOLLOWS, {}).get("nodes", 0)
    steps: list[dict[str, Any]] = []
    for at, node in enumerate(trajectory.branch()):
        if node.kind is NodeKind.OBSERVATION and steps and steps[-1]["source"] == "agent":
            steps[-1]["observation"] = {"results": _results(node, steps[-1])}
            steps[-1].setdefault("extra", {}).update(_given(observation_token_ids=node.token_ids))
            continue
        step = {"step_id": len(steps) + 1, "source": _SOURCES[node.role], **_said(node)}
        steps.append(step | _given(is_copied_context=at < copied or None))
    steps = steps or [{"step_id": 1, "source": "user", "message": trajectory.question.text}]  # there is at least one
    turns = list(trajectory.turns())
    about = {
        "question": trajectory.question.model_dump(mode="json"),
        "ending": trajectory.ending,
        "answer": trajectory.answer,
        "detail": trajectory.detail,
        "world": trajectory.world,
        "tokenizer": trajectory.tokenizer,
        "seeds": trajectory.seeds.model_dump(),
        "seconds": trajectory.seconds,
        "rejected_turns": sum(node.rejected for node in trajectory.nodes),
    }
    totals = _given(
        total_prompt_tokens=sum(node.prompt_tokens for node in turns) or None,
        total_completion_tokens=sum(map(_sampled, turns)) or None,
        total_steps=len(steps),
    )
    return {
        "schema_version": _VERSION,
        "session_id": session or trajectory.id,
        "trajectory_id": trajectory.id,
        "agent": {
            "name": "sanderling",
            "version": __version__,
            "model_name": trajectory.model,
            "extra": {"profile": trajectory.profile},
        },
        "steps": steps,
        "final_metrics": totals,
        "extra": _given(**about),
    }


def write_atif(path: Path, trajectories: Sequence[Trajectory], session: str = "") -> None:
    """One document in a file; several in a folder, each named after its trajectory. Raises UserError."""
    alone = len(trajectories) == 1
    if not alone:
        with or_cannot(f"make the folder {path}"):
            path.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(trajectories):
        name = re.sub(r"[^\w.-]+", "_", one.id)[:80] or "trajectory"
        target = path if alone else path / f"{number:05d}-{name}.json"
        with or_cannot(f"write {target}"):
            replace_file(target, encode_record(as_atif(one, session)))


def _said(node: Node) -> dict[str, Any]:
    """What a message is as a step, its results aside."""
    if node.kind is not NodeKind.TURN:
        return {"message": unwrap(node.text), "extra": {"kind": node.kind, **_given(token_ids=node.token_ids)}}
    calls = [
        {"tool_call_id": f"call_{place}", "function_name": call.name, "arguments": call.arguments}
        for place, call in enumerate(node.calls, start=1)
    ]
    metrics = _given(
        prompt_tokens=node.prompt_tokens or None,
        completion_tokens=_sampled(node) or None,
        cached_tokens=node.prompt_tokens - node.prefilled_tokens if node.prompt_tokens and node.prefilled_tokens else None,
        completion_token_ids=node.token_ids,
        logprobs=node.logprobs,
    )
    return {
        "message": _APART.sub("", node.text.partition("</think>")[2] or node.text).strip(),
        **_given(reasoning_content=node.think, tool_calls=calls or None, metrics=metrics or None),
        "llm_call_count": 1,
        "extra": _given(seconds=node.seconds, problems=node.problems or None, versions=node.versions, raw=node.text),
    }


def _results(node: Node, step: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The results of a turn's calls, each beside its call where they can be told apart."""
    calls, whole = step.get("tool_calls", []), unwrap(node.text)
    texts = whole.split(BETWEEN_RESULTS)
    if len(texts) != len(calls):
        return [{"content": whole, **_given(source_call_id=calls[0]["tool_call_id"] if len(calls) == 1 else None)}]
    return [{"source_call_id": call["tool_call_id"], "content": text} for call, text in zip(calls, texts, strict=True)]


def _sampled(node: Node) -> int:
    return node.sampled_tokens or len(node.token_ids or ())


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
