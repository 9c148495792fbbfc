"""Files as strangers bring them, through the command: other names for fields, roles in capitals, packed, damaged, Latin-1."""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from import_files import SEARCH, SEEN, TALK
from made_files import save

from sanderling.cli.main import main

LINES = [{"question": f"Où est-ce, {n} ?", "answer": "Ici", "messages": TALK} for n in range(600)]


def sanderling(*words: object) -> tuple[int, str]:
    """Exit status and all that is printed of a command, as a person meets it."""
    told, code = io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["sanderling", *map(str, words)]),
        contextlib.redirect_stdout(told),
        contextlib.redirect_stderr(told),
        warnings.catch_warnings(),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return code, " ".join(told.getvalue().split())


data = partial(sanderling, "data")


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(content)
    return sink.getvalue().to_pybytes()


PACKERS = {".gz": gzip.compress, ".bz2": partial(bz2.compress, compresslevel=1), ".xz": lzma.compress, ".zst": zstd}
SPOKEN = [{"speaker": "User", "text": "why?"}, {"speaker": "Assistant", "text": "42"}]


@pytest.mark.parametrize(
    ("field", "talk"),
    [
        *((name, TALK) for name in ("msgs", "chat", "trace", "steps")),
        ("dialogue", SPOKEN),
        ("turns", ["why?", SEARCH, SEEN, "<answer>\n42\n</answer>"]),
        ("log", ["why?", "It is so, because it is. " * 40]),
        ("run.history", TALK),
        ("history", json.dumps(TALK)),
    ],
)
@pytest.mark.parametrize("beside", [{"question": "why?", "answer": "42"}, {"number": 7}])
def test_a_conversation_under_another_name_is_no_question(
    tmp_path: Path, field: str, talk: Any, beside: dict[str, Any]
) -> None:
    outer, _, inner = field.rpartition(".")
    entry = beside | ({outer: {inner: talk}} if outer else {field: talk})
    file = save(tmp_path / "a.jsonl", [entry] * 3)
    code, told = data("import", file, "--out", tmp_path / "t.jsonl", "--questions", tmp_path / "q.jsonl")
    assert code == 2 and f"'{field}'" in told and "--messages" in told
    save(tmp_path / "b.jsonl", [{"question": "q?", "answer": "a"}, entry])
    code, told = data("import", tmp_path / "b.jsonl", "--questions", tmp_path / "q.jsonl")
    assert code == 0 and f"'{field}'" in told and len((tmp_path / "q.jsonl").read_text().splitlines()) == 1


def test_the_field_of_messages_can_be_named_and_a_question_insisted_on(tmp_path: Path) -> None:
    file, out = save(tmp_path / "a.jsonl", [{"question": "why?", "answer": "42", "run": {"msgs": TALK}}]), tmp_path / "t.jsonl"
    code, told = data("import", file, "--out", out, "--messages", "run.msgs")
    (record,) = map(json.loads, out.read_text().splitlines())
    assert code == 0 and len(record["nodes"]) == 4 and record["question"]["answers"] == ["42"]
    code, told = data("import", file, "--out", out, "--messages", "mgs")
    assert code == 2 and "no entry" in told and "'mgs'" in told
    code, _ = data("import", file, "--questions", tmp_path / "q.jsonl", "--layout", "questions")
    assert code == 0 and json.loads((tmp_path / "q.jsonl").read_text())["text"] == "why?"


@pytest.mark.parametrize(
    "extra",
    [
        {"prompt": [{"role": "system", "content": "Be brief. " * 80}, {"role": "user", "content": "why?"}]},
        {"context": [["Title", ["A sentence of some length. " * 40]], ["AI", ["More."]]]},
        {"paragraphs": [{"title": "T", "paragraph_text": "Long. " * 200}] * 2},
        {"tools": [{"type": "function", "function": {"name": "f", "description": "Long. " * 200}}] * 2},
        {"rubrics": [{"criterion": "Names the year. " * 5, "weight": 3}] * 4},
    ],
)
def test_what_questions_really_hold_is_let_alone(tmp_path: Path, extra: dict[str, Any]) -> None:
    file = save(tmp_path / "a.jsonl", [{"question": "why?", "answer": "42", **extra}])
    assert data("import", file, "--questions", tmp_path / "q.jsonl")[0] == 0


