"""A run of the data pipeline and what it is made from: what counts as changed, and where everything went."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sanderling.cli.data import app
from sanderling.core.errors import UserError
from sanderling.data.importing import open_trajectories
from sanderling.recipes.data.config import Layout, find_data_recipe
from sanderling.recipes.data.pipeline import run_data
from sanderling.recipes.progress import Report
from sanderling.recipes.tiny.layout import SHIPPED_BASE
from sanderling.runs import files
from sanderling.runs.files import content_hash


def conversation(number: int, right: bool = True, searches: int = 2, question: str = "") -> dict:
    question = question or f"Who of the {number} families keeps the {number * 7 + 1} lamps of the harbour?"
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": question}]
    for search in range(searches):
        call = json.dumps({"name": "search", "arguments": {"query": [f"{question} {search}"]}})
        shown = json.dumps([{"query": "q", "web_page_info_list": [{"title": "t", "url": "u://x/", "snippet": "s"}]}])
        messages += [
            {"role": "assistant", "content": f"<think>\nlook {search}\n</think>\n<tool_call>\n{call}\n</tool_call>"},
            {"role": "user", "content": f"<tool_response>\n{shown}\n</tool_response>"},
        ]
    said = f"Ann {number}" if right else "nobody"
    messages.append({"role": "assistant", "content": f"<think>\ndone\n</think>\n<answer>\n{said}\n</answer>"})
    return {"question": question, "messages": messages, "gt": f"Ann {number}"}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Six right ones, a second attempt, a wrong one, one without an answer, one that is too long, and a broken line."""
    folder = tmp_path / "raw"
    folder.mkdir()
    open_ended = conversation(20)
    open_ended["messages"].pop()
    found = [conversation(n) for n in range(6)]
    found += [conversation(3, searches=3), conversation(21, right=False), open_ended, conversation(22, searches=30)]
    (folder / "some.jsonl").write_text("\n".join(map(json.dumps, found)) + "\n{broken\n")
    return folder


def layout(raw: Path, out: Path, *overrides: str) -> Layout:
    return Layout((raw,), out, find_data_recipe("dr-venus", overrides))


def went(layout: Layout) -> dict:
    run_data(layout, Report(Console(quiet=True)), "test")
    return json.loads((layout.root / "data.json").read_text())


def test_a_change_of_the_same_size_is_another_run(raw: Path, tmp_path: Path) -> None:
    bench, tokenizer = tmp_path / "bench.jsonl", tmp_path / "tokenizer"
    bench.write_text(json.dumps({"question": "Who keeps the lamps of the 4 harbours?", "answer": "Bo"}) + "\n")
    shutil.copytree(SHIPPED_BASE, tokenizer)
    given = layout(raw, tmp_path / "out", f"against=['{bench}']", f"tokenizer='{tokenizer}'")
    before = given.fingerprint()
    for file, old, new in (
        (raw / "some.jsonl", b"Ann 1", b"Eve 1"),
        (bench, b"4 harbours", b"5 harbours"),
        (tokenizer / "tokenizer.json", b'"version": "1.0"', b'"version":  "1.0"'),
    ):
        content, stat = file.read_bytes(), file.stat()
        changed = content.replace(old, new)
        assert changed != content
        file.write_bytes(changed)
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert given.fingerprint() != before, file
        file.write_bytes(content)
    assert given.fingerprint() == before, "times do not count where the content does"


def test_what_changes_no_result_is_the_same_run(raw: Path, tmp_path: Path) -> None:
    before = layout(raw, tmp_path / "out").fingerprint()
    for other in ("title=Other", "workers=2"):
        assert layout(raw, tmp_path / "out", other).fingerprint() == before
    (raw / "README").write_text("not read")
    moved = tmp_path / "elsewhere" / "raw"
    shutil.copytree(raw, moved)
    assert layout(moved, tmp_path / "out").fingerprint() == before
    for other in ("judge.keep=all", "split.seed=1", 'judge.judges=["exact"]', "rows.max_tokens=9"):
        assert layout(raw, tmp_path / "out", other).fingerprint() != before
    shutil.move(raw, tmp_path / "named")
    assert layout(tmp_path / "named", tmp_path / "out").fingerprint() != before, "ids begin with the folder's name"


