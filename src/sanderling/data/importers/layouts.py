"""The layouts that are imported, by name, and what each must say of itself. Knows nothing of files and nodes.

A layout is recognised by its structure alone, entry by entry: a file may mix them, and nobody is asked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sanderling.core.record import Question, Trajectory
from sanderling.data.importers.report import Notes


class Layout(StrEnum):
    """How recorded trajectories and questions are laid out."""

    SANDERLING = "sanderling"
    """Our own record of a trajectory."""
    SANDERLING_QUESTION = "sanderling-question"
    """Our own question: ``{"id", "text", "answers", ...}``."""
    LITERESEARCHER_CASES = "literesearcher-cases"
    """``{"question", "reference_answer", "steps"}`` (or ``turns``), most often in ``{"benchmark", "cases": [...]}``."""
    AGENTTOLEAP = "agenttoleap"
    """``{"task_id", "conversation_history"}`` of a result, or ``{"task_id", "dialog"}`` of a file of right ones."""
    OPENAI_LOG = "openai-log"
    """``{"request": {"messages"}, "response": {"choices"}}``: the last request of an episode and what came back."""
    WEBDANCER_CHATML = "webdancer-chatml"
    """``{"type": "chatml", "messages", "answer", ...}``: tools and question share the first user message."""
    DR_VENUS_RL = "dr-venus-rl"
    """``{"request_id", "sample_idx", "messages", "finished"}``: one rollout."""
    REDSEARCHER_SFT = "redsearcher-sft"
    """``{"meta": {"question", "answer"}, "messages"}``, often with ``system_prompt``."""
    TONGYI_RUN = "tongyi-run"
    """``{"question", "answer", "messages", "prediction", "termination"}``: what an inference script writes."""
    DR_VENUS_SFT = "dr-venus-sft"
    """``{"question", "messages", "gt"}``; also the inference script's record, which adds ``termination``."""
    SHAREGPT = "sharegpt"
    """``{"conversations": [{"from", "value"}]}``, with ``system`` and ``tools`` beside it."""
    OPENAI_MESSAGES = "openai-messages"
    """``{"messages": [{"role", "content", "tool_calls", ...}]}`` and whatever else; or the bare list of messages."""
    OPENAI_RESPONSES = "openai-responses"
    """``{"response": {"output": [items]}}`` of the Responses API, with the items that were sent beside it."""
    TRANSCRIPT = "transcript"
    """A question or prompt, and the whole episode in one text between tags."""
    LITERESEARCHER_RL = "literesearcher-rl"
    """A verl row that names addresses to mask: ``extra_info.mask_url``."""
    VERL = "verl"
    """``{"prompt", "reward_model": {"ground_truth"}, "extra_info"}``: a question for RL."""
    QUESTIONS = "questions"
    """``{"question", "answer", ...}`` or ``{"problem", "answer", "difficulty"}`` without messages."""


@dataclass(frozen=True)
class LayoutReader:
    """How entries of one layout are recognised and read."""

    layout: Layout
    recognises: Callable[[dict[str, Any]], bool]
    read: Callable[[dict[str, Any], str, Notes], Trajectory | Question | None]
    """From an entry, the id it gets and where oddities go. None: it could not be read after all, and the notes say why."""
