"""Cleaning a file: nothing is lost, any number of processes writes the same, and a failure leaves what stood there."""

import io
import json
from pathlib import Path

import pytest
from cleaning_conversations import ANY
from cleaning_makers import answer, call_text, results, search, seen, talk
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from sanderling.cli.data import app
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.record import Trajectory
from sanderling.data.cleaning import RECIPES, get_recipe
from sanderling.data.cleaning.explain import explain
from sanderling.data.cleaning.files import clean_file
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.parquet import read_parquet

TARGET = get_profile("dr-venus-4b")
GOOD = talk(search("a"), seen(results("a")), call_text(("PythonInterpreter", {})), "1", answer(), id="good")
BAD = talk(search("a"), seen(results("a")), "I give up. [red]\x1b[31m", id="bad")


def many(count: int) -> list[Trajectory]:
    return [one.model_copy(update={"id": f"{one.id}-{number}"}) for number in range(count) for one in (GOOD, BAD)]


def store(path: Path, found: list[Trajectory]) -> Path:
    for one in found:
        TrajectoryStore(path).append(one)
    return path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return result.output


def test_every_trajectory_stands_in_one_of_the_two_files(tmp_path: Path) -> None:
    done = clean_file(iter([GOOD, BAD]), tmp_path / "kept.jsonl", get_recipe("dr-venus"), TARGET, origin=Path("raw.jsonl"))
    (kept,) = TrajectoryStore(done.out)
    (dropped,) = TrajectoryStore(done.dropped)
    assert kept.id == "good"
    assert dropped.meta.pop("dropped") == {"step": "validate", "reason": "no_answer", "detail": BAD.nodes[-1].text}
    assert dropped == BAD
    told = json.loads(done.report_file.read_text())
    assert (told["came_in"], told["kept"], told["dropped"], told["reasons"]) == (2, 1, 1, {"no_answer": 1})
    assert (told["origin"], told["profile"], told["recipe"]["repeats"]["with_goal"]) == ("raw.jsonl", "dr-venus-4b", False)
    pruned = next(step for step in told["steps"] if step["step"] == "prune")["notes"]["calls_disallowed"]
    assert pruned["number"] == pruned["trajectories"] == 1
    assert pruned["example"]["trajectory"] == "good"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.clean.json", "kept.dropped.jsonl", "kept.jsonl"]


def test_an_earlier_runs_dropped_ones_do_not_stay(tmp_path: Path) -> None:
    for found in ([GOOD, BAD], [GOOD]):
        done = clean_file(iter(found), tmp_path / "kept.jsonl", get_recipe("dr-venus"), TARGET, origin=Path("raw"))
    assert not done.dropped.exists()


