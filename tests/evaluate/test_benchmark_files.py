"""Benchmarks' files read: every layout that a benchmark is found in, ciphers, splits and folders, what is left out."""

import base64
import hashlib
import json
import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from benchmark_files import by_bytes, by_hash, write_rows
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.core.record import question_id
from sanderling.data.fields import named_columns
from sanderling.evaluate.benchmark_files import Loaded, Unread, load_benchmark
from sanderling.evaluate.benchmark_rows import Options, RowError, UnreadWhy, decrypted, looks_encrypted
from sanderling.evaluate.benchmarks import BENCHMARKS, Cipher, get_benchmark

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
    return load_benchmark(get_benchmark(layout.key), write_rows(folder / layout.name, layout.rows), layout.options)


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
    loaded = load_benchmark(get_benchmark("nq"), path)
    assert len(loaded.questions) == loaded.rows == 2 and loaded.unread == {"other_set": 1} and loaded.broken == 0
    assert len(load_benchmark(get_benchmark("popqa"), path).questions) == 1


def test_unanswerable_questions_and_images_are_counted(tmp_path: Path) -> None:
    rows = [MUSIQUE, {**MUSIQUE, "id": "2hop__3_4", "answerable": False}]
    loaded = load_benchmark(get_benchmark("musique"), write_rows(tmp_path / "dev.jsonl", rows))
    assert len(loaded.questions) == 1 and loaded.unread == {"unanswerable": 1} and loaded.questions[0].hops == 2
    path = write_rows(
        tmp_path / "hle.jsonl",
        [HLE, {**HLE, "id": "h2", "image": "data:image/png;base64,AA"}, {**HLE, "id": "h3", "image": None}],
    )
    loaded = load_benchmark(get_benchmark("hle"), path)
    assert [one.id for one in loaded.questions] == ["hle/h1", "hle/h3"] and loaded.unread == {"needs_image": 1}
    assert len(load_benchmark(get_benchmark("hle"), path, Options(with_attachments=True)).questions) == 3


def test_a_worlds_questions_keep_their_masks(tmp_path: Path) -> None:
    row = {"id": "q1", "text": "Which?", "answers": ["this"], "masked_urls": ["https://a.example/x"], "hops": 3, "meta": {}}
    path = write_rows(tmp_path / "w" / "questions.jsonl", [row])
    for key, place in (("world", path.parent), ("jsonl", path)):
        question = load_benchmark(get_benchmark(key), place).questions[0]
        assert question.masked_urls == ("https://a.example/x",) and question.hops == 3 and question.id == f"{key}/q1"


# Ciphers --------------------------------------------------------------------------------------------------------------

PAIRS: list[tuple[Cipher, Any]] = [("sxor", by_hash), ("bxor", by_bytes), ("fixed", by_hash)]
printable = st.text(st.characters(exclude_categories=["Cs", "Cc"]))
canaries = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize(("cipher", "encrypted"), PAIRS)
@given(text=printable, canary=canaries)
def test_what_was_hidden_comes_back(cipher: Cipher, encrypted: Any, text: str, canary: str) -> None:
    assert decrypted(encrypted(text, canary), canary, cipher) == text


@pytest.mark.parametrize(("cipher", "encrypted"), PAIRS)
@pytest.mark.parametrize("canary", ["x", "k" * 33, "钥匙", "a b\tc"])
@pytest.mark.parametrize("text", ["", "a", "湖边的灯塔", "Line one\nline two\r\n", "long " * 100])
def test_keys_wrap(cipher: Cipher, encrypted: Any, canary: str, text: str) -> None:
    assert decrypted(encrypted(text, canary), canary, cipher) == text


def test_the_key_of_one_is_a_hash_and_of_the_other_is_not() -> None:
    assert decrypted(base64.b64encode(bytes([ord("h") ^ ord("k")])).decode(), "k", "bxor") == "h"
    with pytest.raises(RowError):
        decrypted(by_bytes("A question of some length.", "canary"), "canary", "sxor")


