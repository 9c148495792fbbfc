"""A run as a log of Inspect (https://inspect.aisi.org.uk), so that its viewer and its tools open it.

``.eval`` is a zip of ``samples/ID_epoch_N.json``, ``summaries.json``, ``reductions.json`` and ``header.json``, written sample
by sample; ``.json`` is one object. What stands in them is Inspect's format, version 2; its package is not needed.

A question's attempts are the epochs of one sample, counted from 1; of an attempt that was made more than once the last record
counts. Of a record's branches the main one is shown; how much stands beside it is counted. Figures are those of the run's
result, never computed again: an invalid run is a log with status success that says in its metadata why its figures mean little.
Token counts that nobody made are left out, never zero. Right is ``"C"``, wrong ``"I"``, and what could not be scored NaN, which
Inspect's own metrics leave out; why stands in its ``reason``.
"""

import hashlib
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import nan
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from sanderling.core.errors import UserError
from sanderling.core.parse import CALL, CALL_END, THINK, THINK_END
from sanderling.core.profiles import Profile
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import Ending, Role, ToolStatus
from sanderling.data.cleaning.draft import split_blocks
from sanderling.evaluate.episodes import PUBLISHED, JudgedAttempt, episode_of
from sanderling.evaluate.figures import groups_of
from sanderling.evaluate.guarding import guard_counts
from sanderling.evaluate.log import About, RunLog, RunState
from sanderling.evaluate.result import Estimate, EvalResult
from sanderling.judge.verdict import Code
from sanderling.runs.files import WholeFile
from sanderling.world.guard import GuardKind

Json = dict[str, Any]
FORMATS = (".eval", ".json")
LEFT_OUT = "(texts are left out)"
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}[:-]\d{2}[:-]\d{2}")
_LEVEL = 1
"""Of compression: zip's own default takes seven times as long, for a fifth less."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    samples: int
    missing: int
    """Attempts that the result counts and the store does not hold."""
    texts: bool
    """Whether questions, answers and messages are in it."""
    listed: bool
    """Whether the viewer lists a file of this name; it opens every one by its address."""


def export_run(place: Path, out: Path, *, texts: bool | None = None) -> Exported:
    """Write a finished run as a log. ``texts`` None: unless they are not to be published.

    Raises UserError for a directory that is no finished run, and for a file name of no format.
    """
    if out.suffix not in FORMATS:
        raise UserError(f"{out.name} is no log of Inspect: call it something that ends in {' or '.join(FORMATS)}.")
    directory = RunLog(place)
    run = directory.require()
    result = EvalResult.load(directory.result_file)
    shown = not run.about.private if texts is None else texts
    samples = _Samples(directory, run, result, shown)
    with WholeFile(out, durable=False) as whole:
        if out.suffix == ".json":
            found = sorted(samples, key=lambda sample: (sample["epoch"], sample["id"]))
            whole.file.write(_encoded({**samples.header(), "samples": found, "reductions": reductions_of(result)}))
        else:
            with ZipFile(whole.file, "w", ZIP_DEFLATED) as archive:
                _write_archive(archive, samples, result)
    # Inspect takes a JSON file for a log where its name begins with a time, as those do that it writes itself.
    listed = out.suffix == ".eval" or _TIME.match(out.name) is not None
    return Exported(samples.written, result.made - samples.written, shown, listed)


def _write_archive(archive: ZipFile, samples: "_Samples", result: EvalResult) -> None:
    """Samples one by one, then everything that is known only at the end; never more than one sample is in memory."""
    names: set[str] = set()
    with tempfile.TemporaryFile() as summaries:
        for sample in samples:
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            if name in names:
                raise ValueError(f"two samples are called {name!r}, and a reader would find only one of them")
            summaries.write((b"," if names else b"[") + _encoded(_summary(sample)))
            names.add(name)
            archive.writestr(_member(name), _encoded(sample), compresslevel=_LEVEL)
        summaries.write(b"]" if names else b"[]")
        info = _member("summaries.json")
        info.file_size = summaries.tell()  # tells zip whether its 32-bit form will do
        summaries.seek(0)
        with archive.open(info, "w") as member:
            shutil.copyfileobj(summaries, member)
    archive.writestr(_member("reductions.json"), _encoded(reductions_of(result)))
    archive.writestr(_member("header.json"), _encoded(samples.header()))


def _member(name: str) -> ZipInfo:
    """The same bytes whenever it is written; compressed, which a member of its own does not take from its archive."""
    info = ZipInfo(name)
    info.compress_type = ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


def _encoded(value: Any) -> bytes:
    """JSON as Inspect reads it: NaN is a word of it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class _Samples:
    """The samples of a run, one by one in the store's order, and what is known when the last is made."""

    def __init__(self, directory: RunLog, run: RunState, result: EvalResult, texts: bool) -> None:
        self._directory, self._run, self._result, self._texts = directory, run, result, texts
        self._limits = _limits(directory)
        self._guarded = guard_counts(directory.guard_file).by_attempt
        self._judged = {one.key: one for one in directory.verdicts(result.judged_sha256)}
        self._usage: Counter[str] | None = Counter()
        self.written = 0

    def __iter__(self) -> Iterator[Json]:
        log = log_id(self._run.about, self._result)
        for key, episode in self._directory.counted(self._result).items():
            trajectory = self._directory.record(episode)
            self.written += 1
            self._count(trajectory)
            yield sample_of(
                trajectory,
                scores_of(trajectory, self._judged.get(key), self._result.judge, self._result.second_judge, texts=self._texts),
                self._limits,
                uuid=_short_hash(f"{log} {key[1]} {key[0]}"),
                guarded=self._guarded.get(key),
                texts=self._texts,
            )

    def header(self) -> Json:
        """Of the samples that were made so far."""
        usage = dict(self._usage) if self._usage else None
        return header_of(self._run, self._result, usage, texts=self._texts)

    def _count(self, trajectory: Trajectory) -> None:
        """Add up what everything took; unknown once it is unknown for one. An outage before the first turn took nothing."""
        usage = _usage(trajectory) if trajectory.nodes else {}
        if usage is None or self._usage is None:
            self._usage = None
        else:
            self._usage.update(usage)


