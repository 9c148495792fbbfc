"""A finished run as a log of Inspect (https://inspect.aisi.org.uk), so that its viewer and its tools open it.

A ``.eval`` file is a zip of ``samples/ID_epoch_N.json``, ``summaries.json`` and ``header.json``, in version 2 of Inspect's
format; its package is not needed. A question's attempts are the epochs of one sample, from 1, and show the record's main
branch. Figures are the result's, never computed again. Right is ``"C"``, wrong ``"I"``, unscored NaN, which Inspect's own
metrics leave out; the reason is in ``reason``. Token counts that nobody made are left out, never zero.
"""

import hashlib
import json
from datetime import datetime, timedelta
from math import nan
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import Role
from sanderling.evaluate.figures import groups_of
from sanderling.evaluate.log import RunLog, RunState
from sanderling.evaluate.result import EvalResult, JudgedAttempt, episode_of
from sanderling.judge.verdict import Code
from sanderling.runs.files import WholeFile

Json = dict[str, Any]
LEFT_OUT = "(texts are left out)"
_SUMMARY = ("id", "epoch", "input", "target", "metadata", "scores", "model_usage", "total_time", "turn_count", "uuid")


def export_run(place: Path, out: Path, *, texts: bool) -> int:
    """Write a finished run as a log, sample by sample; returns how many there are.

    Raises UserError for a directory that is no finished run, and for a file name that is no log's.
    """
    if out.suffix != ".eval":
        raise UserError(f"{out.name} ends in none of .eval (a log of Inspect), .jsonl and .parquet (trajectories): rename it.")
    log = RunLog(place)
    run, result = log.require(), EvalResult.load(log.result_file)
    judged = {one.key: one for one in log.verdicts()}
    summaries: list[Json] = []
    with WholeFile(out, durable=False) as whole, ZipFile(whole.file, "w", ZIP_DEFLATED, compresslevel=1) as archive:
        for key, episode in log.counted(result).items():
            trajectory = log.record(episode)
            scores = scores_of(trajectory, judged.get(key), result.judge, result.second_judge, texts=texts)
            sample = sample_of(trajectory, scores, texts=texts)
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", _encoded(sample))
            error = {"error": sample["error"]["message"]} if "error" in sample else {}
            about = {"completed": True, "message_count": len(sample["messages"])}
            summaries.append({name: sample[name] for name in _SUMMARY} | about | error)
        archive.writestr("summaries.json", _encoded(summaries))
        archive.writestr("header.json", _encoded(header_of(run, result, texts=texts)))
    return len(summaries)


def _encoded(value: Any) -> bytes:
    """JSON as Inspect reads it, in which NaN is a word; half of a surrogate pair, which a model can write, becomes "?"."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _model_name(model: str) -> str:
    """A model as Inspect names it: provider and name."""
    return f"sanderling/{model or 'not-recorded'}"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:22]


# Samples --------------------------------------------------------------------------------------------------------------------


def sample_of(trajectory: Trajectory, scores: dict[str, Json], *, texts: bool = True) -> Json:
    """One attempt as a sample. Without ``texts`` nothing that was asked or that an agent or judge wrote is in it."""
    question, episode, ending = trajectory.question, episode_of(trajectory), trajectory.ending
    messages = messages_of(trajectory) if texts else []
    last = [message for message in messages if message["role"] == "assistant"][-1:]
    detail = trajectory.detail if texts else ""
    metadata: Json = {name: values[0] if len(values) == 1 else list(values) for name, values in groups_of(question).items()}
    metadata |= {"ending": ending, "detail": detail, "profile": trajectory.profile, "world": trajectory.world}
    metadata |= {"rejected_turns": sum(node.rejected for node in trajectory.nodes), "calls": episode.calls}
    usage: Json = {}
    if episode.sampled_tokens is not None and episode.prompt_tokens is not None:  # rejected attempts at a turn included
        total = episode.prompt_tokens + episode.sampled_tokens
        counts = {"input_tokens": episode.prompt_tokens, "output_tokens": episode.sampled_tokens, "total_tokens": total}
        usage = {_model_name(trajectory.model): counts}
    found: Json = {
        "id": question.id,
        "epoch": trajectory.seeds.attempt + 1,
        "input": question.text if texts else LEFT_OUT,
        "target": list(question.answers) if texts else LEFT_OUT,
        "messages": messages,
        "output": {"model": trajectory.model, "choices": [{"message": one, "stop_reason": "stop"} for one in last]},
        "scores": scores,
        "metadata": {name: value for name, value in metadata.items() if value not in (None, "", 0)},
        "model_usage": usage,
        "total_time": trajectory.seconds,
        "turn_count": episode.turns,
        "uuid": _short_hash(f"{trajectory.seeds.run} {trajectory.id}"),
    }
    if ending is not None and not ending.scored:
        found["error"] = {"message": detail or ending.value, "traceback": "", "traceback_ansi": ""}
    return found


def scores_of(
    trajectory: Trajectory, one: JudgedAttempt | None, first: str, second: str = "", *, texts: bool = True
) -> dict[str, Json]:
    """A score under each judge's name; a person's verdict stands for the first's. ``one`` None: nobody judged it."""

    def score(correct: bool | None, code: Code | None, reason: str) -> Json:
        found: Json = {"value": nan if correct is None else "C" if correct else "I"}
        if correct is None or code is Code.NO_ANSWER:
            found["reason"] = "not_judged" if code is None else code.value
        shown = {"answer": trajectory.answer, "explanation": reason} if texts else {}
        return found | {name: text for name, text in shown.items() if text}

    if one is None:
        return {first: score(None, None, "")}
    by = {"by": one.judge} if one.judge != first else {}
    found = {first: score(one.correct, one.code, one.reason) | {"metadata": {"code": one.code, **by}}}
    if second:
        found[second] = score(one.second, None if one.second is None else Code.JUDGED, one.second_reason)
    return found


