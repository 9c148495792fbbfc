"""SealQA's Seal-0 (and Seal-Hard): search results that contradict each other; some answers change with time."""

from sanderling.data.fields import Fields
from sanderling.evaluate.benchmarks.benchmark import Benchmark
from sanderling.evaluate.benchmarks.contract import Options, Row, Split

_EXTRA = ("freshness", "effective_year")


def _row(found: Fields, options: Options) -> Row:
    found.need("question", "question")
    found.need("answer", "answer")
    kinds = found.texts("question types", "question_types")
    extra = {name: text for name in _EXTRA if (text := found.text(name, name))}
    return Row(
        native_id=found.text("id", "id"),
        text=found.text("question", "question"),
        answers=found.texts("answer", "answer"),
        level=found.text("level"),
        topics=found.texts("topic", "topic"),
        canary=found.text("canary", "canary"),
        extra={**extra, **({"question_types": list(kinds)} if kinds else {})},
    )


SEAL_0 = Benchmark(
    key="seal-0",
    title="Seal-0",
    about="Questions that models with search got wrong throughout when they were made. The set changes: compare runs only "
    "where the file's SHA-256 is the same.",
    obtain="Hugging Face vtllms/sealqa: seal-0.parquet",
    licence="not known",
    source="the dataset's card and others' loaders; the file itself was not opened",
    row=_row,
    splits=(
        Split("seal-0", 111, files=("seal-0.parquet", "*seal-0*")),
        Split("seal-hard", 254, files=("seal-hard.parquet", "*seal-hard*")),
    ),
    form="simpleqa",
    published_judge="a GPT model that grades as SimpleQA's does; which one: not known",
    not_known=("the licence", "the judge's model", "whether the file has a canary column"),
    skip=frozenset({"search_results"}),
)
