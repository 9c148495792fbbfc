"""Bad input: whatever a file holds, nothing is lost in silence, and nothing but a UserError is raised."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import JSON, OBJECT, TEXT
from test_import_layouts import DONE, SEARCH, SEEN, TALK, call, save

from sanderling.core.errors import UserError
from sanderling.core.record import NodeKind, Trajectory, encode_record, encode_trajectory
from sanderling.data.files import LeftOutWarning, open_trajectories
from sanderling.data.importers import import_file, import_tree, open_import
from sanderling.runs.parquet import write_parquet

ROLES = ["system", "user", "assistant", "tool", "human", "gpt", "function_call", "observation", "reasoning", "answer", "x"]
CALLS = st.one_of(
    JSON,
    st.lists(st.builds(call, st.sampled_from(["1", "2", 3]), st.sampled_from(["search", "f", "", None]), JSON), max_size=3),
)
CONTENT = st.one_of(TEXT, JSON, st.sampled_from([SEARCH, SEEN, DONE, "</think>", '{"name": "f", "arguments": {}}']))
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(ROLES) | JSON,
        "from": st.sampled_from(ROLES),
        "content": CONTENT,
        "value": CONTENT,
        "tool_calls": CALLS,
        "function_call": CALLS,
        "tool_call_id": st.sampled_from(["1", "2", 3, None]),
        "reasoning_content": CONTENT,
        "type": st.sampled_from(["assistant", "question", "tool_response"]),
    },
)
MESSAGES = st.lists(MESSAGE | JSON, max_size=6)
NAMES = ["question", "answer", "gt", "meta", "system_prompt", "system", "termination", "type", "request_id", "response"]
NAMES += ["prompt", "reward_model", "extra_info", "prediction", "gaia_sample", "functions", "label"]
FIELDS = st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, JSON | OBJECT))
HOLDERS = ["messages", "conversations", "steps", "conversation_history", "dialog", "request", "cases"]


def entry(holder, messages, fields):
    held = {"messages": messages} if holder == "request" else [{"steps": messages}] if holder == "cases" else messages
    return fields | ({"response": {}} if holder == "request" else {}) | {holder: held}


def recoverable(t: Trajectory) -> list[object]:
    """The messages that a trajectory's nodes hold, as far as they tell."""
    found: list[object] = []
    for node in t.nodes:
        if node.raw is None:
            found.append(node.text)
        elif node.kind is NodeKind.RAW:
            found.append(node.raw.get("message", node.raw) if set(node.raw) == {"message"} else node.raw)
        else:
            found += node.raw["messages"] if set(node.raw) == {"messages"} else [node.raw]
    return found


@given(st.sampled_from(HOLDERS), MESSAGES, FIELDS)
@settings(deadline=None, max_examples=300)
def test_no_message_of_any_layout_is_lost(tmp_path_factory, holder, messages, fields):
    path = save(tmp_path_factory.mktemp("i") / "a.json", json.dumps([entry(holder, messages, fields)]))
    try:
        result = import_file(path)
    except UserError:
        return
    report = result.report
    assert report.messages == report.kept + report.raw
    assert report.entries == report.trajectories + report.questions + report.unread
    for t in result.trajectories:
        encode_trajectory(t)
        assert sum(node.kind is NodeKind.RAW for node in t.nodes) == report.raw
        held = recoverable(t)
        prompts = len(held) - len(messages)
        assert prompts in (0, 1) or holder == "request"  # a system prompt that stood beside the messages
        for message, kept in zip(messages, held[max(0, prompts) :], strict=False):
            text = message.get("content", message.get("value")) if isinstance(message, dict) else message
            assert kept in (message, text)


@given(JSON, st.booleans())
@settings(deadline=None)
def test_any_json_is_read_or_refused(tmp_path_factory, value, lines):
    path = tmp_path_factory.mktemp("j") / "a.jsonl"
    path.write_bytes(encode_record(value) + (b'\n{"question": "q", "answer": "a"}\n' if lines else b""))
    try:
        report = import_file(path).report
    except UserError:
        return
    assert report.entries == report.trajectories + report.questions + report.unread


@given(
    st.binary(max_size=60),
    st.sampled_from([b"", b'[{"question": "q"},', b'{"question": "q"}\n', b"PAR1", b"\x1f\x8b\x08\x00", b"\xff\xfe"]),
)
@settings(deadline=None)  # fmt: skip
def test_any_bytes_are_read_or_refused(tmp_path_factory, data, head):
    path = tmp_path_factory.mktemp("b") / "a.json"
    path.write_bytes(head + data)
    try:
        import_file(path)
    except UserError as error:
        assert str(path.parent) in str(error)


def codes(result):
    return {oddity.code: oddity.count for oddity in result.report.odd}