def test_roles_in_any_case_and_no_number_that_json_has_not(tmp_path: Path) -> None:
    capital = [{**message, "role": message["role"].title()} for message in TALK]
    line = json.dumps({"messages": capital, "score": float("nan"), "meta": '{"x": Infinity}'}).replace(
        '"why?"', '"why?", "p": 1e999'
    )
    save(tmp_path / "a.jsonl", line)
    save(tmp_path / "b.parquet", [{"messages": TALK, "score": float("nan")}])
    out = tmp_path / "t.jsonl"
    assert data("import", tmp_path / "a.jsonl", tmp_path / "b.parquet", "--out", out)[0] == 0

    def refuse(name: str) -> None:
        raise AssertionError(name)

    first, second = (json.loads(one, parse_constant=refuse) for one in out.read_text().splitlines())
    assert [node["kind"] for node in first["nodes"]] == [node["kind"] for node in second["nodes"]]
    assert first["meta"]["fields"]["score"] is None and second["meta"]["fields"]["score"] is None


def written(folder: Path, name: str, content: bytes) -> tuple[int, str, int]:
    """What an import of this file says, and how many trajectories it gives."""
    (folder / name).write_bytes(content)
    code, told = data("import", folder / name, "--out", folder / "t.jsonl")
    return code, told, len((folder / "t.jsonl").read_bytes().splitlines()) if code == 0 else 0


TEXT = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in LINES).encode()


@pytest.mark.parametrize("ending", PACKERS)
def test_a_packed_file_is_read_and_of_a_cut_one_what_is_whole(tmp_path: Path, ending: str) -> None:
    packed = PACKERS[ending](TEXT)
    assert written(tmp_path, f"a.jsonl{ending}", packed)[::2] == (0, 600)
    (tmp_path / "folder").mkdir()
    (tmp_path / f"a.jsonl{ending}").rename(tmp_path / "folder" / f"a.jsonl{ending}")
    assert data("import", tmp_path / "folder", "--out", tmp_path / "t.jsonl")[0] == 0
    code, told, count = written(tmp_path, f"cut.jsonl{ending}", packed[: len(packed) * 9 // 10])
    assert code == 0 and 0 < count < 600 and "it is cut" in told and "download it again" in told


@pytest.mark.parametrize("name", ["a.json", "a.csv"])
def test_a_cut_list_or_table_gives_its_whole_entries(tmp_path: Path, name: str) -> None:
    rows = [{"question": f"Why {n * n * 7919}?", "answer": str(n)} for n in range(5_000)]
    plain = save(tmp_path / name, rows).read_bytes()
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(plain)[:-5_000])
    code, told = data("import", tmp_path / f"{name}.gz", "--questions", tmp_path / "q.jsonl")
    asked = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert code == 0 and "it is cut" in told and 0 < len(asked) < 5_000
    assert all(one["text"] == f"Why {int(one['answers'][0]) ** 2 * 7919}?" for one in asked)


def test_a_wrong_checksum_is_called_one(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[-6] ^= 255
    code, told, count = written(tmp_path, "a.jsonl.gz", bytes(packed))
    assert (code, count) == (0, 600) and "checksum does not match" in told


def test_lines_in_latin_1_are_named_and_the_others_kept(tmp_path: Path) -> None:
    line = json.dumps(LINES[0], ensure_ascii=False)
    code, told, count = written(tmp_path, "a.jsonl", (line + "\n").encode() + (line + "\n").encode("latin-1") * 2)
    assert (code, count) == (0, 1) and "2 lines are not UTF-8" in told and "iconv" in told
    for encoding in ("latin-1", "utf-16"):
        code, told, _ = written(tmp_path, "b.jsonl", (line + "\n").encode(encoding) * 2)
        assert code == 2 and "not UTF-8" in told
    save(tmp_path / "q.jsonl", '{"question": "Où ?", "answer": "Ici"}\n'.encode("latin-1"))
    code, told = sanderling("eval", "check", "simpleqa", tmp_path / "q.jsonl")
    assert code == 2 and "not UTF-8" in told
