"""Every benchmark in every layout that it is found in: made-up rows, and the questions that come of them."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from benchmark_files import by_bytes, by_hash, write_rows

from sanderling.core.record import question_id
from sanderling.evaluate.benchmarks.contract import Loaded, Options
from sanderling.evaluate.benchmarks.registry import BENCHMARKS, get_benchmark

CANARY = "made up, keep out: 7f3a"
ZH = ("湖边的灯塔是谁画的？", "一位钟表匠", "艺术")
EN = ("Which potter painted the lamp by the lake?", "Nolhum of Arvendale")
ROOT = "https://r.example/"
INFO = {
    "Hop": "multi",
    "Domain": "theatre",
    "Language": "en",
    "Difficulty_Level": "hard",
    "Source_Website": ["s"],
    "Golden_Path": [],
}
LOW_INFO = {"type": "single", "domain": "theatre", "lang": "zh", "difficulty_level": "easy"}


@dataclass(frozen=True)
class Layout:
    """Rows of a file, and what the first one becomes."""

    key: str
    name: str
    rows: list[dict[str, Any]]
    text: str = EN[0]
    answers: tuple[str, ...] = (EN[1],)
    id: str = ""
    """Native; empty: the text's hash."""
    level: str = ""
    topics: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    options: Options = field(default_factory=Options)


def hidden(cipher: Any, canary: str = CANARY, **texts: str) -> dict[str, str]:
    return {name: cipher(text, canary) for name, text in texts.items()}


BC = {**hidden(by_hash, problem=EN[0], answer=EN[1]), "problem_topic": "Art", "canary": CANARY}
BC_ZH = {**hidden(by_hash, Topic=ZH[2], Question=ZH[0], Answer=ZH[1]), "canary": CANARY}
XBENCH = {"id": "17", **hidden(by_bytes, prompt=ZH[0], answer=ZH[1], reference_steps="1. 看"), "canary": CANARY}
DOCS = {name: [{"docid": "d1", "text": "t"}] for name in ("gold_docs", "evidence_docs", "negative_docs")}
PLUS = {"query_id": "31", **hidden(by_hash, query=EN[0], answer=EN[1]), **DOCS}
HLE = {
    "id": "h1", "question": EN[0], "image": "", "image_preview": None, "answer": EN[1], "answer_type": "exactMatch",
    "author_name": "a", "rationale": "r", "rationale_image": None, "raw_subject": "Pottery", "category": "Arts",
    "canary": CANARY,
}  # fmt: skip
FRAMES = {
    "": "4", "Prompt": EN[0], "Answer": EN[1], "wikipedia_link_1": "https://w.example/a", "wikipedia_link_11+": "",
    "reasoning_types": "Multiple constraints | Numerical reasoning", "wiki_links": "['https://w.example/a', 'https://w.example/b']",
}  # fmt: skip
SEAL = {
    "question": EN[0], "answer": EN[1], "urls": ["https://w.example/a"], "freshness": "slow-changing",
    "question_types": ["advanced"], "effective_year": "before 2024", "search_results": "[]", "topic": "Art",
}  # fmt: skip
SIMPLE = {
    "metadata": str({"topic": "Art", "answer_type": "Person", "urls": ["https://w.example/a"]}),
    "problem": EN[0],
    "answer": EN[1],
}
GOLDEN = {
    "id": "test_0",
    "question": EN[0],
    "golden_answers": [EN[1], "Nolhum"],
    "metadata": {"type": "bridge", "level": "hard"},
}
BOTH = (EN[1], "Nolhum")
SEARCH_R1 = {
    "data_source": "nq", "ability": "fact-reasoning", "reward_model": {"style": "rule", "ground_truth": {"target": list(BOTH)}},
    "prompt": [{"role": "user", "content": f"Answer in tags, as <answer> Arvendale </answer>. Question: {EN[0]}\n"}],
    "extra_info": {"split": "test", "index": 6},
}  # fmt: skip
HOTPOT = {
    "_id": "5a", "answer": EN[1], "question": EN[0], "supporting_facts": [["T", 0]], "context": [["T", ["s"]]],
    "type": "bridge", "level": "hard",
}  # fmt: skip
MUSIQUE = {
    "id": "2hop__1_2", "paragraphs": [], "question": EN[0], "question_decomposition": [], "answer": EN[1],
    "answer_aliases": ["Nolhum"], "answerable": True,
}  # fmt: skip
POP = {"id": "9", "subj": "lamp", "prop": "painter", "obj": "o", "question": EN[0], "possible_answers": json.dumps(BOTH)}
TRIVIA = {
    "Question": EN[0],
    "QuestionId": "tc_1",
    "Answer": {"Value": EN[1], "Aliases": ["Nolhum"], "NormalizedAliases": ["nolhum"]},
}
SIMPLE_EXTRA = {"answer_type": "Person", "links": ["https://w.example/a"]}