def test_a_model_counts_by_its_address_and_not_by_how_patiently_it_is_asked(raw: Path, tmp_path: Path) -> None:
    def of(spec: str) -> str:
        return layout(raw, tmp_path / "out", f'judge.judges=["{spec}"]').fingerprint()

    assert of("http://me:secret@host:1/v1?retries=3&timeout=9&context=5#m") == of("http://host:1/v1?context=5#m")
    assert (
        len({of("http://host:1/v1#m"), of("http://host:1/v1#n"), of("http://host:2/v1#m"), of("http://host:1/v1?context=5#m")})
        == 4
    )
    model = tmp_path / "model"
    shutil.copytree(SHIPPED_BASE, model)
    before = of(str(model))
    (model / "config.json").write_text((model / "config.json").read_text() + " ")
    assert of(str(model)) != before


def test_a_large_file_counts_by_size_time_and_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WHOLE", 1 << 20)
    file = tmp_path / "large"
    file.write_bytes(bytes(9 << 20))
    os.utime(file, ns=(1, 1))
    found = {content_hash(file)}
    os.utime(file, ns=(1, 2))
    found.add(content_hash(file))
    for place in (0, (9 << 20) - 1):
        with file.open("r+b") as opened:
            opened.seek(place)
            opened.write(b"x")
        os.utime(file, ns=(1, 2))
        found.add(content_hash(file))
    assert len(found) == 4
    with pytest.raises(UserError, match="Cannot read"):
        content_hash(tmp_path / "none")


def test_a_changed_source_is_told_and_not_taken_for_done(raw: Path, tmp_path: Path) -> None:
    given = layout(raw, tmp_path / "out")
    went(given)
    file = raw / "some.jsonl"
    file.write_bytes(file.read_bytes().replace(b"Ann 1", b"Eve 1"))
    with pytest.raises(UserError, match="other settings, or of other input"):
        went(given)


@pytest.mark.parametrize("name", ["it's", 'a "quoted" one', "back\\slash", "naïve 河"])
def test_any_name_of_a_tokenizer_or_source_will_do(raw: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(SHIPPED_BASE, tmp_path / name)
    shutil.move(raw, tmp_path / f"raw {name}")
    arguments = ["run", str(tmp_path / f"raw {name}"), "--out", str(tmp_path / "out"), "--tokenizer", str(tmp_path / name)]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "out" / "data.json").read_text())
    assert told["settings"]["tokenizer"] == str(tmp_path / name) and told["steps"][-1]["went_out"] > 0


def test_everything_that_is_left_out_is_named_with_its_step_and_reason(raw: Path, tmp_path: Path) -> None:
    bench = tmp_path / "bench.jsonl"
    bench.write_text(json.dumps({"question": conversation(4)["question"], "answer": "Ann 4"}) + "\n")
    overrides = (f"against=['{bench}']", f"tokenizer='{SHIPPED_BASE}'", "rows.max_tokens=2000", "split.shares=train=1")
    given = layout(raw, tmp_path / "out", *overrides, "resample.thresholds=[3]", "resample.weights=[1,1]")
    told = went(given)
    lines = [json.loads(line) for line in (given.root / "left-out.jsonl").read_text().splitlines()]
    assert [(one["step"], one["id"], one["reason"]) for one in lines] == [
        ("import", "raw/some#10", "unreadable_line"),
        ("clean", "raw/some#8", "no_answer"),
        ("judge", "raw/some#7", "incorrect"),
        ("dedupe", "raw/some#6", "same_question"),
        ("dedupe", "raw/some#4", "exact"),
        ("rows", "raw/some#9", "too_long"),
    ]
    assert told["left_out"] == 6 and "raw/some#3 stays" in lines[3]["detail"] and "bench" in lines[4]["detail"]
    lost = {step["name"]: step["came_in"] - step["went_out"] for step in told["steps"]}
    assert Counter(one["step"] for one in lines) == {name: count for name, count in lost.items() if count}
    for one in lines:
        assert one["id"].rpartition("#")[0] in (given.root / one["file"]).read_text(), "the file named holds it"


