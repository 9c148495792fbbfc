"""What an entry says beside its messages: the question, accepted answers, addresses to mask. Knows no layout and no nodes.

Fields are looked up by the names that published files use; what stands deeper (``meta``, ``extra_info``) is looked up there.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

QUESTION_KEYS = ("question", "problem", "Question", "query", "prompt", "instruction", "task_question", "input")
SURE_QUESTION_KEYS = ("question", "problem", "Question")
"""Names that mean a question even where no answer stands beside them."""
ANSWER_KEYS = (
    "answer",
    "answers",
    "gt",
    "ground_truth",
    "reference_answer",
    "correct_answer",
    "expected_answer",
    "golden_answer",
    "golden_answers",
    "gold_answer",
    "Final answer",
    "Correct Answer",
    "target",
    "aug_answers",
    "another_answer",
    "answer_aliases",
)
_SPLIT = "<|answer_split|>"
_MASK_KEYS = ("mask_url", "mask_urls", "masked_url", "masked_urls")


def texts(value: Any) -> tuple[str, ...]:
    """Accepted answers out of a text, a number, or any nesting of lists; blanks and repetitions are left out."""
    found: dict[str, None] = {}
    pending = [value]  # a stack of its own: nesting may be deeper than Python's
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(reversed(item))
        elif item is not None and not isinstance(item, dict):
            found.update((part.strip(), None) for part in str(item).split(_SPLIT) if part.strip())
    return tuple(found)


def opened(value: Any) -> Any:
    """A value that some files hold as JSON text, as the value it spells; anything else as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def record_of(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A field that should be an object (or JSON text of one), or an empty one."""
    value = opened(entry.get(key))
    return value if isinstance(value, dict) else {}


def asked(entry: Mapping[str, Any], keys: Iterable[str] = QUESTION_KEYS) -> str | None:
    """The question under the first of the known names that holds text."""
    return next((entry[key].strip() for key in keys if isinstance(entry.get(key), str) and entry[key].strip()), None)


def accepted(entry: Mapping[str, Any], keys: Iterable[str] = ANSWER_KEYS) -> tuple[str, ...]:
    """All accepted answers, in the order of the known names."""
    found: dict[str, None] = {}
    for key in keys:
        if entry.get(key) is not None:
            found.update(dict.fromkeys(ground_truth(entry[key])))
    return tuple(found)


def ground_truth(value: Any) -> tuple[str, ...]:
    """Accepted answers out of what RL files call ground truth: texts, lists, ``{"target": [...]}``, or JSON text of these.

    Text that spells a list of anything but texts stays as it is: ``[1, 5]`` may well be the answer.
    """
    inner = opened(value)
    if isinstance(inner, dict):
        named = [inner[key] for key in ("target", *ANSWER_KEYS) if key in inner]
        return texts(named or list(inner.values()))
    if isinstance(value, str) and not (isinstance(inner, list) and inner and all(isinstance(item, str) for item in inner)):
        inner = value
    return texts(inner)


def masked_urls(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Addresses that the agent must not see: ``mask_url``, and what the tools are made with (``create_kwargs.url``)."""
    found: dict[str, None] = {}
    for place in (entry, record_of(entry, "extra_info"), record_of(entry, "metadata")):
        for key in _MASK_KEYS:
            found.update(dict.fromkeys(texts(opened(place.get(key)))))
        for tool in record_of(place, "tools_kwargs").values():
            made = record_of(tool, "create_kwargs") if isinstance(tool, dict) else {}
            found.update(dict.fromkeys(texts(made.get("url"))))
    return tuple(found)


def rest(entry: Mapping[str, Any], held: Iterable[str]) -> dict[str, Any]:
    """The fields that the record has no place for."""
    return {key: value for key, value in entry.items() if key not in held}
