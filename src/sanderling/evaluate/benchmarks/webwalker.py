"""WebWalkerQA: the names of its columns differ in case between README, code and copies; details stand in ``info`` or flat."""

from sanderling.data.fields import Fields
from sanderling.evaluate.benchmarks.benchmark import Benchmark
from sanderling.evaluate.benchmarks.contract import Options, Row, Split

_EXTRA = {
    "root_url": ("root_url",),
    "type": ("info.type", "info.hop", "type"),
    "language": ("info.lang", "info.language", "lang"),
}


def _row(found: Fields, options: Options) -> Row:
    found.need("question", "question")
    found.need("answer", "answer")
    extra = {name: text for name, places in _EXTRA.items() if (text := found.text(name, *places))}
    return Row(
        native_id=found.text("id", "id"),
        text=found.text("question", "question"),
        answers=found.texts("answer", "answer"),
        level=found.text("level", "info.difficulty_level", "difficulty_level"),
        topics=found.texts("topic", "info.domain", "domain"),
        extra=extra,
    )


WEBWALKERQA = Benchmark(
    key="webwalkerqa",
    title="WebWalkerQA",
    about="Questions whose answers lie some clicks below a site's first page; the address of that page is kept in meta, and is "
    "no part of the question.",
    obtain="Hugging Face callanwu/WebWalkerQA: data/main-00000-of-00001.jsonl (its silver split is training data)",
    licence="Apache-2.0",
    source="the dataset's card, its code; RUC-NLPIR/WebThinker's copy",
    row=_row,
    splits=(Split("main", 680, "easy 160, medium 280, hard 240", ("data/main-*",)),),
    form="word",
    published_judge="a model through langchain's cot_qa (GRADE: CORRECT or INCORRECT); which one: not known",
    not_known=("the judge's model", "which spelling of the columns the present file has; any is read"),
)