@pytest.mark.parametrize("cipher", ["sxor", "bxor"])
def test_what_does_not_open_is_refused(cipher: Cipher) -> None:
    hidden = by_hash("Which lamp did the potter of Arvendale paint?", "right")
    for text, canary in [
        (hidden, "wrong"),
        (hidden, ""),
        (hidden[:-1], "right"),
        (f"{hidden[:9]} {hidden[9:]}", "right"),
        ("Which lamp?", "right"),
        ("灯塔", "right"),
    ]:
        with pytest.raises(RowError):
            decrypted(text, canary, cipher)


def test_texts_without_letters_are_refused() -> None:
    with pytest.raises(RowError, match="does not open"):
        decrypted(by_hash("\x00\x01\x02abc", "k"), "k", "sxor")


@given(printable)
def test_ciphers_look_like_ciphers_and_questions_do_not(text: str) -> None:
    assert looks_encrypted(by_hash("Which question: " + text, "k"))
    assert not looks_encrypted(f"Which one {text}")


def hidden_row(**changed: Any) -> dict[str, Any]:
    texts = {"problem": by_hash("Which lamp hangs there?", "k"), "answer": by_hash("The blue one", "k")}
    return {**texts, "problem_topic": "Art", "canary": "k", **changed}


def test_rows_that_do_not_open_are_counted(tmp_path: Path) -> None:
    rows = [
        hidden_row(),
        hidden_row(canary="wrong"),
        hidden_row(canary=""),
        hidden_row(problem="A plain question?"),
        hidden_row(answer="%%%"),
    ]
    loaded = load_benchmark(get_benchmark("browsecomp"), write_rows(tmp_path / "bc.csv", rows))
    assert len(loaded.questions) == 1 and loaded.unread == {UnreadWhy.UNDECODABLE: 4} and loaded.broken == 4
    assert [one.line for one in loaded.examples] == [2, 3, 4], "the first three"


def test_a_file_that_lost_its_canary_is_no_plain_file(tmp_path: Path) -> None:
    bare = {name: value for name, value in hidden_row().items() if name != "canary"}
    path = write_rows(tmp_path / "bc.csv", [bare, bare])
    with pytest.raises(UserError, match=r"2 not to be decrypted\): check its canary column"):
        load_benchmark(get_benchmark("browsecomp"), path)
    assert len(load_benchmark(get_benchmark("browsecomp"), path, Options(canary="k")).questions) == 2


def test_a_decrypted_file_with_its_canary_is_told_what_to_do(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "bc.csv", [hidden_row(problem="A plain question?", answer="plain")])
    with pytest.raises(UserError, match="decrypted already, remove that column"):
        load_benchmark(get_benchmark("browsecomp"), path)


def test_the_fixed_canary_is_asked_for(tmp_path: Path) -> None:
    rows = [{"query_id": "1", "query": by_hash("Which lamp hangs there?", "k"), "answer": by_hash("Blue", "k")}]
    path = write_rows(tmp_path / "plus.parquet", rows)
    with pytest.raises(UserError, match="--canary"):
        load_benchmark(get_benchmark("browsecomp-plus"), path)
    with pytest.raises(UserError, match="does not open"):
        load_benchmark(get_benchmark("browsecomp-plus"), path, Options(canary="wrong"))


@pytest.mark.parametrize("key", ["jsonl", "simpleqa", "deepsearchqa"])
def test_an_encrypted_file_is_not_read_as_plain_by_another_benchmark(key: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="it is encrypted, so read it as the benchmark that it is"):
        load_benchmark(get_benchmark(key), write_rows(tmp_path / "bc.csv", [hidden_row()]))


# Folders, splits, ids and counts ----------------------------------------------------------------------------------------

QA = [{"question": f"Who keeps lamp {number}?", "answer": f"keeper {number}"} for number in range(12)]


