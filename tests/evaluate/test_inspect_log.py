"""A run as a log of Inspect: messages, samples, verdicts, the head, and the file that is written."""

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from inspect_runs import JUDGE, answering, calling, episode, judged, make_run, node, plain, question_node, seen, system
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.core.record import NodeKind, Trajectory
from sanderling.core.types import Ending, Role, ToolStatus
from sanderling.evaluate.inspect_log import export_run, messages_of, sample_of, scores_of
from sanderling.evaluate.result import JudgedAttempt
from sanderling.judge.verdict import Code


def test_an_observation_answers_its_turns_first_call() -> None:
    turn = calling(1, ("search", {"query": ["a"]}), ("visit", {"url": ["u"]}))
    results = seen(2, ("found", ToolStatus.OK), ("no such page", ToolStatus.NOT_FOUND))
    talk = node(NodeKind.TURN, "I only talk.", 3, Role.ASSISTANT)
    told = messages_of(episode([system(), question_node(), turn, results, talk, seen(4, ("text", ToolStatus.OK))]))
    assert told[3] == {"role": "tool", "content": results.text, "tool_call_id": "2-0", "function": "search"}
    assert told[4]["content"] == [{"type": "text", "text": "I only talk."}]
    assert set(told[5]) == {"role", "content"}, "nobody called"


def sample(trajectory: Trajectory, one: JudgedAttempt | None = None, **more: Any) -> dict[str, Any]:
    scores = scores_of(trajectory, one or judged(trajectory), JUDGE, texts=more.get("texts", True))
    return sample_of(trajectory, scores, **more)


def test_each_judge_has_its_score() -> None:
    one = judged(plain(), reason="yes", second=False, second_reason="no")
    assert scores_of(plain(), one, JUDGE, "second") == {
        JUDGE: {"value": "C", "answer": "Vumhum", "explanation": "yes", "metadata": {"code": "judged"}},
        "second": {"value": "I", "answer": "Vumhum", "explanation": "no"},
    }
    assert scores_of(plain(), judged(plain()), JUDGE, "second")["second"]["reason"] == "not_judged"
    assert scores_of(plain(), None, JUDGE)[JUDGE]["reason"] == "not_judged"
    by_hand = judged(plain(), judge="by hand", code=Code.BY_HAND, correct=False, before={"correct": True}, score=None)
    assert scores_of(plain(), by_hand, JUDGE)[JUDGE]["metadata"] == {"code": "by_hand", "by": "by hand"}


def test_tokens_are_told_where_all_were_counted() -> None:
    counts = {"prompt_tokens": 100, "prefilled_tokens": 30, "sampled_tokens": 7}
    counted = [system(), question_node(), answering(1, rejected=True, **counts), answering(1, **counts)]
    usage = {"input_tokens": 200, "output_tokens": 14, "total_tokens": 214}
    found = sample(episode(counted))
    assert found["model_usage"] == {"sanderling/made-up": usage} and found["metadata"]["rejected_turns"] == 1
    unknown = [system(), question_node(), answering(1, prompt_tokens=100), answering(1, **counts)]
    assert sample(episode(unknown))["model_usage"] == {}, "a sum with a hole is no sum"


def test_an_archive_holds_samples_summaries_and_head(tmp_path: Path) -> None:
    stored = [episode(ending=Ending.POLICY_OUTAGE), plain(attempt=1), plain(answer="the \ud800 town")]
    make_run(tmp_path / "run", stored, 2).append(plain(attempt=2))
    path = tmp_path / "new" / "a.eval"
    assert export_run(tmp_path / "run", path, texts=True) == 2
    with ZipFile(path) as archive:
        found = {name: json.loads(archive.read(name)) for name in archive.namelist()}
    assert sorted(found) == ["header.json", "samples/q/1_epoch_1.json", "samples/q/1_epoch_2.json", "summaries.json"]
    assert [(one["id"], one["turn_count"]) for one in found["summaries.json"]] == [("q/1", 2)] * 2
    assert found["samples/q/1_epoch_1.json"]["scores"]["exact"]["answer"] == "the ? town", "the last record counts"
    assert [one.name for one in path.parent.iterdir()] == ["a.eval"]


@pytest.mark.parametrize(("more", "shown"), [([], False), (["--show-texts"], True), (["--no-texts"], False)])
def test_private_texts_are_left_out_unless_asked_for(tmp_path: Path, more: list[str], shown: bool) -> None:
    make_run(tmp_path / "run", [plain()], 1, private=True)
    done = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--out", str(tmp_path / "a.eval"), *more])
    assert done.exit_code == 0 and "1 attempts" in done.output and ("left out" in done.output) is not shown
    with ZipFile(tmp_path / "a.eval") as archive:
        inside = "".join(archive.read(name).decode() for name in archive.namelist())
    assert ("Which town" in inside) == ("Vumhum" in inside) == ("[1] Town" in inside) == shown


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ends in"):
        export_run(tmp_path, tmp_path / "a.zip", texts=True)
    with pytest.raises(UserError, match="no run of an evaluation"):
        export_run(tmp_path, tmp_path / "a.eval", texts=True)
    make_run(tmp_path / "run", [plain()], 1).result_file.unlink()
    with pytest.raises(UserError, match="run the evaluation"):
        export_run(tmp_path / "run", tmp_path / "a.eval", texts=True)
    assert not (tmp_path / "a.eval").exists()
