"""An attempt as a sample of Inspect's log. Pure: a trajectory and what was said of it in, a plain dict out.

A question's attempts are the epochs of one sample, counted from 1. Of the record's branches the main one is shown; how much
stands beside it is counted. Token counts that nobody made are left out, never zero.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sanderling.core.record import NodeKind, Trajectory
from sanderling.core.types import Ending
from sanderling.evaluate.episodes import episode_of
from sanderling.evaluate.inspect_log.messages import messages_of
from sanderling.evaluate.inspect_log.scores import Said, score_of
from sanderling.evaluate.summary import groups_of
from sanderling.world.guard import GuardKind

Json = dict[str, Any]
LEFT_OUT = "(texts are left out)"
_LIMITS = {
    Ending.TURN_LIMIT: "turn",
    Ending.CONTEXT_EXHAUSTED: "context",
    Ending.TIME_LIMIT: "time",
    Ending.REPETITION: "custom",
    Ending.MALFORMED: "custom",
}
"""Endings that Inspect calls a limit, and its kind of each. Answered at a budget is answered: the ending says the rest."""
_ERRORS = {
    Ending.TOOL_OUTAGE: "A tool's backend was not reached.",
    Ending.POLICY_OUTAGE: "The model's backend was not reached.",
    Ending.CANCELLED: "Somebody stopped the episode.",
}


def sample_of(
    trajectory: Trajectory,
    said: Sequence[Said],
    limits: Mapping[Ending, float],
    *,
    uuid: str,
    guarded: Mapping[GuardKind, int] | None = None,
    texts: bool = True,
) -> Json:
    """One sample. ``limits``: how large the agent's budgets were; ``guarded``: what a guard wrote down of it, by kind."""
    ending, episode, usage = trajectory.ending, episode_of(trajectory), usage_of(trajectory)
    messages = messages_of(trajectory) if texts else []
    question = trajectory.question
    found: Json = {
        "id": sample_id(question.id),
        "epoch": trajectory.seeds.attempt + 1,
        "input": question.text if texts else LEFT_OUT,
        "target": list(question.answers) if texts else LEFT_OUT,
        "messages": messages,
        "output": _output(trajectory, messages, usage),
        "scores": {one.judge: score_of(one, trajectory.answer, texts=texts) for one in said},
        "metadata": _metadata(trajectory, guarded or {}, texts=texts) | {"turns": episode.turns, "calls": episode.calls},
        "model_usage": {} if usage is None else {model_name(trajectory.model): usage},
        "total_time": trajectory.seconds,
        "turn_count": episode.turns,
        "uuid": uuid,
    }
    if ending is not None and ending in _LIMITS and ending in limits:
        reason = trajectory.detail if texts and trajectory.detail else ending.value
        found["limit"] = {"type": _LIMITS[ending], "limit": limits[ending], "reason": reason}
    if ending is not None and ending in _ERRORS:
        message = trajectory.detail if texts and trajectory.detail else _ERRORS[ending]
        found["error"] = {"message": message, "traceback": "", "traceback_ansi": ""}
    return storable(found)


def model_name(model: str) -> str:
    """A model as Inspect names it: provider and name."""
    return f"sanderling/{model or 'not-recorded'}"


def sample_id(question: str) -> str:
    """A question's id as a log can hold it: it is a part of a zip member's name, which ends at a NUL."""
    return question.replace("\0", "\ufffd")


def usage_of(trajectory: Trajectory) -> Json | None:
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


def storable(value: Any) -> Any:
    """JSON that UTF-8 can hold: half of a surrogate pair, which a model can write, becomes the replacement character."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {storable(name): storable(one) for name, one in value.items()}
    return [storable(one) for one in value] if isinstance(value, list) else value


def _output(trajectory: Trajectory, messages: Sequence[Json], usage: Json | None) -> Json:
    """The last thing the model said; no choice where it said nothing, or where it is not to be shown."""
    found: Json = {"model": trajectory.model, "choices": []} | ({"usage": usage} if usage else {})
    last = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
    if last is not None:
        full = trajectory.ending is Ending.CONTEXT_EXHAUSTED
        stop = "model_length" if full else "tool_calls" if "tool_calls" in last else "stop"
        found["choices"] = [{"message": last, "stop_reason": stop}]
    return found


def _metadata(trajectory: Trajectory, guarded: Mapping[GuardKind, int], *, texts: bool) -> Json:
    question, main = trajectory.question, set(trajectory.path())
    found: Json = {name: values[0] if len(values) == 1 else list(values) for name, values in groups_of(question).items()}
    found |= {} if trajectory.ending is None else {"ending": trajectory.ending.value}
    found |= {"detail": trajectory.detail} if texts and trajectory.detail else {}
    found |= {name: value for name in ("profile", "world") if (value := getattr(trajectory, name))}
    found |= {"trajectory": trajectory.id, "attempt": trajectory.seeds.attempt, "seeds": trajectory.seeds.model_dump()}
    rejected = sum(node.rejected for node in trajectory.nodes)
    beside = len(trajectory.nodes) - len(main)
    found |= {"rejected_turns": rejected} if rejected else {}
    found |= {"messages_beside_the_main_branch": beside} if beside else {}
    return found | ({"guard": {kind.value: count for kind, count in guarded.items()}} if guarded else {})