def _limits(directory: RunLog) -> dict[Ending, float]:
    """How large the agent's budgets were, as the run was begun with; empty where it does not say."""
    try:
        profile = Profile.model_validate(directory.made_with()["profile"])
    except (ValueError, KeyError):
        return {}
    budgets, guards = profile.budgets, profile.guards
    found = {
        Ending.TURN_LIMIT: budgets.max_turns,
        Ending.CONTEXT_EXHAUSTED: budgets.max_context_tokens,
        Ending.TIME_LIMIT: budgets.max_seconds,
        Ending.REPETITION: guards.max_repeated_calls,
        Ending.MALFORMED: guards.max_malformed,
    }
    return {ending: float(value) for ending, value in found.items() if value is not None}


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:22]


def storable(value: Any) -> Any:
    """JSON that UTF-8 can hold: half of a surrogate pair, which a model can write, becomes the replacement character."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {storable(name): storable(one) for name, one in value.items()}
    return [storable(one) for one in value] if isinstance(value, list) else value


# An attempt -----------------------------------------------------------------------------------------------------------------

_LIMIT_KINDS = {
    Ending.TURN_LIMIT: "turn",
    Ending.CONTEXT_EXHAUSTED: "context",
    Ending.TIME_LIMIT: "time",
    Ending.REPETITION: "custom",
    Ending.MALFORMED: "custom",
}
"""Endings that Inspect calls a limit, and its kind of each. Answered at a budget is answered: the ending says the rest."""
_OUTAGES = {
    Ending.TOOL_OUTAGE: "A tool's backend was not reached.",
    Ending.POLICY_OUTAGE: "The model's backend was not reached.",
    Ending.CANCELLED: "Somebody stopped the episode.",
}


def sample_of(
    trajectory: Trajectory,
    scores: Mapping[str, Json],
    limits: Mapping[Ending, float],
    *,
    uuid: str,
    guarded: Mapping[GuardKind, int] | None = None,
    texts: bool = True,
) -> Json:
    """One sample. ``limits``: how large the agent's budgets were; ``guarded``: what a guard wrote down of it, by kind."""
    ending, question, usage = trajectory.ending, trajectory.question, _usage(trajectory)
    messages = messages_of(trajectory) if texts else []
    detail = trajectory.detail if texts else ""
    found: Json = {
        "id": _sample_id(question.id),
        "epoch": trajectory.seeds.attempt + 1,
        "input": question.text if texts else LEFT_OUT,
        "target": list(question.answers) if texts else LEFT_OUT,
        "messages": messages,
        "output": _output(trajectory, messages, usage),
        "scores": dict(scores),
        "metadata": _metadata(trajectory, guarded or {}, detail),
        "model_usage": {} if usage is None else {_model_name(trajectory.model): usage},
        "total_time": trajectory.seconds,
        "turn_count": episode_of(trajectory).turns,
        "uuid": uuid,
    }
    if ending is not None and ending in _LIMIT_KINDS and ending in limits:
        found["limit"] = {"type": _LIMIT_KINDS[ending], "limit": limits[ending], "reason": detail or ending.value}
    if ending is not None and ending in _OUTAGES:
        found["error"] = {"message": detail or _OUTAGES[ending], "traceback": "", "traceback_ansi": ""}
    return storable(found)


