"""Cleaning as a whole: what came in is what was kept and dropped, twice is once, and no trajectory or file breaks it."""

import io
import itertools
import json
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from cleaning_makers import ANY, answer, call_text, chain, clean, message, results, search, seen, step, talk
from hypothesis import given
from hypothesis import strategies as st
from recordings import ROOT, needs_recordings
from rich.console import Console
from typer.testing import CliRunner

from sanderling.cli.data import app
from sanderling.core.errors import UserError
from sanderling.core.grammar import check_final, check_turn
from sanderling.core.observations import read_observation
from sanderling.core.profiles import get_profile
from sanderling.core.record import NodeKind, Trajectory, decode_record, decode_trajectory, encode_trajectory
from sanderling.core.types import Ending
from sanderling.data.cleaning import RECIPES, STEPS, Cleaner, CleaningRecipe, CleanReport, Reason, get_recipe
from sanderling.data.cleaning.explain import explain
from sanderling.data.cleaning.files import CleanedFile, clean_file
from sanderling.data.importing import open_trajectories
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.parquet import read_parquet

DR_VENUS = get_profile("dr-venus-4b")
RECIPE = st.sampled_from(list(RECIPES))


@given(st.lists(ANY, max_size=4), RECIPE)
def test_what_came_in_is_what_was_kept_and_what_was_dropped(found: list[Trajectory], name: str) -> None:
    kept, dropped, report = clean(found, RECIPES[name])
    assert report.came_in == len(found) == len(kept) + len(dropped)
    assert (report.kept, report.dropped, sum(report.reasons.values())) == (len(kept), len(dropped), len(dropped))
    assert Counter(one.id for one in found) == Counter([one.id for one in kept] + [one.before.id for one in dropped])
    assert [step.came_in for step in report.steps[1:]] == [step.went_out for step in report.steps[:-1]]
    assert report.steps[-1].went_out == len(kept)
    json.dumps(report.model_dump(mode="json")).encode()


@given(ANY, RECIPE)
def test_twice_is_once(found: Trajectory, name: str) -> None:
    kept, _, _ = clean([found], RECIPES[name])
    again, dropped, report = clean(kept, RECIPES[name])
    assert again == kept
    assert dropped == []
    assert report.changed == 0


@given(ANY, st.sampled_from(list(STEPS)))
def test_every_step_alone_is_idempotent(found: Trajectory, name: str) -> None:
    once = step(name, found).trajectory
    if once is not None:
        assert step(name, once).trajectory == once


@given(ANY, RECIPE)
def test_what_is_kept_is_a_whole_record(found: Trajectory, name: str) -> None:
    for one in clean([found], RECIPES[name])[0]:
        assert Trajectory.model_validate(one.model_dump()) == one
        assert decode_trajectory(decode_record(encode_trajectory(one))) == one


@given(ANY)
def test_cleaning_changes_no_record_it_was_given(found: Trajectory) -> None:
    before = found.model_dump()
    clean([found], RECIPES["dr-venus"])
    assert found.model_dump() == before


def test_the_registry_is_complete() -> None:
    assert set(itertools.chain(*(recipe.steps for recipe in RECIPES.values()))) == set(STEPS)
    settings = set(CleaningRecipe.model_fields) - {"steps", "profile"}
    assert settings <= set(STEPS)


def test_a_recipe_names_each_step_once() -> None:
    with pytest.raises(ValueError, match="named twice"):
        CleaningRecipe(steps=("names", "names"))


def test_a_step_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def short(draft, *, most=1):\n    draft.rounds = draft.rounds[-most:]\n    draft.note('turns_removed')\n")
    recipe = CleaningRecipe(steps=(f"{file}:short", "validate"))
    (kept,), _, report = clean([talk(search("a"), seen("x"), answer())], recipe)
    assert [node.text for node in kept.turns()] == [answer()] and report.steps[0].notes["turns_removed"].number == 1
    with pytest.raises(UserError, match="defines no 'long'"):
        Cleaner(CleaningRecipe(steps=(f"{file}:long",)), DR_VENUS)


def test_an_unknown_recipe_is_told_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'dr-venus'"):
        get_recipe("dr-vens")


def test_reports_of_two_halves_add_up() -> None:
    found = [
        talk(search("a"), seen(results("a")), answer()),
        talk(search("a"), seen(results("a")), search("a")),
        talk(answer()),
    ] * 2
    recipe = RECIPES["literesearcher"]
    whole = clean(found, recipe)[2]
    halves = CleanReport()
    for half in (found[:3], found[3:]):
        halves.add(clean(half, recipe)[2])
    assert halves == whole


def test_a_dropped_one_is_told_with_its_step_and_reason() -> None:
    given_ = talk(call_text(("browse", {"url": "https://a.example/"})), "gone")
    kept, (dropped,), report = clean([given_], RECIPES["dr-venus"])
    assert kept == []
    assert (dropped.step, dropped.reason) == ("validate", Reason.NO_ANSWER)
    assert report.steps[-1].dropped["no_answer"].example is not None


