"""The two ciphers, against an encrypter of the tests' own; what does not open is refused and counted."""

import base64
from pathlib import Path
from typing import Any

import pytest
from benchmark_files import by_bytes, by_hash, write_rows
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.evaluate.benchmarks import decrypt
from sanderling.evaluate.benchmarks.contract import Options
from sanderling.evaluate.benchmarks.decrypt import CIPHERS, Cipher, UndecodableError, bxor, looks_encrypted, sxor
from sanderling.evaluate.benchmarks.registry import get_benchmark
from sanderling.evaluate.benchmarks.unread import UnreadWhy

PAIRS = [(sxor, by_hash), (bxor, by_bytes)]
printable = st.text(st.characters(exclude_categories=["Cs", "Cc"]))
canaries = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize(("decrypted", "encrypted"), PAIRS)
@given(text=printable, canary=canaries)
def test_what_was_hidden_comes_back(decrypted: Any, encrypted: Any, text: str, canary: str) -> None:
    assert decrypted(encrypted(text, canary), canary) == text


@pytest.mark.parametrize(("decrypted", "encrypted"), PAIRS)
@pytest.mark.parametrize("canary", ["x", "k" * 33, "钥匙", "a b\tc"])
@pytest.mark.parametrize("text", ["", "a", "湖边的灯塔", "Line one\nline two\r\n", "long " * 100])
def test_keys_wrap(decrypted: Any, encrypted: Any, canary: str, text: str) -> None:
    assert decrypted(encrypted(text, canary), canary) == text


def test_the_key_of_one_is_a_hash_and_of_the_other_is_not() -> None:
    assert bxor(base64.b64encode(bytes([ord("h") ^ ord("k")])).decode(), "k") == "h"
    with pytest.raises(UndecodableError):
        sxor(by_bytes("A question of some length.", "canary"), "canary")


@pytest.mark.parametrize("decrypted", [sxor, bxor])
def test_what_does_not_open_is_refused(decrypted: Any) -> None:
    hidden = by_hash("Which lamp did the potter of Arvendale paint?", "right")
    for text, canary in [
        (hidden, "wrong"),
        (hidden, ""),
        (hidden[:-1], "right"),
        (f"{hidden[:9]} {hidden[9:]}", "right"),
        ("Which lamp?", "right"),
        ("灯塔", "right"),
    ]:
        with pytest.raises(UndecodableError):
            decrypted(text, canary)


def test_texts_without_letters_are_refused() -> None:
    with pytest.raises(UndecodableError, match="does not open"):
        sxor(by_hash("\x00\x01\x02abc", "k"), "k")


@given(printable)
def test_ciphers_look_like_ciphers_and_questions_do_not(text: str) -> None:
    assert looks_encrypted(by_hash("Which question: " + text, "k"))
    assert not looks_encrypted(f"Which one {text}")


def row(**changed: Any) -> dict[str, Any]:
    hidden = {"problem": by_hash("Which lamp hangs there?", "k"), "answer": by_hash("The blue one", "k")}
    return {**hidden, "problem_topic": "Art", "canary": "k", **changed}


def test_rows_that_do_not_open_are_counted(tmp_path: Path) -> None:
    rows = [row(), row(canary="wrong"), row(canary=""), row(problem="A plain question?"), row(answer="%%%")]
    loaded = get_benchmark("browsecomp").load(write_rows(tmp_path / "bc.csv", rows))
    assert len(loaded.questions) == 1 and loaded.unread == {UnreadWhy.UNDECODABLE: 4} and loaded.broken == 4
    assert [one.line for one in loaded.examples] == [2, 3, 4], "the first three"


def test_a_file_that_lost_its_canary_is_no_plain_file(tmp_path: Path) -> None:
    bare = {name: value for name, value in row().items() if name != "canary"}
    path = write_rows(tmp_path / "bc.csv", [bare, bare])
    with pytest.raises(UserError, match=r"2 not to be decrypted\): check its canary column"):
        get_benchmark("browsecomp").load(path)
    assert len(get_benchmark("browsecomp").load(path, Options(canary="k")).questions) == 2


def test_a_decrypted_file_with_its_canary_is_told_what_to_do(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "bc.csv", [row(problem="A plain question?", answer="plain")])
    with pytest.raises(UserError, match="decrypted already, remove that column"):
        get_benchmark("browsecomp").load(path)


def test_the_fixed_canary_is_asked_for(tmp_path: Path) -> None:
    rows = [{"query_id": "1", "query": by_hash("Which lamp hangs there?", "k"), "answer": by_hash("Blue", "k")}]
    path = write_rows(tmp_path / "plus.parquet", rows)
    with pytest.raises(UserError, match="--canary"):
        get_benchmark("browsecomp-plus").load(path)
    with pytest.raises(UserError, match="does not open"):
        get_benchmark("browsecomp-plus").load(path, Options(canary="wrong"))


@pytest.mark.parametrize("key", ["jsonl", "simpleqa", "deepsearchqa"])
def test_an_encrypted_file_is_not_read_as_plain_by_another_benchmark(key: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="it is encrypted, so read it as the benchmark that it is"):
        get_benchmark(key).load(write_rows(tmp_path / "bc.csv", [row()]))


def test_documents_are_never_decrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def counted(text: str, canary: str) -> str:
        seen.append(text)
        return sxor(text, canary)

    monkeypatch.setitem(CIPHERS, Cipher.FIXED, counted)
    docs = [{"docid": by_hash(f"d{at}", "k"), "text": by_hash("words " * 50, "k")} for at in range(40)]
    rows = [
        {
            "query_id": str(at),
            "query": by_hash(f"Which lamp hangs at {at}?", "k"),
            "answer": by_hash("Blue", "k"),
            "gold_docs": docs,
        }
        for at in range(6)
    ]
    for name in ("plus.parquet", "plus.jsonl"):
        seen.clear()
        loaded = get_benchmark("browsecomp-plus").load(write_rows(tmp_path / name, rows), Options(canary="k"))
        assert len(loaded.questions) == 6 and len(seen) == 12
        assert all("gold_docs" not in question.meta for question in loaded.questions)


def test_the_ciphers_have_a_row_each() -> None:
    assert set(decrypt.CIPHERS) == set(Cipher) - {Cipher.NONE}
