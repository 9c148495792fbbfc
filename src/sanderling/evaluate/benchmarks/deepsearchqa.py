"""DeepSearchQA: single answers and sets; a set stands as one text, and its judge takes it apart."""

from sanderling.data.fields import Fields
from sanderling.evaluate.benchmarks.benchmark import Benchmark
from sanderling.evaluate.benchmarks.contract import Options, Row, Split


def _row(found: Fields, options: Options) -> Row:
    found.need("question", "problem")
    found.need("answer", "answer")
    kind = found.text("answer type", "answer_type")
    return Row(
        native_id=found.text("id", "id", "", "Unnamed: 0"),
        text=found.text("question", "problem"),
        answers=found.texts("answer", "answer"),
        level=found.text("level"),
        topics=found.texts("topic", "problem_category"),
        extra={"answer_type": kind} if kind else {},
    )


DEEPSEARCHQA = Benchmark(
    key="deepsearchqa",
    title="DeepSearchQA",
    about="Questions that ask for one answer or for all members of a set; precision, recall and F1 of the set are reported.",
    obtain="Hugging Face google/deepsearchqa: DSQA-full.csv; also on Kaggle",
    licence="Apache-2.0",
    source="the dataset's card and its starter code; the file itself was not opened",
    row=_row,
    splits=(Split("eval", 900, "a third party counts 896", ("DSQA-full.csv",)),),
    form="sets",
    published_judge="gemini-2.5-flash in the starter code",
    not_known=("why a third party counts 896",),
)
