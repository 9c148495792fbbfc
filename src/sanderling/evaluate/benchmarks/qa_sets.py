"""Seven sets that are scored by rule: NQ, TriviaQA, PopQA, HotpotQA, 2Wiki, MuSiQue, Bamboogle, in the layouts in use.

FlashRAG's ``golden_answers``; Search-R1's training rows, where the question stands at the end of a template; the lists of ARPO,
R1-Searcher and SimpleDeepSearcher; and the originals. A file that says by ``data_source`` that it holds several sets gives the
rows of the one that is asked for. The Wikipedia page with a question's words is its source here, and no leak.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sanderling.data.fields import Fields, MissingColumnError, answer_list, opened, text_list, written_list
from sanderling.evaluate.benchmarks.benchmark import Benchmark
from sanderling.evaluate.benchmarks.contract import Options, Row, Split
from sanderling.evaluate.benchmarks.unread import RowError, UnreadWhy

_IDS = ("id", "_id", "question_id", "QuestionId", "qid", "extra_info.index", "idx")
_LEVELS = ("level", "metadata.level")
_TOPICS = ("prop", "metadata.prop", "type", "metadata.type")
_MARK = "question:"
"""Case folded; what follows its last place in a template is the question."""
_HOPS = re.compile(r"(\d)hop\d?__")
"""MuSiQue's ids say how many steps a question takes."""


@dataclass(frozen=True)
class _Set:
    """What differs between the seven."""

    key: str
    title: str
    about: str
    original: str
    sources: tuple[str, ...]
    """How files that hold several sets call it."""
    splits: tuple[Split, ...]


def _benchmark(one: _Set) -> Benchmark:
    return Benchmark(
        key=one.key,
        title=one.title,
        about=one.about,
        obtain=f"Hugging Face RUC-NLPIR/FlashRAG_datasets, one JSON-lines file for each split; the original: {one.original}",
        licence="not known; the original's was not verified (FlashRAG's repository is MIT)",
        source="README of RUC-NLPIR/FlashRAG; scripts of PeterGriffinJin/Search-R1; original layouts from general knowledge",
        row=lambda found, options: _row(one, found, options),
        splits=one.splits,
        rules=("squad_em", "squad_f1", "contains"),
        published_judge="none: exact match and F1 over normalised words, the best of the accepted answers",
        verbatim=False,
        not_known=("the original's licence", "how the lists of 200 or 500 questions in other repositories were drawn"),
        skip=frozenset({"context", "paragraphs", "supporting_facts", "search_results", "entity_pages", "gen_text_store"}),
    )


def _row(one: _Set, found: Fields, options: Options) -> Row:
    source = found.text("source", "data_source")
    if source and source.casefold() not in one.sources:
        raise RowError(UnreadWhy.OTHER_SET, source)
    native = found.text("id", *_IDS)
    if str(found.get("answerable")).casefold() == "false":
        raise RowError(UnreadWhy.UNANSWERABLE)
    hops = _HOPS.match(native)
    return Row(
        native_id=native,
        text=_question(found),
        answers=_answers(found),
        level=found.text("level", *_LEVELS) or (f"{hops[1]} hops" if hops else ""),
        topics=found.texts("topic", *_TOPICS),
        hops=int(hops[1]) if hops else None,
    )


def _question(found: Fields) -> str:
    text = found.text("question", "question", "extra_info.question")
    if text or not found.has("prompt"):
        found.need("question", "question", "extra_info.question")
        return text
    prompt = found.get("prompt")
    if isinstance(prompt, list | tuple) and prompt and isinstance(prompt[-1], Mapping):
        prompt = prompt[-1].get("content")
    at = str(prompt or "").casefold().rfind(_MARK)
    if at < 0:
        raise RowError(UnreadWhy.NO_QUESTION, "its prompt has no part 'Question:'")
    return str(prompt)[at + len(_MARK) :].strip()


def _answers(found: Fields) -> tuple[str, ...]:
    for name in ("golden_answers", "possible_answers", "reward_model.ground_truth.target", "extra_info.golden_answers"):
        if found.role("answer", name) is not None:
            return written_list(found.role("answer", name))
    try:
        answer: Any = opened(found.need("answer", "answer", "answers"), "{")
    except MissingColumnError as error:
        raise MissingColumnError("answer", ["golden_answers", *error.names]) from error
    if isinstance(answer, Mapping):  # TriviaQA's, in capitals or not
        inner = Fields(found.line, answer)
        return text_list([*inner.texts("value", "Value"), *inner.texts("aliases", "Aliases")])
    return text_list([*answer_list(answer), *answer_list(found.get("answer_aliases"))])


_TABLE = (
    _Set("nq", "Natural Questions (open)", "Questions that people typed into a search engine, answers in Wikipedia.",
         "google-research-datasets/natural-questions (nq_open)", ("nq", "nq_open"),
         (Split("test", 3610, files=("nq/test.jsonl", "test.jsonl")),)),
    _Set("triviaqa", "TriviaQA", "Questions of trivia writers, with many aliases of each answer.",
         "nlp.cs.washington.edu/triviaqa", ("triviaqa", "trivia_qa"),
         (Split("test", 11313, files=("triviaqa/test.jsonl", "test.jsonl")),
          Split("dev", 8837, files=("triviaqa/dev.jsonl", "dev.jsonl")))),
    _Set("popqa", "PopQA", "Questions from templates about entities from well to hardly known; the topic is the relation.",
         "AlexTMallen/adaptive-retrieval (popQA.tsv)", ("popqa",),
         (Split("test", 14267, files=("popqa/test.jsonl", "test.jsonl")),)),
    _Set("hotpotqa", "HotpotQA", "Questions over two pages of Wikipedia, of bridge and comparison type.",
         "hotpotqa.github.io", ("hotpotqa",),
         (Split("dev", 7405, files=("hotpotqa/dev.jsonl", "dev.jsonl", "hotpot_dev*")),)),
    _Set("2wiki", "2WikiMultihopQA", "Questions over two or more pages of Wikipedia, made with templates and Wikidata.",
         "Alab-NII/2wikimultihop", ("2wiki", "2wikimultihopqa", "2wikimultihop"),
         (Split("dev", 12576, files=("2wikimultihopqa/dev.jsonl", "dev.jsonl", "dev.json")),)),
    _Set("musique", "MuSiQue", "Questions of two to four steps, put together from single ones; only those marked answerable.",
         "StonyBrookNLP/musique", ("musique",),
         (Split("dev", 2417, files=("musique/dev.jsonl", "dev.jsonl", "musique_ans*dev*")),)),
    _Set("bamboogle", "Bamboogle", "125 questions of two steps that a search engine did not answer directly.",
         "ofirpress/self-ask", ("bamboogle",),
         (Split("test", 125, files=("bamboogle/test.jsonl", "test.jsonl")),)),
)  # fmt: skip

QA_SETS = tuple(map(_benchmark, _TABLE))