ROW = {"question": "Où est-ce ?", "messages": TALK}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("indent", [None, 1])
def test_encodings(tmp_path, encoding, indent):
    path = tmp_path / "a.json"
    path.write_bytes(json.dumps([ROW, ROW], ensure_ascii=False, indent=indent).encode(encoding))
    assert [t.question.text for t in import_file(path).trajectories] == ["Où est-ce ?"] * 2


def test_mixed_encodings(tmp_path):
    line = json.dumps(ROW, ensure_ascii=False)
    (tmp_path / "a.jsonl").write_bytes(line.encode() + b"\n" + line.encode("latin-1") + b"\n" + line.encode() + b"\n")
    result = import_file(tmp_path / "a.jsonl")
    assert [t.question.text for t in result.trajectories] == ["Où est-ce ?"] * 3
    assert codes(result)["not_utf8"] == 1


def test_nul_bytes_inside_texts_and_around_lines(tmp_path):
    line = json.dumps(ROW).replace("why?", "why\0?")
    (tmp_path / "a.jsonl").write_bytes(f"{line}\n{line[:-1]}\0}}\n".encode() + bytes(512) + b"\n" + line.encode())
    result = import_file(tmp_path / "a.jsonl")
    assert [t.nodes[0].text for t in result.trajectories] == ["why\0?", "why?", "why\0?"]
    assert codes(result)["mended_line"] == 1


def test_repeated_keys_are_kept(tmp_path):
    result = import_file(save(tmp_path / "a.json", '{"question": "first", "question": "q", "question": "last", "answer": "a"}'))
    assert (result.questions[0].text, result.questions[0].meta) == ("last", {"question~1": "first", "question~2": "q"})
    assert codes(result) == {"duplicate_keys": 1}


GOOD = json.dumps(ROW)


@pytest.mark.parametrize(
    ("text", "read", "unread"),
    [
        (f"[{GOOD}, {GOOD}, {GOOD[:90]}", 2, 1),
        (f"[{GOOD}, {GOOD[:-5]} , {GOOD}]", 2, 1),
        (f'[{GOOD}, {{"question": {"[" * 5_000}{"]" * 5_000}}}, {GOOD}]', 2, 1),
        (
            json.dumps([ROW, ROW, ROW], indent=2).replace('"question"', "question", 2).replace("question:", '"question":', 1),
            2,
            1,
        ),
        (f"{GOOD[:50]}\n{GOOD}\n{GOOD}", 2, 1),
        (f"{GOOD},\n{GOOD},\n", 2, 0),
        (f"{GOOD}{GOOD}{GOOD}", 3, 0),
        (json.dumps(ROW, indent=1) + "\n" + json.dumps(ROW, indent=1), 2, 0),
        (f"{GOOD}\n[1, 2]\nnull\n{GOOD}\n", 2, 3),
        (f"\n\n  {GOOD}\r\n\r\n{GOOD}\r\n", 2, 0),
        (json.dumps(TALK) + "\n" + json.dumps(TALK), 2, 0),
        (json.dumps(TALK, indent=1), 1, 0),
        (json.dumps(TALK)[:-9], 1, 1),
    ],
)
def test_damaged_json(tmp_path, text, read, unread):
    result = import_file(save(tmp_path / "a.json", text))
    assert (len(result.trajectories), result.report.unread) == (read, unread)
    assert result.report.entries == read + unread


@pytest.mark.parametrize("whole", [True, False])
def test_packed_files_and_their_torn_ends(tmp_path, whole):
    data = gzip.compress("\n".join([GOOD] * 2_000).encode(), mtime=0)
    (tmp_path / "a.jsonl.gz").write_bytes(data if whole else data[:-60])
    result = import_file(tmp_path / "a.jsonl.gz")
    assert (len(result.trajectories) == 2_000) == whole
    assert whole or ("truncated_file" in codes(result) and len(result.trajectories) > 0)


def test_zstandard(tmp_path):
    with pa.CompressedOutputStream(str(tmp_path / "a.jsonl.zst"), "zstd") as file:
        file.write((GOOD + "\n").encode() * 3)
    assert len(import_tree(tmp_path).trajectories) == 3


def parquet(path, groups=4):
    table = pa.Table.from_pylist([{**ROW, "number": n} for n in range(10)])
    with pq.ParquetWriter(path, table.schema, compression="none") as writer:
        for _ in range(groups):
            writer.write_table(table)
    return path


