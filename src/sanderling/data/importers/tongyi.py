"""What the inference scripts of Tongyi's agents write: the reference in ``answer``, the agent's own in ``prediction``."""

from typing import Any

from sanderling.core.record import Trajectory
from sanderling.data.importers.conversation import Told, conversation, messages_in
from sanderling.data.importers.fields import asked, texts
from sanderling.data.importers.layouts import Layout, LayoutReader
from sanderling.data.importers.report import Notes

_HELD = frozenset({"question", "answer", "messages"})


def _is_run(entry: dict[str, Any]) -> bool:
    return messages_in(entry) is not None and asked(entry, ("question",)) is not None and {"answer", "prediction"} <= set(entry)


def _read(entry: dict[str, Any], id: str, notes: Notes) -> Trajectory:
    told = Told(asked(entry, ("question",)), texts(entry.get("answer")))
    found = conversation(entry, messages_in(entry) or [], id, notes, told=told, held=_HELD)
    prediction = entry["prediction"]
    if isinstance(prediction, str) and found.answer is not None and prediction.strip() != found.answer:
        notes.add("final_answer_differs", id, prediction)
    return found


TONGYI = LayoutReader(Layout.TONGYI_RUN, _is_run, _read)