def messages_of(trajectory: Trajectory) -> list[Json]:
    """The main branch as chat messages; an observation is the result of its turn's first call. Empty if it never began."""
    found: list[Json] = []
    calls: list[Json] = []
    for index in trajectory.path() if trajectory.leaf is not None else []:
        node = trajectory.nodes[index]
        if node.kind is NodeKind.TURN:
            found.append(_turn(index, node))
            calls = found[-1].get("tool_calls", [])
        elif node.kind is NodeKind.OBSERVATION:
            answers = {"tool_call_id": calls[0]["id"], "function": calls[0]["function"]} if calls else {}
            found.append({"role": "tool", "content": node.text, **answers})
        else:
            found.append({"role": node.role.value, "content": node.text})
    return found


def _turn(index: int, node: Node) -> Json:
    """Reasoning, answer and calls are parts of the message; a turn in which the parser found none of them is its text."""
    text = f"<answer>{node.answer}</answer>" if node.answer is not None else "" if node.think or node.calls else node.text
    content: list[Json] = [{"type": "reasoning", "reasoning": node.think}] if node.think else []
    content += [{"type": "text", "text": text}] if text or not content else []
    calls = [{"id": f"{index}-{at}", "function": call.name, "arguments": call.arguments} for at, call in enumerate(node.calls)]
    message: Json = {"role": Role.ASSISTANT.value, "content": content, "source": "generate"}
    return message | ({"tool_calls": calls} if calls else {})


# The head of the log --------------------------------------------------------------------------------------------------------


def header_of(run: RunState, result: EvalResult, *, texts: bool) -> Json:
    """The log without its samples."""
    about, ended = run.about, datetime.fromisoformat(result.date)
    began, id = ended - timedelta(seconds=result.seconds), _short_hash(about.model_dump_json() + result.model_dump_json())
    outages = sum(count for ending, count in result.endings.items() if not ending.scored)
    metadata = {"seed": result.seed, "world": result.world, "command": result.command, "texts": texts}
    dataset = {"name": f"{about.benchmark} {about.split}".strip(), "location": about.file, "samples": len(result.questions),
               "sample_ids": [one.id for one in result.questions]}  # fmt: skip
    values = {"accuracy": result.pass_at_1.value}  # a figure that no question has enough attempts for is left out
    for name, curve in (("pass_at", result.pass_at_k), ("pass_hat", result.pass_hat_k)):
        values |= {f"{name}_{k}": one.value for k, one in curve.items() if k > 1}
    score = {
        "name": result.judge,
        "scorer": result.judge,
        "reducer": "mean",
        "scored_samples": result.pass_at_1.questions,  # as Inspect counts after its reducer: questions
        "unscored_samples": result.pass_at_1.too_few,
        "metrics": {name: {"name": name, "value": value} for name, value in values.items() if value is not None},
    }
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "created": began.isoformat(),
            "task": f"sanderling/{about.benchmark or 'trajectories'}",
            "task_id": id,
            "run_id": id,
            "eval_id": id,
            "dataset": dataset,
            "model": _model_name(result.model),
            "config": {"epochs": result.attempts, "epochs_reducer": ["mean"]},
            "packages": {"sanderling": result.version},
            "metadata": metadata | {"invalid_because": result.invalid_because, "about": about.model_dump(mode="json")},
            "scorers": [{"name": judge} for judge in (result.judge, result.second_judge) if judge],
        },
        "plan": {"name": "plan", "steps": []},
        "results": {"total_samples": result.made, "completed_samples": result.made - outages, "scores": [score]},
        "stats": {"started_at": began.isoformat(), "completed_at": ended.isoformat()},
    }
