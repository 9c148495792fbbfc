"""FRAMES: a table of tabs whose first column, the row's number, has no name."""

from sanderling.data.fields import Fields, written_list
from sanderling.evaluate.benchmarks.benchmark import Benchmark
from sanderling.evaluate.benchmarks.contract import Options, Row, Split


def _row(found: Fields, options: Options) -> Row:
    found.need("question", "Prompt")
    found.need("answer", "Answer")
    links = written_list(found.get("wiki_links"))
    kinds = [kind for text in found.texts("topic", "reasoning_types") for kind in map(str.strip, text.split("|")) if kind]
    return Row(
        native_id=found.text("id", "", "Unnamed: 0", "id"),
        text=found.text("question", "Prompt"),
        answers=found.texts("answer", "Answer"),
        level=found.text("level"),
        topics=tuple(kinds),
        extra={"links": list(links)} if links else {},
    )


FRAMES = Benchmark(
    key="frames",
    title="FRAMES",
    about="Questions over 2 to 15 pages of Wikipedia; the topics are kinds of reasoning, and a question may have several.",
    obtain="Hugging Face google/frames-benchmark: test.tsv",
    licence="Apache-2.0",
    source="the dataset's card and others' loaders; the file itself was not opened",
    row=_row,
    splits=(Split("test", 824, files=("test.tsv",)),),
    form="word",
    published_judge="a model (TRUE or FALSE, not verified); its prompt is not in the data's files, which model: not known",
    not_known=("the publisher's prompt and judge",),
)