def test_parquet_without_its_end(tmp_path):
    path = parquet(tmp_path / "a.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"no whole Parquet file .* copy or download it again"):
        import_file(path)
    save(tmp_path / "b.json", ROW)
    assert codes(import_tree(tmp_path)) == {"not_a_recording": 1}


def test_a_damaged_row_group_costs_its_own_rows(tmp_path):
    path = parquet(tmp_path / "a.parquet")
    data = bytearray(path.read_bytes())
    about = pq.ParquetFile(path).metadata.row_group(1)
    for column in range(about.num_columns):
        start = about.column(column).dictionary_page_offset or about.column(column).data_page_offset
        data[start : start + 40] = b"\xff" * 40
    path.write_bytes(bytes(data))
    result = import_file(path)
    assert codes(result)["damaged_row_group"] == result.report.unread == 40 - len(result.trajectories)
    assert [t.id.rpartition("#")[2] for t in result.trajectories][-1] == "39"
    assert len(result.trajectories) == 30


def test_parquet_values_that_json_has_not(tmp_path):
    import datetime
    import decimal

    row = {**ROW, "at": datetime.datetime(2026, 1, 2), "cost": decimal.Decimal("1.50"), "image": b"\x00\x01", "gap": None}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    result = import_file(tmp_path / "a.parquet")
    assert result.trajectories[0].meta["fields"] == {"at": "2026-01-02T00:00:00", "cost": "1.50", "gap": None}
    assert codes(result) == {"bytes_left_out": 1}


def test_text_that_parquet_calls_bytes(tmp_path):
    row = {"question": b"why?", "answer": b"\xff", "meta": b'{"x": 1}'}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    (question,) = import_file(tmp_path / "a.parquet").questions
    assert (question.text, question.answers, question.meta) == ("why?", ("/w==",), {"meta": '{"x": 1}'})


def test_two_thousand_turns(tmp_path):
    said = [TALK[0], *[m for n in range(2_000) for m in (TALK[1], {"role": "user", "content": f"{SEEN} {n}"})], TALK[3]]
    (t,) = import_file(save(tmp_path / "a.jsonl", json.dumps({"messages": said}))).trajectories
    assert len(t.nodes) == 4_002 and t.leaf == 4_001 and t.answer == "42"


def test_empty_messages_and_numbers_as_ids(tmp_path):
    said = [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "tool_calls": [call(7, "f", {})]},
    ]
    said += [{"role": "tool", "tool_call_id": 7, "content": ""}]
    result = import_file(save(tmp_path / "a.json", {"id": 5, "messages": said}))
    (t,) = result.trajectories
    assert [node.kind for node in t.nodes] == ["question", "turn", "turn", "observation"]
    assert codes(result)["empty_message"] == 3 and codes(result)["no_question"] == 1
    assert t.nodes[3].events[0].name == "f"


def test_what_is_no_recording_is_left_soon(tmp_path):
    path = save(tmp_path / "log.jsonl", '{"level": "info"}\n' * 5_000)
    reading = open_import(path)
    with pytest.raises(UserError, match="no recorded trajectory or question"):
        list(reading)


def test_entries_that_could_not_be_read_are_handed_on(tmp_path):
    path = save(tmp_path / "a" / "x.jsonl", f'{GOOD}\n{{"messages": null}}\nnonsense\n')
    met = []
    assert len(list(open_import(path, on_unread=lambda *told: met.append(told)))) == 1
    assert met == [("a/x#1", {"messages": None}, "odd_entry", 1), ("a/x#2", "nonsense", "unreadable_line", 1)]


def test_entries_before_the_first_known_one_are_handed_on_in_order_and_those_of_no_recording_are_not(tmp_path):
    save(tmp_path / "a" / "x.jsonl", f"nonsense\n{GOOD}\nmore")
    save(tmp_path / "a" / "y.json", '{"no": "recording"}')
    met = []
    reading = open_import(tmp_path / "a", on_unread=lambda *told: met.append(told))
    assert len(list(reading)) == 1
    assert (
        met == [("a/x#0", "nonsense", "unreadable_line", 1), ("a/x#2", "more", "unreadable_line", 1)]
        and reading.report.unread == 2
    )


def test_our_own_parquet_that_breaks_off_counts_all_that_is_lost(tmp_path, monkeypatch):
    (t,) = import_file(save(tmp_path / "a.jsonl", GOOD)).trajectories
    write_parquet(tmp_path / "t.parquet", [t.model_copy(update={"id": str(number)}) for number in range(5)])

    def breaks_off(path):
        yield t
        raise UserError("damaged")

    monkeypatch.setattr("sanderling.data.importers.run.read_parquet", breaks_off)
    report = import_file(tmp_path / "t.parquet").report
    assert (report.entries, report.trajectories, report.unread) == (5, 1, 4)


def test_what_cannot_be_read_is_never_left_out_in_silence(tmp_path):
    save(tmp_path / "a" / "x.jsonl", f"nonsense\n{GOOD}")
    save(tmp_path / "a" / "y.json", '{"no": "recording"}')
    with pytest.warns(LeftOutWarning, match="1 entry that could not be read and 1 file without a recording"):
        assert len(list(open_trajectories(tmp_path / "a"))) == 1


def test_reading_twice_gives_the_same(tmp_path):
    save(tmp_path / "a.jsonl", f"{GOOD}\nx\n{GOOD}")
    reading = open_import(tmp_path, tmp_path / "a.jsonl")
    first, report = list(reading), reading.report
    assert first == list(reading) and report == reading.report and len(first) == 2