def _summary(sample: Json) -> Json:
    """What the viewer lists of a sample."""
    same = ("id", "epoch", "input", "target", "metadata", "scores", "model_usage", "total_time", "turn_count", "uuid")
    found = {name: sample[name] for name in same} | {"completed": True, "message_count": len(sample["messages"])}
    found |= {"error": sample["error"]["message"]} if "error" in sample else {}
    return found | ({"limit": sample["limit"]["type"]} if "limit" in sample else {})


def _model_name(model: str) -> str:
    """A model as Inspect names it: provider and name."""
    return f"sanderling/{model or 'not-recorded'}"


def _sample_id(question: str) -> str:
    """A question's id as a log can hold it: it is a part of a zip member's name, which ends at a NUL."""
    return question.replace("\0", "\ufffd")


def _usage(trajectory: Trajectory) -> Json | None:
    """Tokens over all that the policy was asked, rejected attempts included; None where somebody did not count.

    Inspect tells prompt tokens that a cache spared from those that were computed.
    """
    episode = episode_of(trajectory)
    if episode.sampled_tokens is None or episode.prompt_tokens is None:
        return None
    computed = sum(node.prefilled_tokens for node in trajectory.nodes if node.kind is NodeKind.TURN)
    return {
        "input_tokens": computed,
        "input_tokens_cache_read": episode.prompt_tokens - computed,
        "output_tokens": episode.sampled_tokens,
        "total_tokens": episode.prompt_tokens + episode.sampled_tokens,
    }


def _output(trajectory: Trajectory, messages: Sequence[Json], usage: Json | None) -> Json:
    """The last thing the model said; no choice where it said nothing, or where it is not to be shown."""
    found: Json = {"model": trajectory.model, "choices": []} | ({"usage": usage} if usage else {})
    last = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
    if last is not None:
        full = trajectory.ending is Ending.CONTEXT_EXHAUSTED
        stop = "model_length" if full else "tool_calls" if "tool_calls" in last else "stop"
        found["choices"] = [{"message": last, "stop_reason": stop}]
    return found


def _metadata(trajectory: Trajectory, guarded: Mapping[GuardKind, int], detail: str) -> Json:
    question, episode = trajectory.question, episode_of(trajectory)
    found: Json = {name: values[0] if len(values) == 1 else list(values) for name, values in groups_of(question).items()}
    found |= {
        "ending": trajectory.ending and trajectory.ending.value,
        "detail": detail or None,
        "profile": trajectory.profile or None,
        "world": trajectory.world or None,
        "trajectory": trajectory.id,
        "attempt": trajectory.seeds.attempt,
        "seeds": trajectory.seeds.model_dump(),
        "rejected_turns": sum(node.rejected for node in trajectory.nodes) or None,
        "messages_beside_the_main_branch": len(trajectory.nodes) - len(set(trajectory.path())) or None,
        "guard": {kind.value: count for kind, count in guarded.items()} or None,
        "turns": episode.turns,
        "calls": episode.calls,
    }
    return {name: value for name, value in found.items() if value is not None}


# Verdicts -------------------------------------------------------------------------------------------------------------------

_REASONS = {Code.NO_ANSWER: "no_response", Code.UNREADABLE: "grader_failed", Code.REFUSED: "grader_failed"}
"""Inspect's own word for it, where it has one; elsewhere our code is the reason."""


def scores_of(
    trajectory: Trajectory, one: JudgedAttempt | None, first: str, second: str = "", *, texts: bool = True
) -> dict[str, Json]:
    """A score under each judge's name; a person's word stands for the first's. ``one`` None: nobody judged it.

    Without ``texts`` nothing that an agent or a judge wrote is in them.
    """

    def score(correct: bool | None, code: Code | None, reason: str = "", **facts: Any) -> Json:
        found: Json = {"value": nan if correct is None else "C" if correct else "I"}
        if texts and trajectory.answer is not None:
            found["answer"] = trajectory.answer
        if texts and reason:
            found["explanation"] = reason
        if correct is None or code is Code.NO_ANSWER:
            found["reason"] = "not_judged" if code is None else _REASONS.get(code, code.value)
        facts = {"code": code and code.value, **facts}
        return found | {"metadata": {name: value for name, value in facts.items() if value not in (None, "", [], {})}}

    if one is None:
        return {first: score(None, None)}
    facts: Json = {"score": one.score, "grade": one.grade, "confidence": one.confidence, "overruled": one.overruled}
    facts |= {"by": one.judge} if one.judge != first else {}
    facts |= {"extracted": one.extracted, "parts": one.parts, "excessive": list(one.excessive)} if texts else {}
    found = {first: score(one.correct, one.code, one.reason, **facts)}
    if second:
        ended = one.ending is None or one.ending.scored
        code = Code.JUDGED if one.second is not None else None if ended else Code.NOT_ENDED
        found[second] = score(one.second, code, one.second_reason)
    if one.published is not None:
        found[PUBLISHED] = score(one.published, Code.JUDGED)
    return found


