"""Humanity's Last Exam: questions with an image are left out unless asked for. Its canary is a mark, and hides nothing."""

from sanderling.data.fields import Fields
from sanderling.evaluate.benchmarks.benchmark import Benchmark
from sanderling.evaluate.benchmarks.contract import Options, Row, Split
from sanderling.evaluate.benchmarks.unread import RowError, UnreadWhy

_HUB = "Hugging Face cais/hle"


def _row(found: Fields, options: Options) -> Row:
    found.need("question", "question")
    found.need("answer", "answer")
    image = found.get("image")
    if image and not options.with_attachments:
        raise RowError(UnreadWhy.NEEDS_IMAGE)
    kind = found.text("answer type", "answer_type")
    return Row(
        native_id=found.text("id", "id"),
        text=found.text("question", "question"),
        answers=found.texts("answer", "answer"),
        level=found.text("level"),
        topics=found.texts("topic", "category", "raw_subject"),
        canary=found.text("canary", "canary"),
        extra={"answer_type": kind} if kind else {},
    )


HLE = Benchmark(
    key="hle",
    title="Humanity's Last Exam (text)",
    about="Expert questions of many fields. 2,158 of the 2,500 have no image; without --with-attachments only those are read.",
    obtain=f"{_HUB} (gated); text only: Hugging Face rl-rag/hle_text_only; "
    "500 of them: GitHub RUC-NLPIR/WebThinker data/HLE/test.json",
    licence="MIT (not verified); access is gated",
    source=f"the card of {_HUB}, others' loaders; RUC-NLPIR/WebThinker's file",
    row=_row,
    splits=(
        Split("test", 2500, "2,158 without an image"),
        Split("text-only", 2158, "copies that left the images' questions out"),
        Split("webthinker-500", 500, "the subset of WebThinker's file; how it was chosen is not known"),
    ),
    form="hle",
    published_judge="o3-mini-2025-01-31, structured output",
    gated=True,
    not_known=("the licence, of the data and of the copies", "how the subset of 500 was chosen"),
    skip=frozenset({"image_preview", "rationale_image", "rationale"}),
)
