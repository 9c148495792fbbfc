"""Questions for RL, as verl reads them: a prompt, the ground truth in ``reward_model``, the rest in ``extra_info``.

LiteResearcher's rows name the page a question was made from (``extra_info.mask_url``, and again in ``tools_kwargs``): it
becomes the question's masked address. Slime's rows hold ``prompt`` and ``label`` instead. The prompt itself stays in ``meta``.
"""

from typing import Any

from sanderling.core.record import Question, question_id
from sanderling.data.importers.conversation import messages_in
from sanderling.data.importers.fields import (
    accepted,
    asked,
    ground_truth,
    masked_urls,
    record_of,
    rest,
)
from sanderling.data.importers.layouts import Layout, LayoutReader
from sanderling.data.importers.report import Notes

_MARK = "Question:"


def _is_row(entry: dict[str, Any]) -> bool:
    if messages_in(entry) is not None or ("prompt" not in entry and "question" not in entry):
        return False
    return "ground_truth" in record_of(entry, "reward_model") or ("label" in entry and _prompted(entry) is not None)


def _is_masked(entry: dict[str, Any]) -> bool:
    return _is_row(entry) and ("mask_url" in record_of(entry, "extra_info") or bool(masked_urls(entry)))


def _prompted(entry: dict[str, Any]) -> str | None:
    """The last user message of the prompt, without the label that LiteResearcher puts before the question."""
    prompt = messages_in(entry, "prompt")
    if prompt is None:
        return asked(entry, ("prompt",))
    users = [item.get("content") for item in prompt if isinstance(item, dict) and item.get("role") == "user"]
    text = next((content for content in reversed(users) if isinstance(content, str) and content.strip()), None)
    return None if text is None else text.strip().removeprefix(_MARK).strip()


def _read(entry: dict[str, Any], id: str, notes: Notes) -> Question | None:
    text = asked(entry, ("question",)) or asked(record_of(entry, "extra_info"), ("question",)) or _prompted(entry)
    if not text:
        notes.add("no_question", id, entry)
        return None
    model = record_of(entry, "reward_model")
    answers = ground_truth(model.get("ground_truth")) or ground_truth(entry.get("label")) or accepted(entry)
    if not answers:
        notes.add("no_answer", id, text)
    return Question(
        id=question_id(text), text=text, answers=answers, masked_urls=masked_urls(entry), meta=rest(entry, ("question",))
    )


LITERESEARCHER_RL = LayoutReader(Layout.LITERESEARCHER_RL, _is_masked, _read)
VERL = LayoutReader(Layout.VERL, _is_row, _read)