# Messages -------------------------------------------------------------------------------------------------------------------

_TOOL_ERRORS = {
    ToolStatus.TIMEOUT: "timeout",
    ToolStatus.BAD_ARGUMENTS: "parsing",
    ToolStatus.UNKNOWN_TOOL: "parsing",
    ToolStatus.BLOCKED: "permission",
    ToolStatus.PAYWALLED: "permission",
    ToolStatus.NOT_FOUND: "file_not_found",
    ToolStatus.GONE: "file_not_found",
    ToolStatus.RATE_LIMITED: "limit",
}
"""Inspect's kinds of tool errors; any other failure is ``unknown`` to it."""


def messages_of(trajectory: Trajectory) -> list[Json]:
    """The main branch as chat messages; empty for an episode that never began.

    Reasoning and calls that the record read out of a turn become parts of the message and leave its text; what is not found
    there word for word stays in the text as it was sampled, so nothing is lost. An observation becomes one tool message for
    each call where it holds as many results as there were calls; else it stays whole, and nothing is made up for the others.
    """
    if trajectory.leaf is None:
        return []
    found: list[Json] = []
    asked: tuple[int, Node] | None = None
    for index in trajectory.path():
        node = trajectory.nodes[index]
        if node.kind is NodeKind.OBSERVATION:
            found += _results(index, node, asked)
        elif node.kind is NodeKind.TURN:
            found.append(_turn(index, node, trajectory.model))
            asked = (index, node)
        else:
            found.append({"role": node.role.value, "content": node.text, **_about(index, node)})
    return [{"id": f"{trajectory.id}#{message.pop('place')}", **message} for message in found]


def _turn(index: int, node: Node, model: str) -> Json:
    content: list[Json] = [{"type": "reasoning", "reasoning": node.think}] if node.think else []
    rest = rest_of(node)
    if rest or not content:
        content.append({"type": "text", "text": rest})
    message: Json = {"role": Role.ASSISTANT.value, "content": content, "source": "generate", **_about(index, node)}
    if node.calls:
        message["tool_calls"] = [
            {"id": f"{index}-{place}", "function": call.name, "arguments": call.arguments}
            for place, call in enumerate(node.calls)
        ]
    return message | ({"model": model} if model else {})


def rest_of(node: Node) -> str:
    """A turn's text without the reasoning and the calls that stand in the message's other parts."""
    text = node.text
    if node.think is not None:
        thought, tag, after = text.partition(THINK_END)
        if tag and thought.strip().removeprefix(THINK).strip() == node.think.strip():
            text = after
    for call in node.calls:
        if call.raw.strip():
            pattern = f"{re.escape(CALL)}\\s*{re.escape(call.raw.strip())}\\s*(?:{re.escape(CALL_END)}|\\Z)"
            text = re.sub(pattern, "", text, count=1)
    return text.strip()


def _results(index: int, node: Node, asked: tuple[int, Node] | None) -> list[Json]:
    """Tool messages for the calls of the turn before; an error is told in the words that the agent read."""
    turn, calls = (asked[0], asked[1].calls) if asked is not None else (0, ())
    blocks = split_blocks(node.text)
    if len(blocks) != max(1, len(calls)):
        blocks = [node.text]
    found: list[Json] = []
    for place, block in enumerate(blocks):
        status = node.events[place].status if len(node.events) == len(blocks) else ToolStatus.OK
        about = _about(index, node, status, place if len(blocks) > 1 else None)
        message: Json = {"role": "tool", "content": block, **about}
        if status not in (ToolStatus.OK, ToolStatus.EMPTY):  # the viewer shows an error's message in place of the content
            message["error"] = {"type": _TOOL_ERRORS.get(status, "unknown"), "message": block or status.value}
        if calls:
            message |= {"tool_call_id": f"{turn}-{place}", "function": calls[place].name}
        found.append(message)
    return found


