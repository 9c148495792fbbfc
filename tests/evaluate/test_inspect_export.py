"""A run's directory into a log file: which records, which texts, and what a failure leaves. Without Inspect's package."""

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from inspect_runs import JUDGE, PlainTypes, episode, make_run, plain

from sanderling.core.errors import UserError
from sanderling.core.types import Ending
from sanderling.evaluate.inspect_log.archive import EvalArchive
from sanderling.evaluate.inspect_log.exporting import export_run
from sanderling.evaluate.judged import JudgedAttempt, JudgedBy, write_judged
from sanderling.runs.jsonl import JsonlLog


def members(path: Path) -> dict[str, Any]:
    with ZipFile(path) as archive:
        assert len(archive.namelist()) == len(set(archive.namelist()))
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


def test_an_archive_holds_samples_summaries_and_head(tmp_path: Path) -> None:
    make_run(tmp_path / "run", [plain(attempt=0), plain(attempt=1)], 2)
    made = export_run(tmp_path / "run", tmp_path / "new" / "a.eval", PlainTypes())
    assert (made.samples, made.missing, made.texts) == (2, 0, True)
    found = members(tmp_path / "new" / "a.eval")
    assert list(found) == [
        "samples/q/1_epoch_1.json",
        "samples/q/1_epoch_2.json",
        "summaries.json",
        "reductions.json",
        "header.json",
    ]
    assert found["summaries.json"] == [{"id": "q/1", "epoch": 1}, {"id": "q/1", "epoch": 2}]
    assert found["header.json"]["version"] == 2 and "samples" not in found["header.json"]
    uuids = {found[f"samples/q/1_epoch_{epoch}.json"]["uuid"] for epoch in (1, 2)}
    assert len(uuids) == 2
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.eval"]


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    make_run(tmp_path / "run", [plain()], 1)
    for name in ("a.eval", "b.eval"):
        export_run(tmp_path / "run", tmp_path / name, PlainTypes())
    assert (tmp_path / "a.eval").read_bytes() == (tmp_path / "b.eval").read_bytes()


def test_of_an_attempt_made_twice_the_last_record_counts(tmp_path: Path) -> None:
    stored = [episode(ending=Ending.POLICY_OUTAGE), plain(attempt=1), plain(attempt=0, answer="the town")]
    make_run(tmp_path / "run", stored, 2)
    made = export_run(tmp_path / "run", tmp_path / "a.eval", PlainTypes())
    found = members(tmp_path / "a.eval")
    assert made.samples == 2 and found["samples/q/1_epoch_1.json"]["scores"]["exact"]["answer"] == "the town"