def test_a_file_in_a_folder_that_cannot_be_read_at_all_is_named(raw: Path, tmp_path: Path) -> None:
    (raw / "cut.parquet").write_bytes(b"PAR1 and no end")
    (raw / "empty.json").write_text("")
    given = layout(raw, tmp_path / "out")
    told = went(given)
    assert "2 files left that are no recordings" in told["steps"][0]["told"]
    lines = [json.loads(line) for line in (given.root / "left-out.jsonl").read_text().splitlines()]
    found = {one["id"]: one["detail"] for one in lines if one["reason"] == "not_a_recording"}
    assert set(found) == {"cut.parquet", "empty.json"} and "no whole Parquet file" in found["cut.parquet"]


def test_a_bucket_that_is_not_wanted_is_named_too(raw: Path, tmp_path: Path) -> None:
    given = layout(raw, tmp_path / "out", "split.shares=train=1", "resample.thresholds=[10]", "resample.weights=[2,0]")
    told = went(given)
    last = json.loads((given.root / "left-out.jsonl").read_text().splitlines()[-1])
    assert (last["step"], last["id"], last["reason"], last["detail"]) == ("resample", "raw/some#9", "weight_0", "31 turns")
    assert told["steps"][5]["came_in"] == 7 and told["steps"][5]["went_out"] == 12


def test_names_that_are_no_utf_8_are_names(raw: Path, tmp_path: Path) -> None:
    """Two files whose names differ in such bytes alone get ids of their own."""
    odd, out = tmp_path / os.fsdecode(b"raw\xff"), tmp_path / os.fsdecode(b"out\xfe")
    tokenizer = tmp_path / os.fsdecode(b"tokenizer\xfd")
    shutil.move(raw, odd)
    shutil.copytree(SHIPPED_BASE, tokenizer)
    for name in (b"a\xfe.jsonl", b"a\xff.jsonl"):
        (odd / os.fsdecode(name)).write_text(json.dumps(conversation(name[1])) + "\n")
    arguments = ["run", os.fspath(odd), "--out", os.fspath(out), "--tokenizer", os.fspath(tokenizer)]
    for told in ("report is", "done before"):
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0 and told in done.output
    ids = {one.id for one in open_trajectories(out / "1-imported.jsonl")}
    assert {"raw\ufffd/a\ufffd#0", "raw\ufffd/a\ufffd~2#0"} < ids
    assert json.loads((out / "data.json").read_text())["settings"]["tokenizer"] == os.fspath(tokenizer)
    commands = (
        ["stats", odd, "--json", tmp_path / "s.json", "--out", tmp_path / "s.html"],
        ["clean", odd, "--out", tmp_path / "c.jsonl"],
        ["dedupe", odd, "--out", tmp_path / "d.parquet", "--report", tmp_path / "d.json"],
        ["contamination", odd, "--against", odd / os.fsdecode(b"a\xff.jsonl"), "--report", tmp_path / "e.json"],
    )
    with pytest.warns(UserWarning, match="left out are 1 entry"):
        for command in commands:
            assert CliRunner().invoke(app, [os.fspath(one) for one in command], catch_exceptions=False).exit_code == 0
    assert json.loads((tmp_path / "s.json").read_text())[0]["name"] == odd.name
    assert [one["benchmark"] for one in json.loads((tmp_path / "e.json").read_text())] == [os.fsdecode(b"a\xff#0")]


def test_half_a_character_in_a_turn_is_no_damaged_marker(raw: Path, tmp_path: Path) -> None:
    """A model can write one in an escape; reports quote it as an example."""
    broken = conversation(7)
    broken["messages"][2]["content"] = "said \ud83d before. " + broken["messages"][2]["content"]
    (raw / "half.jsonl").write_text(json.dumps(broken) + "\n")
    given = layout(raw, tmp_path / "out")
    assert went(given)["steps"] == went(given)["steps"]