def test_several_processes_write_the_same(tmp_path: Path) -> None:
    advanced: list[int] = []
    for workers in (1, 2):
        out = tmp_path / f"{workers}" / "kept.jsonl"
        clean_file(
            iter(many(20)), out, get_recipe("dr-venus"), TARGET, origin=Path("raw"), workers=workers, advance=advanced.append
        )
    for name in ("kept.jsonl", "kept.dropped.jsonl", "kept.clean.json"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    assert sum(advanced) == 2 * 40


def test_the_kept_ones_come_last(tmp_path: Path) -> None:
    def in_the_way():
        yield from (GOOD, BAD)
        (tmp_path / "kept.clean.json").mkdir()

    with pytest.raises(UserError, match=r"Cannot write .*kept.clean.json"):
        clean_file(in_the_way(), tmp_path / "kept.jsonl", get_recipe("dr-venus"), TARGET, origin=Path("raw"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.clean.json", "kept.dropped.jsonl"]


def test_a_trajectory_that_no_line_can_hold_is_named(tmp_path: Path) -> None:
    odd = GOOD.model_copy(update={"meta": {"x": (1,)}})
    with pytest.raises(UserError, match="The trajectory 'good' cannot be written"):
        clean_file(iter([odd]), tmp_path / "kept.jsonl", get_recipe("dr-venus"), TARGET, origin=Path("raw"))


def test_parquet(tmp_path: Path) -> None:
    done = clean_file(iter([GOOD, BAD]), tmp_path / "kept.parquet", get_recipe("dr-venus"), TARGET, origin=Path("raw"))
    assert [one.id for one in read_parquet(done.out)] == ["good"]
    assert done.dropped.name == "kept.dropped.jsonl"


@pytest.mark.parametrize("name", ["kept.jsonl", "kept.parquet"])
def test_a_failure_leaves_what_stood_there(tmp_path: Path, name: str) -> None:
    def broken():
        yield GOOD
        raise RuntimeError("the source broke")

    done = clean_file(iter([GOOD, BAD]), tmp_path / name, get_recipe("dr-venus"), TARGET, origin=Path("raw"))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RuntimeError):
        clean_file(broken(), done.out, get_recipe("dr-venus"), TARGET, origin=Path("raw"))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


class TestExplain:
    def shown(self, found: Trajectory) -> str:
        console = Console(width=100, record=True, file=io.StringIO())
        console.print(explain(found, get_recipe("dr-venus"), TARGET))
        return console.export_text()

    def test_each_step_says_what_it_did(self) -> None:
        text = self.shown(GOOD)
        assert "prune: changed" in text
        assert "1 calls_disallowed, 1 turns_removed" in text
        assert '- {"name": "PythonInterpreter", "arguments": {}}' in text
        assert "repeats: nothing to do" in text
        assert "kept: 5 messages, 2 turns" in text

    def test_a_drop_names_its_reason_and_no_text_is_taken_for_markup(self) -> None:
        text = self.shown(BAD)
        assert "validate: dropped" in text
        assert "no_answer: I give up. [red]␛[31m" in text

    @given(ANY, st.sampled_from(list(RECIPES)))
    def test_any_trajectory_can_be_explained(self, found: Trajectory, name: str) -> None:
        told = io.StringIO()
        Console(width=100, file=told).print(explain(found, RECIPES[name], TARGET))
        assert ("dropped by" in told.getvalue()) != ("kept:" in told.getvalue())

    def test_a_trajectory_without_anything(self) -> None:
        assert "dropped by validate" in self.shown(talk().model_copy(update={"nodes": (), "leaf": None}))


class TestCommand:
    def test_from_a_store_to_a_report(self, tmp_path: Path) -> None:
        raw = store(tmp_path / "raw.jsonl", [GOOD, BAD])
        out = run("clean", raw, "--out", tmp_path / "kept.jsonl", "--examples")
        assert "2 came in, 1 kept" in out
        assert "dropped 1 no_answer" in out
        assert [one.id for one in TrajectoryStore(tmp_path / "kept.jsonl")] == ["good"]

    def test_settings_profiles_and_recipes(self, tmp_path: Path) -> None:
        raw, kept = store(tmp_path / "raw.jsonl", [GOOD]), tmp_path / "kept.jsonl"
        run(
            "clean",
            raw,
            "--out",
            kept,
            "--set",
            'prune.tools=["search", "PythonInterpreter"]',
            "--profile",
            "agentcpm-explore-4b",
        )
        (one,) = TrajectoryStore(kept)
        assert (one.profile, len(list(one.turns()))) == ("agentcpm-explore-4b", 3)
        recipe = tmp_path / "mine.toml"
        recipe.write_text('steps = ["min_calls"]\n[min_calls]\nleast = 3\n')
        assert "dropped 1 too_few_calls" in run("clean", raw, "--out", kept, "--recipe", recipe)

    def test_what_an_earlier_run_dropped_can_be_cleaned_again_and_is_never_written_over(self, tmp_path: Path) -> None:
        dropped = store(tmp_path / "kept.dropped.jsonl", [GOOD])
        with pytest.raises(UserError, match=r"kept.dropped.jsonl is read and would be written"):
            run("clean", dropped, "--out", tmp_path / "kept.jsonl")
        assert [one.id for one in TrajectoryStore(dropped)] == ["good"]

    def test_turns_without_reasoning_are_told_with_what_to_do(self, tmp_path: Path) -> None:
        silent = '<tool_call>{"name": "search", "arguments": {"query": ["a"]}}</tool_call>'
        raw = store(
            tmp_path / "raw.jsonl", [talk(silent, seen("x"), answer()), talk(search("a"), seen("x"), "<answer>b</answer>")]
        )
        out = run("clean", raw, "--out", tmp_path / "kept.jsonl")
        assert "2 were dropped because their turns show no reasoning" in out and "--recipe minimal" in out
        assert "2 kept" in run("clean", raw, "--out", tmp_path / "kept.jsonl", "--recipe", "minimal")

    def test_explain(self, tmp_path: Path) -> None:
        raw = store(tmp_path / "raw.jsonl", [GOOD, BAD])
        assert "prune: changed" in run("clean", raw, "--explain", "good")
        assert [path.name for path in tmp_path.iterdir()] == ["raw.jsonl"]

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["--out", "RAW"], "is read and would be written"),
            (["--out", "FOLDER"], "is a folder"),
            ([], "Name the file"),
            (["--explain", "goood"], "did you mean 'good'"),
            (["--out", "K", "--recipe", "dr-vens"], "did you mean 'dr-venus'"),
            (["--out", "K", "--set", "repeats.goal=true"], "did you mean repeats.with_goal"),
            (["--out", "K", "--set", "min_calls.least=-1"], "min_calls.least"),
            (["--out", "K", "--set", 'steps=["polish"]'], "steps"),
            (["--out", "K", "--recipe", "none.toml"], "Cannot read none.toml"),
        ],
    )
    def test_what_cannot_be_done_is_one_sentence(self, tmp_path: Path, arguments: list[str], told: str) -> None:
        raw = store(tmp_path / "raw.jsonl", [GOOD])
        places = {"RAW": str(raw), "K": str(tmp_path / "kept.jsonl"), "FOLDER": str(tmp_path)}
        with pytest.raises(UserError, match=told):
            run("clean", raw, *(places.get(one, one) for one in arguments))