def shards(folder: Path, count: int = 3) -> list[Path]:
    return [write_rows(folder / f"test-{at:05}-of-{count:05}.parquet", QA[at * 4 : at * 4 + 4]) for at in range(count)]


def test_the_parts_of_a_folder_are_read_in_order(tmp_path: Path) -> None:
    files = shards(tmp_path / "data")
    (tmp_path / ".cache").mkdir()
    write_rows(tmp_path / ".cache" / "old.csv", QA)
    (tmp_path / "README.md").write_text("# made up")
    loaded = load_benchmark(get_benchmark("jsonl"), tmp_path)
    assert [question.text for question in loaded.questions] == [row["question"] for row in QA]
    assert [question.meta["line"] for question in loaded.questions] == list(range(1, 13))
    assert loaded.sha256 == hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    shards(tmp_path)[1].unlink()
    with pytest.raises(UserError, match=r"lacks test-00001-of-00003.parquet \(1 of 3"):
        load_benchmark(get_benchmark("jsonl"), tmp_path)


def test_several_files_are_not_guessed(tmp_path: Path) -> None:
    for number in range(9):
        write_rows(tmp_path / f"{number}.csv", QA)
    with pytest.raises(UserError, match=r"several files \(0.csv, .*5.csv and 3 more\)"):
        load_benchmark(get_benchmark("jsonl"), tmp_path)


def test_a_folder_without_the_file_that_is_looked_for(tmp_path: Path) -> None:
    for name in ("manifest.json", "duplicates.json"):
        write_rows(tmp_path / name, QA)
    with pytest.raises(UserError, match=r"holds no questions.jsonl or .*, but other files \(duplicates.json, manifest.json\)"):
        load_benchmark(get_benchmark("world"), tmp_path)


def test_empty_folders_and_missing_files(tmp_path: Path) -> None:
    for place, said in ((tmp_path, "holds no CSV"), (tmp_path / "none.csv", "There is no file")):
        with pytest.raises(UserError, match=said):
            load_benchmark(get_benchmark("jsonl"), place)
    write_rows(tmp_path / "head.csv", QA[:1]).write_text("question,answer\n")
    with pytest.raises(UserError, match="holds no row"):
        load_benchmark(get_benchmark("jsonl"), tmp_path / "head.csv")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("dev.jsonl", "dev"),
        ("triviaqa_dev.jsonl", "dev"),
        ("test.jsonl", "test"),
        ("dev/file.jsonl", "dev"),
        ("dev/test.jsonl", "test"),
        ("device.jsonl", "test"),
        ("dev-00000-of-00001.jsonl", "dev"),
    ],
)
def test_the_split_is_told_by_the_name(name: str, split: str, tmp_path: Path) -> None:
    loaded = load_benchmark(get_benchmark("triviaqa"), write_rows(tmp_path / name, QA))
    assert loaded.split == split and loaded.questions[0].meta["split"] == split
    assert load_benchmark(get_benchmark("triviaqa"), tmp_path / name, Options(split="dev")).expected == 8837


def test_a_split_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'test'"):
        load_benchmark(get_benchmark("triviaqa"), tmp_path, Options(split="tset"))
    assert load_benchmark(get_benchmark("jsonl"), write_rows(tmp_path / "a.csv", QA), Options(split="any")).split == "any"