LAYOUTS = [
    Layout("browsecomp", "browse_comp_test_set.csv", [BC], topics=("Art",)),
    Layout("browsecomp", "test.parquet", [BC], topics=("Art",)),
    Layout("browsecomp", "test.jsonl.gz", [BC], topics=("Art",)),
    Layout("browsecomp", "plain.csv", [{"problem": EN[0], "answer": "Christianity", "problem_topic": "Art"}],
           answers=("Christianity",), topics=("Art",)),
    Layout("browsecomp-zh", "browsecomp-zh-encrypted.xlsx", [BC_ZH], ZH[0], (ZH[1],), topics=(ZH[2],)),
    Layout("browsecomp-zh", "test.parquet", [BC_ZH], ZH[0], (ZH[1],), topics=(ZH[2],)),
    Layout("browsecomp-plus", "test-00000-of-00006.parquet", [PLUS], id="31", options=Options(canary=CANARY)),
    Layout("browsecomp-plus", "browsecomp_plus_decrypted.jsonl", [{**PLUS, "query": EN[0], "answer": EN[1]}], id="31"),
    Layout("xbench-2505", "DeepSearch-2505.csv", [XBENCH], ZH[0], (ZH[1],), id="17"),
    Layout("xbench-2510", "DeepSearch-2510.csv", [{**XBENCH, "id": "117"}], ZH[0], (ZH[1],), id="117"),
    Layout("hle", "test.parquet", [HLE], id="h1", topics=("Arts",), extra={"answer_type": "exactMatch"}),
    Layout("hle", "test.json", [{"id": 3, "Question": EN[0], "answer": EN[1], "answer_type": "exactMatch", "category": "Arts"}],
           id="3", topics=("Arts",), extra={"answer_type": "exactMatch"}),
    Layout("frames", "test.tsv", [FRAMES], id="4", topics=("Multiple constraints", "Numerical reasoning"),
           extra={"links": ["https://w.example/a", "https://w.example/b"]}),
    Layout("webwalkerqa", "main.jsonl", [{"Question": EN[0], "Answer": EN[1], "Root_Url": ROOT, "Info": INFO}],
           level="hard", topics=("theatre",), extra={"root_url": ROOT, "type": "multi", "language": "en"}),
    Layout("webwalkerqa", "main.parquet", [{"question": EN[0], "answer": EN[1], "root_url": ROOT, "info": LOW_INFO}],
           level="easy", topics=("theatre",), extra={"root_url": ROOT, "type": "single", "language": "zh"}),
    Layout("webwalkerqa", "test.json", [{"id": 0, "Question": EN[0], "answer": EN[1], "root_url": ROOT, **LOW_INFO}],
           id="0", level="easy", topics=("theatre",),
           extra={"root_url": ROOT, "type": "single", "language": "zh"}),
    Layout("seal-0", "seal-0.parquet", [SEAL], topics=("Art",),
           extra={"freshness": "slow-changing", "effective_year": "before 2024", "question_types": ["advanced"]}),
    Layout("deepsearchqa", "DSQA-full.csv",
           [{"problem": EN[0], "problem_category": "Art", "answer": "Nolhum, Arven", "answer_type": "Set Answer"}],
           answers=("Nolhum, Arven",), topics=("Art",), extra={"answer_type": "Set Answer"}),
    Layout("simpleqa", "simple_qa_test_set.csv", [SIMPLE], topics=("Art",), extra=SIMPLE_EXTRA),
    Layout("simpleqa", "cut.csv", [{**SIMPLE, "metadata": "{'topic': 'Art', 'answer_ty"}]),
    Layout("nq", "test.jsonl", [{**GOLDEN, "metadata": None}], answers=BOTH, id="test_0"),
    Layout("nq", "nq_open.jsonl", [{"question": EN[0], "answer": list(BOTH)}], answers=BOTH),
    Layout("nq", "search_r1.parquet", [SEARCH_R1], answers=BOTH, id="6"),
    Layout("nq", "asked.parquet", [{**SEARCH_R1, "extra_info": {"split": "test", "index": 6, "question": "Asked here?"}}],
           "Asked here?", BOTH, "6"),
    Layout("triviaqa", "test.jsonl", [{**GOLDEN, "metadata": {}}], answers=BOTH, id="test_0"),
    Layout("triviaqa", "unfiltered.json", [{"Data": [TRIVIA, {**TRIVIA, "QuestionId": "tc_2"}]}], answers=BOTH, id="tc_1"),
    Layout("popqa", "popQA.tsv", [POP], answers=BOTH, id="9", topics=("painter",)),
    Layout("hotpotqa", "dev.jsonl", [GOLDEN], answers=BOTH, id="test_0", level="hard", topics=("bridge",)),
    Layout("hotpotqa", "hotpot_dev.json", [HOTPOT], id="5a", level="hard", topics=("bridge",)),
    Layout("2wiki", "dev.json", [{**HOTPOT, "evidences": [["a", "b", "c"]]}], id="5a", level="hard", topics=("bridge",)),
    Layout("2wiki", "merged.parquet", [{**SEARCH_R1, "data_source": "2wikimultihopqa"}], answers=BOTH, id="6"),
    Layout("musique", "musique_ans_v1.0_dev.jsonl", [MUSIQUE], answers=BOTH, id="2hop__1_2", level="2 hops"),
    Layout("bamboogle", "bamboogle.csv", [{"Question": EN[0], "Answer": EN[1]}]),
    Layout("hotpotqa", "arpo.jsonl", [{"question": EN[0], "answer": list(BOTH)}], answers=BOTH),
    Layout("hotpotqa", "r1.jsonl", [{"idx": 5, "question": EN[0], "answer": EN[1], "gen_text_store": ""}], id="5"),
    Layout("musique", "simple.json", [{"Question": EN[0], "answer": [list(BOTH)], "source": "musique", "id": "m5"}],
           answers=BOTH, id="m5"),
    Layout("jsonl", "mine.jsonl", [{"prompt": EN[0], "gold_answer": EN[1], "difficulty": 3}], level="3"),
    Layout("jsonl", "rows.jsonl", [{"prompt": [{"role": "user", "content": EN[0]}], "answer": EN[1]}]),
    Layout("world", "questions.jsonl",
           [{"id": "q1", "text": EN[0], "answers": [EN[1]], "hops": 2, "meta": {"capability": "join"}}],
           id="q1", level="2", topics=("join",), extra={"capability": "join"}),
]  # fmt: skip