def _about(index: int, node: Node, status: ToolStatus = ToolStatus.OK, place: int | None = None) -> Json:
    """Where it stands in the record, and what is unusual about it."""
    unusual: Json = {"kind": node.kind.value} if node.kind in (NodeKind.HINT, NodeKind.RAW) else {}
    unusual |= {"problems": list(node.problems)} if node.problems else {}
    unusual |= {"status": status.value} if status is not ToolStatus.OK else {}
    return {"place": f"{index}" if place is None else f"{index}-{place}"} | ({"metadata": unusual} if unusual else {})


# The head of the log --------------------------------------------------------------------------------------------------------

VERSION = 2
"""Of the log's format."""


def log_id(about: About, result: EvalResult) -> str:
    """What the log is called: the same for the same run, another for another."""
    return _short_hash(about.model_dump_json() + result.model_dump_json())


def header_of(run: RunState, result: EvalResult, usage: Json | None, *, texts: bool) -> Json:
    """The log without its samples and reductions."""
    about, ended, id = run.about, datetime.fromisoformat(result.date), log_id(run.about, result)
    began = ended - timedelta(seconds=result.seconds)
    outages = sum(count for ending, count in result.endings.items() if not ending.scored)
    published = (one.second for one in result.agreement if one.second == PUBLISHED)
    judges = dict.fromkeys(filter(None, (result.judge, result.second_judge, *published)))
    metadata = {
        "about": about.model_dump(mode="json"),
        "seed": result.seed,
        "world": result.world,
        "command": result.command,
        "endings": {ending.value: count for ending, count in result.endings.items()},
        "texts": texts,
        **({"by_hand": result.by_hand} if result.by_hand else {}),
        **({"invalid_because": result.invalid_because} if result.invalid_because else {}),
    }
    return storable({
        "version": VERSION,
        "status": "success",
        "eval": {
            "created": began.isoformat(),
            "task": f"sanderling/{about.benchmark or 'trajectories'}",
            "task_id": id,
            "run_id": id,
            "eval_id": id,
            "dataset": {
                "name": " ".join(filter(None, (about.benchmark, about.split))) or None,
                "location": about.file or None,
                "samples": len(result.questions),
                "sample_ids": [_sample_id(one.id) for one in result.questions],
            },
            "model": _model_name(result.model),
            "config": {"epochs": result.attempts, "epochs_reducer": ["mean"]},
            "packages": {"sanderling": result.version},
            "metadata": metadata,
            "scorers": [{"name": judge} for judge in judges],
        },
        "plan": {"name": "plan", "steps": []},
        "results": {
            "total_samples": result.made,
            "completed_samples": result.made - outages,
            "scores": [_first_judge(result)],
        },
        "stats": {
            "started_at": began.isoformat(),
            "completed_at": ended.isoformat(),
            "model_usage": {} if usage is None else {_model_name(result.model): usage},
        },
    })  # fmt: skip


def reductions_of(result: EvalResult) -> list[Json]:
    """Each question's share of right attempts, by the first judge; NaN where none was scored."""
    shares = result.per_question()
    samples = [{"value": shares.get(one.id, nan), "sample_id": _sample_id(one.id)} for one in result.questions]
    return storable([{"scorer": result.judge, "reducer": "mean", "samples": samples}])


def _first_judge(result: EvalResult) -> Json:
    """The first judge's figures; one that no question has enough attempts for is left out."""
    metrics: dict[str, Json] = {}

    def add(name: str, found: Estimate) -> None:
        if found.value is not None:
            about = {"questions": found.questions, "too_few": found.too_few}
            about |= {"interval_95": list(found.interval)} if found.interval is not None else {}
            metrics[name] = {"name": name, "value": found.value, "metadata": about}

    add("accuracy", result.pass_at_1)
    if result.clustered_error is not None:
        metrics["stderr"] = {"name": "stderr", "value": result.clustered_error, "metadata": {"clusters": "questions"}}
    for name, curve in (("pass_at", result.pass_at_k), ("pass_hat", result.pass_hat_k), ("majority", result.majority)):
        for k in sorted(set(result.majority) & set(curve) - {1}):
            add(f"{name}_{k}", curve[k])
    return {
        "name": result.judge,
        "scorer": result.judge,
        "reducer": "mean",
        "scored_samples": result.pass_at_1.questions,  # as Inspect counts after its reducer: questions
        "unscored_samples": result.pass_at_1.too_few,
        "metrics": metrics,
        "metadata": {"attempts": result.made, "unscored_attempts": result.unscored},
    }