def test_equal_words_without_ids_stay_two_questions(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.csv", [QA[0], QA[1], QA[0]])
    loaded = load_benchmark(get_benchmark("jsonl"), path)
    first, _, again = (question.id for question in loaded.questions)
    assert again == f"{first}~2" and loaded.repeated_texts == 1 and not loaded.unread


def test_columns_that_a_person_names(tmp_path: Path) -> None:
    rows = [{"Frage": "Wer?", "Gold": {"best": ["a", "b"]}, "stufe": 2, "nr": 7, "feld": ["x", "y"]}]
    columns = named_columns("question=Frage,answer=gold.best,level=stufe,id=nr,topic=feld")
    loaded = load_benchmark(get_benchmark("jsonl"), write_rows(tmp_path / "a.jsonl", rows), Options(columns=columns))
    question = loaded.questions[0]
    assert (question.id, question.text, question.answers) == ("jsonl/7", "Wer?", ("a", "b"))
    assert question.meta["level"] == "2" and question.meta["topics"] == ["x", "y"]


@pytest.mark.parametrize("key", BENCHMARKS)
def test_another_benchmarks_file_is_refused_with_its_columns(key: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "other.csv", [{"Kopf": "a", "Fuß": "b"}])
    with pytest.raises(UserError, match=r"found: 'Kopf', 'Fuß'") as error:
        load_benchmark(get_benchmark(key), path)
    assert "--columns question=NAME" in str(error.value) or key == "world"


def test_a_row_that_lacks_what_the_others_have_costs_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        "".join(json.dumps(row) + "\n" for row in [QA[0], {"question": "And?"}, {"question": " ", "answer": "x"}, QA[1]])
    )
    loaded = load_benchmark(get_benchmark("jsonl"), path)
    assert len(loaded.questions) == 2 and loaded.unread == {"bad_row": 1, "no_question": 1}


def test_answers_that_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"question": "a?", "answer": NaN}\n{"question": "b?", "answer": null}\n{"question": "c?", "answer": []}\n')
    loaded = load_benchmark(get_benchmark("jsonl"), path)
    assert len(loaded.questions) == loaded.without_answer == 3


def test_golden_answers_in_every_writing(tmp_path: Path) -> None:
    writings = [["a", "b"], '["a", "b"]', "['a', 'b']", ["a", ["b"]]]
    rows = [{"id": str(at), "question": f"{at}?", "golden_answers": value} for at, value in enumerate(writings)]
    rows += [
        {"id": "np", "question": "n?", "golden_answers": "['a' 'b']"},
        {"id": "deep", "question": "d?", "golden_answers": [[["a"]]]},
    ]
    loaded = load_benchmark(get_benchmark("nq"), write_rows(tmp_path / "nq.jsonl", rows))
    assert {question.answers for question in loaded.questions} == {("a", "b")} and len(loaded.questions) == 4
    assert loaded.unread == {"bad_row": 2}


