"""ATIF: what sanderling exports is what Harbor's format asks for; the rules are those of its models (harbor 0.26, ATIF 1.7)."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai_server import openai_server
from test_sessions import FIRST, SECOND, researcher, run
from typer.testing import CliRunner

import sanderling
from sanderling.agent.session import find_session
from sanderling.cli.main import build_app
from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.runs.jsonl import TrajectoryStore

TINY = Path(sanderling.__file__).parent / "recipes" / "assets" / "tiny-sft"


def follows_the_rules(document: dict[str, Any]) -> bool:
    """Steps are numbered from 1; only an agent's have calls, reasoning and metrics; results name calls of their own step."""
    assert document["schema_version"] == "ATIF-v1.7" and {"name", "version"} <= set(document["agent"])
    for number, step in enumerate(document["steps"], start=1):
        assert step["step_id"] == number and step["source"] in ("system", "user", "agent") and isinstance(step["message"], str)
        if step["source"] != "agent":
            assert not {"model_name", "reasoning_content", "tool_calls", "metrics"} & set(step)
        calls = [call["tool_call_id"] for call in step.get("tool_calls", [])]
        assert len(set(calls)) == len(calls)
        for result in step.get("observation", {"results": []})["results"]:
            assert result.get("source_call_id", None) in (None, *calls) and isinstance(result["content"], str)
    return document["final_metrics"]["total_steps"] == len(document["steps"])


def test_a_conversation_is_one_document(notes: Path, tmp_path: Path) -> None:
    with openai_server(researcher) as (url, _, _):
        run("ask", FIRST, "--docs", notes, "--model", f"{url}#m")
        run("ask", "--continue", SECOND)
    run("export", "last", "--to", "atif", "--out", tmp_path / "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    assert follows_the_rules(document) and document["session_id"] == find_session("last").id
    steps = document["steps"]
    assert [step["message"] for step in steps if step["source"] == "user"] == [FIRST, SECOND]
    assert [step.get("is_copied_context", False) for step in steps].count(True) == 5
    search, visit = steps[-2]["tool_calls"]
    assert (search["function_name"], visit["arguments"]) == ("search", {"url": ["local://notes/eden.md"]})
    assert "Eden lies forty miles" in steps[-2]["observation"]["results"][1]["content"]
    assert steps[-1]["message"] == document["extra"]["answer"] == "Tom Vell built it [2]. Eden was founded in 1820 [3]."
    assert document["final_metrics"]["total_completion_tokens"] == 25


def test_tokens_are_those_that_were_sampled(notes: Path, tmp_path: Path) -> None:
    words = ["ask", FIRST, "--docs", str(notes), "--model", str(TINY), "--out", str(tmp_path / "a.jsonl")]
    assert CliRunner().invoke(build_app("ask"), words).exit_code in (0, 1)  # whether it knows an answer is not the matter
    run("export", tmp_path / "a.jsonl", "--to", "atif", "--out", tmp_path / "a.json")
    document, (record,) = json.loads((tmp_path / "a.json").read_text()), find_session("last").records()
    assert follows_the_rules(document)
    ids: list[int] = []
    for step in document["steps"]:
        ids += step["extra"].get("token_ids", []) + step.get("metrics", {}).get("completion_token_ids", [])
        ids += step["extra"].get("observation_token_ids", [])
    assert ids == record.token_ids()
    assert document["steps"][2]["metrics"]["logprobs"] == list(next(record.turns()).logprobs or ())


def test_a_file_of_several_becomes_a_folder(notes: Path, tmp_path: Path) -> None:
    with openai_server(researcher) as (url, _, _):
        for question in (FIRST, "Who founded Eden?"):
            run("ask", question, "--docs", notes, "--model", f"{url}#m", "--out", tmp_path / "a.jsonl")
    run("export", tmp_path / "a.jsonl", "--to", "atif", "--out", tmp_path / "all")
    found = [json.loads(path.read_text()) for path in sorted((tmp_path / "all").iterdir())]
    assert [one["extra"]["question"]["text"] for one in found] == [FIRST, "Who founded Eden?"]
    assert all(map(follows_the_rules, found))
    with pytest.raises(UserError, match="is no session: a capsule is made of one"):
        run("export", tmp_path / "a.jsonl", "--to", "capsule")


def test_a_record_without_a_word_has_its_question(tmp_path: Path) -> None:
    about = {"id": "a", "profile": "tiny", "model": "m", "world": "w", "seeds": {}, "seconds": 0.0, "leaf": None}
    record = about | {"question": {"id": "q", "text": FIRST}, "nodes": [], "ending": "policy_outage", "answer": None}
    TrajectoryStore(tmp_path / "a.jsonl").append(Trajectory.model_validate(record))
    run("export", tmp_path / "a.jsonl", "--to", "atif", "--out", tmp_path / "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    assert follows_the_rules(document) and [step["message"] for step in document["steps"]] == [FIRST]
