"""GAIA, whole and its 103 questions that need no file. Where a file is attached, its row is left out unless asked for.

The publisher's rule takes the accepted answer for a list wherever it holds a comma, so that an accepted "1,000" would be two
numbers; such answers stand in the file without the comma.
"""

from sanderling.data.fields import Fields
from sanderling.evaluate.benchmarks.benchmark import Benchmark
from sanderling.evaluate.benchmarks.contract import Options, Row, Split
from sanderling.evaluate.benchmarks.unread import RowError, UnreadWhy

_HIDDEN = "?"
"""The test split has this in place of accepted answers."""
_TERMS = "gated terms; sharing it again is forbidden; the SPDX name is not known"


def _whole(found: Fields, options: Options) -> Row:
    file = found.text("file", "file_name")
    row = _row(found, {"file_name": file} if file else {})
    if file and not options.with_attachments:
        raise RowError(UnreadWhy.NEEDS_FILE, file)
    return row


def _text_only(found: Fields, options: Options) -> Row:
    return _row(found, {})


def _row(found: Fields, extra: dict[str, str]) -> Row:
    found.need("question", "Question")
    found.need("answer", "Final answer", "answer")
    answers = found.texts("answer", "Final answer", "answer")
    return Row(
        native_id=found.text("id", "task_id"),
        text=found.text("question", "Question"),
        answers=() if answers == (_HIDDEN,) else answers,
        level=found.text("level", "Level"),
        topics=found.texts("topic"),
        extra=extra,
    )


GAIA = Benchmark(
    key="gaia",
    title="GAIA",
    about="Questions of three levels that take reading, reasoning, tools and sometimes an attached file. Accepted answers of "
    "the test split are not published: it runs, and is not scored.",
    obtain="Hugging Face dataset gaia-benchmark/GAIA: 2023/validation/metadata.parquet (formerly metadata.jsonl)",
    licence=_TERMS,
    source="the dataset's card; scorer.py of the Space gaia-benchmark/leaderboard (Apache-2.0)",
    row=_whole,
    splits=(
        Split(
            "validation",
            165,
            "levels 53, 86, 26",
            ("2023/validation/metadata.parquet", "2023/validation/metadata.jsonl", "validation/metadata.*", "metadata.*"),
        ),
        Split(
            "test",
            300,
            "accepted answers hidden",
            ("2023/test/metadata.parquet", "2023/test/metadata.jsonl", "test/metadata.*"),
        ),
    ),
    rules=("gaia", "exact", "numeric"),
    published_judge="none: a rule for numbers, lists and texts",
    gated=True,
    not_known=("the licence's SPDX name", "how many of the 300 test questions come with a file"),
)

GAIA_TEXT_103 = Benchmark(
    key="gaia-text-103",
    title="GAIA, text only (103)",
    about="The 103 validation questions without a file that most deep research agents report.",
    obtain="GitHub RUC-NLPIR/WebThinker: data/GAIA/dev.json; also the layout of AgentToLeaP",
    licence=_TERMS + "; the repository's MIT says nothing of the data",
    source="the file in RUC-NLPIR/WebThinker, counted",
    row=_text_only,
    splits=(Split("dev", 103, "levels 39, 52, 12"),),
    rules=("gaia", "exact", "numeric"),
    published_judge="none for this selection; GAIA's own is a rule. Others ask a model: which, differs from paper to paper",
    gated=True,
)