class TestMinimal:
    """What the tiny recipe trains on: whole, answered, nothing rewritten."""

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"ending": Ending.TOOL_OUTAGE}, Reason.OUTAGE),
            ({"ending": Ending.CANCELLED}, Reason.OUTAGE),
            ({"answer": None}, Reason.NO_ANSWER),
            ({"nodes": (), "leaf": None}, Reason.EMPTY),
        ],
    )
    def test_reasons(self, change: dict, reason: Reason) -> None:
        found = talk(search("a"), "nothing", answer()).model_copy(update=change)
        assert [one.reason for one in clean([found], RECIPES["minimal"])[1]] == [reason]

    def test_an_unreadable_message(self) -> None:
        found = chain(message(NodeKind.RAW, "?"), message(NodeKind.TURN, answer()))
        assert clean([found], RECIPES["minimal"])[1][0].reason is Reason.UNREADABLE

    def test_nothing_is_rewritten(self) -> None:
        found = talk("reasoning</think><tool_call>{}</tool_call>", "nothing", answer())
        (kept,), _, _ = clean([found], RECIPES["minimal"])
        assert kept is found


@lru_cache(maxsize=1)
def recorded() -> tuple[Trajectory, ...]:
    return tuple(open_trajectories(ROOT))


@needs_recordings
@pytest.mark.parametrize("name", ["dr-venus", "literesearcher", "agentcpm"])
def test_what_is_kept_of_recorded_ones_keeps_to_the_strict_grammar(name: str) -> None:
    kept, dropped, report = clean(recorded(), RECIPES[name])
    for one in kept:
        turns = list(one.turns())
        assert all(check_turn(turn.text, think_open=False) == () for turn in turns[:-1])
        assert check_final(turns[-1].text, think_open=False) == ()
    assert Counter(one.reason.value for one in dropped) == report.reasons
    assert CleanReport.model_validate(report.model_dump()) == report


@needs_recordings
def test_no_recorded_result_is_lost() -> None:
    """Titles, addresses, snippets and dates of every list, in order, are what they were."""

    def hits(found: Iterable[Trajectory]) -> list:
        texts = [node.text for one in found for node in one.branch() if node.kind is NodeKind.OBSERVATION]
        blocks = [block for text in texts for block in read_observation(text).blocks]
        return [
            (block.query, " ".join(hit.title.split()), hit.url, hit.snippet, hit.date) for block in blocks for hit in block.hits
        ]

    recipe = RECIPES["dr-venus"].model_copy(update={"steps": RECIPES["dr-venus"].steps[:3]})
    assert hits(clean(recorded(), recipe)[0]) == hits(recorded())


GOOD = talk(search("a"), seen(results("a")), call_text(("PythonInterpreter", {})), "1", answer(), id="good")
BAD = talk(search("a"), seen(results("a")), "I give up. [red]\x1b[31m", id="bad")


def many(count: int) -> list[Trajectory]:
    return [one.model_copy(update={"id": f"{one.id}-{number}"}) for number in range(count) for one in (GOOD, BAD)]


def store(path: Path, found: list[Trajectory]) -> Path:
    for one in found:
        TrajectoryStore(path).append(one)
    return path


def into(out: Path, found: Iterable[Trajectory], **how: Any) -> CleanedFile:
    return clean_file(iter(found), out, RECIPES["dr-venus"], DR_VENUS, origin=Path("raw.jsonl"), **how)


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return result.output


def test_every_trajectory_stands_in_one_of_the_two_files(tmp_path: Path) -> None:
    done = into(tmp_path / "kept.jsonl", [GOOD, BAD])
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
        done = into(tmp_path / "kept.jsonl", found)
    assert not done.dropped.exists()


def test_several_processes_write_the_same(tmp_path: Path) -> None:
    advanced: list[int] = []
    for workers in (1, 2):
        into(tmp_path / f"{workers}" / "kept.jsonl", many(20), workers=workers, advance=advanced.append)
    for name in ("kept.jsonl", "kept.dropped.jsonl", "kept.clean.json"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    assert sum(advanced) == 2 * 40


def test_the_kept_ones_come_last(tmp_path: Path) -> None:
    def in_the_way():
        yield from (GOOD, BAD)
        (tmp_path / "kept.clean.json").mkdir()

    with pytest.raises(UserError, match=r"Cannot write .*kept.clean.json"):
        into(tmp_path / "kept.jsonl", in_the_way())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.clean.json", "kept.dropped.jsonl"]


def test_a_trajectory_that_no_line_can_hold_is_named(tmp_path: Path) -> None:
    odd = GOOD.model_copy(update={"meta": {"x": (1,)}})
    with pytest.raises(UserError, match="The trajectory 'good' cannot be written"):
        into(tmp_path / "kept.jsonl", [odd])


def test_parquet(tmp_path: Path) -> None:
    done = into(tmp_path / "kept.parquet", [GOOD, BAD])
    assert [one.id for one in read_parquet(done.out)] == ["good"]
    assert done.dropped.name == "kept.dropped.jsonl"


@pytest.mark.parametrize("name", ["kept.jsonl", "kept.parquet"])
def test_a_failure_leaves_what_stood_there(tmp_path: Path, name: str) -> None:
    def broken():
        yield GOOD
        raise RuntimeError("the source broke")

    done = into(tmp_path / name, [GOOD, BAD])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RuntimeError):
        into(done.out, broken())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


class TestExplain:
    def shown(self, found: Trajectory) -> str:
        console = Console(width=100, record=True, file=io.StringIO())
        console.print(explain(found, get_recipe("dr-venus"), DR_VENUS))
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
        Console(width=100, file=told).print(explain(found, RECIPES[name], DR_VENUS))
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
