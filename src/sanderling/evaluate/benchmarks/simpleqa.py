"""SimpleQA: short facts. Its ``metadata`` is a dict in Python's notation; where that cannot be read, only the topic is lost."""

from typing import Any

from sanderling.data.fields import Fields, plain_text, text_list, written
from sanderling.evaluate.benchmarks.benchmark import Benchmark
from sanderling.evaluate.benchmarks.contract import Options, Row, Split


def _row(found: Fields, options: Options) -> Row:
    found.need("question", "problem")
    found.need("answer", "answer")
    about = _metadata(found.get("metadata"))
    kind, urls = plain_text(about.get("answer_type")), text_list(about.get("urls"))
    return Row(
        native_id=found.text("id", "id"),
        text=found.text("question", "problem"),
        answers=found.texts("answer", "answer"),
        level=found.text("level"),
        topics=found.texts("topic") or text_list(about.get("topic")),
        extra={**({"answer_type": kind} if kind else {}), **({"links": list(urls)} if urls else {})},
    )


def _metadata(value: Any) -> dict[str, Any]:
    try:
        found = written(value)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


SIMPLEQA = Benchmark(
    key="simpleqa",
    title="SimpleQA",
    about="Short questions of fact with one answer that does not change. "
    "(SimpleQA-Verified is another set: read it with jsonl.)",
    obtain="openaipublic.blob.core.windows.net/simple-evals/simple_qa_test_set.csv",
    licence="not known (code: MIT)",
    source="openai/simple-evals@ee3b031: simpleqa_eval.py",
    row=_row,
    splits=(Split("test", 4326),),
    form="simpleqa",
    published_judge="gpt-4.1-2025-04-14 in the repository's command; three grades",
    verbatim=False,
    not_known=("the data's licence",),
)