def test_verdicts_are_those_of_the_runs_list(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", [plain(attempt=0), plain(attempt=1)], 2)
    about = {"question": "q/1", "attempt": 1, "id": "q/1-1", "ending": Ending.ANSWERED, "judge": JUDGE}
    write_judged(directory.judged_file, [JudgedAttempt(**about, correct=False, reason="no")], JudgedBy("one"))
    export_run(tmp_path / "run", tmp_path / "a.eval", PlainTypes())
    found = members(tmp_path / "a.eval")
    scores = [found[f"samples/q/1_epoch_{epoch}.json"]["scores"][JUDGE] for epoch in (1, 2)]
    assert [score["value"] for score in scores] == ["C", "I"], "what the list does not have, the record says"


def test_attempts_that_the_result_does_not_count_are_left_out_and_missing_ones_told(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", [plain(attempt=0), plain(attempt=1)], 2)
    directory.store.append(plain(attempt=2))
    directory.store.append(plain(id="stranger"))
    assert export_run(tmp_path / "run", tmp_path / "a.eval", PlainTypes()).samples == 2
    directory.store.path.unlink()
    directory.store.append(plain(attempt=1))
    made = export_run(tmp_path / "run", tmp_path / "a.eval", PlainTypes())
    assert (made.samples, made.missing) == (1, 1)


@pytest.mark.parametrize(("texts", "shown"), [(None, False), (True, True), (False, False)])
def test_private_texts_are_left_out_unless_asked_for(tmp_path: Path, texts: bool | None, shown: bool) -> None:
    make_run(tmp_path / "run", [plain()], 1, private=True)
    for name in ("a.eval", "a.json"):
        assert export_run(tmp_path / "run", tmp_path / name, PlainTypes(), texts=texts).texts == shown
    inside = json.dumps(members(tmp_path / "a.eval")) + (tmp_path / "a.json").read_text(encoding="utf-8")
    assert ("Which town" in inside) == ("Vumhum" in inside) == ("[1] Town" in inside) == shown


def test_public_texts_can_be_left_out(tmp_path: Path) -> None:
    make_run(tmp_path / "run", [plain()], 1)
    export_run(tmp_path / "run", tmp_path / "a.eval", PlainTypes(), texts=False)
    assert "Vumhum" not in json.dumps(members(tmp_path / "a.eval"))


def test_what_the_guard_wrote_down_is_counted_once(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", [plain(attempt=0), plain(attempt=1)], 2)
    line = {"question": "q/1", "attempt": 1, "tool": "visit", "kind": "address", "url": "u", "rule": "r", "sha256": ""}
    for _ in range(2):
        JsonlLog(directory.guard_file).append(line)
    export_run(tmp_path / "run", tmp_path / "a.eval", PlainTypes())
    found = members(tmp_path / "a.eval")
    assert found["samples/q/1_epoch_2.json"]["metadata"]["guard"] == {"address": 1}
    assert "guard" not in found["samples/q/1_epoch_1.json"]["metadata"]
    JsonlLog(directory.guard_file).append({"question": "q/1"})
    with pytest.raises(UserError, match="no log of a guard"):
        export_run(tmp_path / "run", tmp_path / "b.eval", PlainTypes())


def test_tokens_are_summed_only_where_all_are_known(tmp_path: Path) -> None:
    counts = {"prompt_tokens": 10, "prefilled_tokens": 10, "sampled_tokens": 5}

    def counted(attempt: int, **given: int) -> Any:
        made = plain(attempt=attempt)
        nodes = [node.model_copy(update=given) if node.role == "assistant" else node for node in made.nodes]
        return made.model_copy(update={"nodes": tuple(nodes)})

    make_run(tmp_path / "all", [counted(0, **counts), counted(1, **counts), episode(attempt=2, ending=Ending.POLICY_OUTAGE)], 3)
    export_run(tmp_path / "all", tmp_path / "all.eval", PlainTypes())
    (usage,) = members(tmp_path / "all.eval")["header.json"]["stats"]["model_usage"].values()
    assert usage == {"input_tokens": 40, "input_tokens_cache_read": 0, "output_tokens": 20, "total_tokens": 60}
    make_run(tmp_path / "some", [counted(0, **counts), plain(attempt=1)], 2)
    export_run(tmp_path / "some", tmp_path / "some.eval", PlainTypes())
    assert members(tmp_path / "some.eval")["header.json"]["stats"]["model_usage"] == {}


@pytest.mark.parametrize(("name", "listed"), [("a.eval", True), ("a.json", False), ("2026-01-31T12-00-00_a.json", True)])
def test_whether_the_viewer_will_list_it_is_told(tmp_path: Path, name: str, listed: bool) -> None:
    make_run(tmp_path / "run", [plain()], 1)
    assert export_run(tmp_path / "run", tmp_path / name, PlainTypes()).listed == listed


def test_two_samples_of_one_name_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    path.write_text("as it was", encoding="utf-8")
    with pytest.raises(ValueError, match="two samples"), EvalArchive(path) as archive:
        archive.add("q", 1, b"{}", b"{}")
        archive.add("q", 1, b"{}", b"{}")
    assert path.read_text(encoding="utf-8") == "as it was"
    assert [one.name for one in tmp_path.iterdir()] == ["a.eval"]


def test_an_archive_without_samples_is_one(tmp_path: Path) -> None:
    with EvalArchive(tmp_path / "a.eval") as archive:
        archive.finish(b"{}", b"[]")
    assert members(tmp_path / "a.eval")["summaries.json"] == []


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    del tmp_path
    with pytest.raises(PermissionError):
        EvalArchive(Path("/dev/null"))


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ends in"):
        export_run(tmp_path, tmp_path / "a.zip", PlainTypes())
    with pytest.raises(UserError, match="no run of an evaluation"):
        export_run(tmp_path, tmp_path / "a.eval", PlainTypes())
    directory = make_run(tmp_path / "run", [plain()], 1)
    directory.result_file.unlink()
    with pytest.raises(UserError, match="run the evaluation"):
        export_run(tmp_path / "run", tmp_path / "a.eval", PlainTypes())
    assert not (tmp_path / "a.eval").exists()