def test_a_large_file_leaves_questions_only(tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    with path.open("w") as file:
        for number in range(300):
            file.write(json.dumps({**QA[0], "question": f"Who keeps lamp {number}?", "context": "word " * 20_000}) + "\n")
    assert path.stat().st_size > 25 << 20
    tracemalloc.start()
    loaded = load_benchmark(get_benchmark("hotpotqa"), path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(loaded.questions) == 300 and peak < 12 << 20


def gaia_row(number: int, **changed: Any) -> dict[str, Any]:
    row = {
        "task_id": f"made-up-{number}",
        "Question": f"How many lamps hang in hall {number}?",
        "Level": str(number % 3 + 1),
        "Final answer": str(number),
        "file_name": "",
        "file_path": "",
        "Annotator Metadata": {"Steps": "count them", "Number of steps": "1"},
    }
    return {**row, **changed}


def test_json_lines(tmp_path: Path) -> None:
    rows = [gaia_row(1), gaia_row(2, file_name="sheet.xlsx"), gaia_row(3, Level=1)]
    loaded = load_benchmark(get_benchmark("gaia"), write_rows(tmp_path / "metadata.jsonl", rows))
    assert [question.id for question in loaded.questions] == ["gaia/made-up-1", "gaia/made-up-3"]
    first = loaded.questions[0]
    assert first.text == "How many lamps hang in hall 1?" and first.answers == ("1",)
    assert first.meta == {"benchmark": "gaia", "split": "validation", "level": "2", "topics": [], "line": 1, "private": True}
    assert loaded.questions[1].meta["level"] == "1" and loaded.questions[1].meta["line"] == 3
    assert loaded.unread == {UnreadWhy.NEEDS_FILE: 1}
    assert loaded.examples == (Unread(2, UnreadWhy.NEEDS_FILE, "sheet.xlsx"),)
    assert (loaded.rows, loaded.expected, loaded.private, loaded.broken) == (3, 165, True, 0)


def test_files_are_kept_where_they_are_asked_for(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "metadata.jsonl", [gaia_row(1, file_name="sheet.xlsx")])
    with pytest.raises(UserError, match="1 about an attached file"):
        load_benchmark(get_benchmark("gaia"), path)
    loaded = load_benchmark(get_benchmark("gaia"), path, Options(with_attachments=True))
    assert loaded.questions[0].meta["file_name"] == "sheet.xlsx" and not loaded.unread


@pytest.mark.parametrize("level", [1, "1", 1.0])
def test_parquet_in_the_folder_of_the_hub(tmp_path: Path, level: object) -> None:
    folder = tmp_path / "2023" / "validation"
    rows = [gaia_row(number, Level=level, file_name=None) for number in range(3)]
    write_rows(folder / "metadata.parquet", rows)
    write_rows(folder / "metadata.level1.parquet", rows[:1])
    loaded = load_benchmark(get_benchmark("gaia"), tmp_path)
    assert len(loaded.questions) == 3 and loaded.split == "validation"
    assert {question.meta["level"] for question in loaded.questions} == {"1"}


def test_hidden_answers_are_no_answers(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "2023" / "test" / "metadata.jsonl", [gaia_row(1, **{"Final answer": "?"}), gaia_row(2)])
    for loaded in (
        load_benchmark(get_benchmark("gaia"), path),
        load_benchmark(get_benchmark("gaia"), tmp_path, Options(split="test")),
    ):
        assert loaded.split == "test" and loaded.expected == 300
        assert [question.answers for question in loaded.questions] == [(), ("2",)] and loaded.without_answer == 1


@pytest.mark.parametrize("answer_column", ["answer", "Final answer"])
def test_the_103_of_both_layouts(tmp_path: Path, answer_column: str) -> None:
    rows = []
    for number in range(103):
        row = gaia_row(number, Level=number % 3 + 1, id=number, file_name="kept.pdf" if number == 5 else "")
        row[answer_column] = row.pop("Final answer")
        rows.append(row)
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    loaded = load_benchmark(get_benchmark("gaia-text-103"), path)
    assert len(loaded.questions) == loaded.expected == 103 and not loaded.unread
    assert loaded.questions[7].id == "gaia-text-103/made-up-7"


@pytest.mark.parametrize("answer", ["None", "N/A", "0", "nan", "1,000", "[1, 5]"])
def test_odd_answers_are_taken_as_they_stand(tmp_path: Path, answer: str) -> None:
    path = write_rows(tmp_path / "metadata.jsonl", [gaia_row(1, **{"Final answer": answer})])
    assert load_benchmark(get_benchmark("gaia"), path).questions[0].answers == (answer,)


def test_another_file_is_told_by_its_columns(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "other.jsonl", [{"prompt": "Which?", "gold": "this"}])
    with pytest.raises(UserError, match=r"no column 'Question' for the question \(found: 'prompt', 'gold'\)"):
        load_benchmark(get_benchmark("gaia"), path)


def test_an_id_counts_once(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "metadata.jsonl", [gaia_row(1), gaia_row(1), gaia_row(2, Question=gaia_row(1)["Question"])])
    loaded = load_benchmark(get_benchmark("gaia"), path)
    assert len(loaded.questions) == 2 and loaded.unread == {UnreadWhy.REPEATED_ID: 1} and loaded.broken == 1
    assert loaded.repeated_texts == 1, "the same words under another id are another question"