def load(layout: Layout, folder: Path) -> Loaded:
    return get_benchmark(layout.key).load(write_rows(folder / layout.name, layout.rows), layout.options)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout.key}-{layout.name}")
def test_rows_become_questions(layout: Layout, tmp_path: Path) -> None:
    loaded = load(layout, tmp_path)
    first = loaded.questions[0]
    assert (first.text, first.answers) == (layout.text, layout.answers)
    assert first.id == f"{layout.key}/{layout.id or question_id(layout.text)}"
    assert (first.meta["level"], tuple(first.meta["topics"])) == (layout.level, layout.topics)
    known = {"benchmark": layout.key, "split": loaded.split, "line": 1}
    assert known.items() <= first.meta.items()
    rest = {name: value for name, value in first.meta.items() if name not in {*known, "level", "topics", "private", "canary"}}
    assert rest == layout.extra
    assert not loaded.unread and loaded.rows == len(loaded.questions)
    assert first.meta.get("private", False) is loaded.private is get_benchmark(layout.key).private


def test_every_benchmark_has_a_layout_here() -> None:
    assert {layout.key for layout in LAYOUTS} == set(BENCHMARKS) - {"gaia", "gaia-text-103"}


@pytest.mark.parametrize("key", ["browsecomp", "browsecomp-zh", "xbench-2505"])
def test_the_canary_goes_with_the_question(key: str, tmp_path: Path) -> None:
    loaded = load(next(layout for layout in LAYOUTS if layout.key == key), tmp_path)
    assert loaded.canaries == (CANARY,) and loaded.questions[0].meta["canary"] == CANARY


def test_rows_of_other_sets_are_no_loss(tmp_path: Path) -> None:
    rows = [{**SEARCH_R1, "data_source": name, "extra_info": {"index": at}} for at, name in enumerate(["nq", "popqa", "nq"])]
    path = write_rows(tmp_path / "test.parquet", rows)
    loaded = get_benchmark("nq").load(path)
    assert len(loaded.questions) == loaded.rows == 2 and loaded.unread == {"other_set": 1} and loaded.broken == 0
    assert len(get_benchmark("popqa").load(path).questions) == 1


def test_unanswerable_questions_and_images_are_counted(tmp_path: Path) -> None:
    rows = [MUSIQUE, {**MUSIQUE, "id": "2hop__3_4", "answerable": False}]
    loaded = get_benchmark("musique").load(write_rows(tmp_path / "dev.jsonl", rows))
    assert len(loaded.questions) == 1 and loaded.unread == {"unanswerable": 1} and loaded.questions[0].hops == 2
    path = write_rows(
        tmp_path / "hle.jsonl",
        [HLE, {**HLE, "id": "h2", "image": "data:image/png;base64,AA"}, {**HLE, "id": "h3", "image": None}],
    )
    loaded = get_benchmark("hle").load(path)
    assert [one.id for one in loaded.questions] == ["hle/h1", "hle/h3"] and loaded.unread == {"needs_image": 1}
    assert len(get_benchmark("hle").load(path, Options(with_attachments=True)).questions) == 3


def test_a_worlds_questions_keep_their_masks(tmp_path: Path) -> None:
    row = {"id": "q1", "text": "Which?", "answers": ["this"], "masked_urls": ["https://a.example/x"], "hops": 3, "meta": {}}
    path = write_rows(tmp_path / "w" / "questions.jsonl", [row])
    for key, place in (("world", path.parent), ("jsonl", path)):
        question = get_benchmark(key).load(place).questions[0]
        assert question.masked_urls == ("https://a.example/x",) and question.hops == 3 and question.id == f"{key}/q1"
