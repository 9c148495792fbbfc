"""Cleaning as a whole: what came in is what was kept and dropped, twice is once, and no trajectory or file breaks it."""

import itertools
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from cleaning_makers import ANY, answer, call_text, clean, results, search, seen, step, talk
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sanderling.cli.data import app
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.record import Trajectory, decode_record, decode_trajectory, encode_trajectory
from sanderling.data.cleaning.cleaner import (
    RECIPES,
    STEPS,
    CleanedFile,
    Cleaner,
    CleaningRecipe,
    clean_file,
)
from sanderling.runs.jsonl import TrajectoryStore

DR_VENUS = get_profile("dr-venus-4b")
RECIPE = st.sampled_from(list(RECIPES))


@given(st.lists(ANY, max_size=3), RECIPE)
def test_what_came_in_is_what_was_kept_and_what_was_dropped_and_twice_is_once(found: list[Trajectory], name: str) -> None:
    before = [one.model_dump() for one in found]
    kept, dropped, report = clean(found, RECIPES[name])
    assert before == [one.model_dump() for one in found], "what was given stays as it was"
    assert report.came_in == len(found) == len(kept) + len(dropped)
    assert (report.kept, report.dropped, sum(report.reasons.values())) == (len(kept), len(dropped), len(dropped))
    assert Counter(one.id for one in found) == Counter([one.id for one in kept] + [one.before.id for one in dropped])
    assert [step.came_in for step in report.steps[1:]] == [step.went_out for step in report.steps[:-1]]
    for one in kept:
        assert decode_trajectory(decode_record(encode_trajectory(one))) == one
    again, dropped, report = clean(kept, RECIPES[name])
    assert (again, dropped, report.changed) == (kept, [], 0)


@given(ANY, st.sampled_from(list(STEPS)))
def test_every_step_alone_is_idempotent(found: Trajectory, name: str) -> None:
    once = step(name, found).trajectory
    if once is not None:
        assert step(name, once).trajectory == once


def test_the_registry_is_complete() -> None:
    assert set(itertools.chain(*(recipe.steps for recipe in RECIPES.values()))) == set(STEPS)
    settings = set(CleaningRecipe.model_fields) - {"steps", "profile"}
    assert settings <= set(STEPS)


def test_a_step_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def short(draft, *, most=1):\n    draft.rounds = draft.rounds[-most:]\n    draft.note('turns_removed')\n")
    recipe = CleaningRecipe(steps=(f"{file}:short", "validate"))
    (kept,), _, report = clean([talk(search("a"), seen("x"), answer())], recipe)
    assert [node.text for node in kept.turns()] == [answer()] and report.steps[0].notes["turns_removed"].number == 1
    with pytest.raises(UserError, match="defines no 'long'"):
        Cleaner(CleaningRecipe(steps=(f"{file}:long",)), DR_VENUS)


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


class TestCommand:
    def test_settings_profiles_and_recipes(self, tmp_path: Path) -> None:
        raw, kept = store(tmp_path / "raw.jsonl", [GOOD]), tmp_path / "kept.jsonl"
        run(
            "clean",
            raw,
            "--out",
            kept,
            "--set",
            'prune.tools=["search", "PythonInterpreter"]',
            "--set",
            "profile=agentcpm-explore-4b",
        )
        (one,) = TrajectoryStore(kept)
        assert (one.profile, len(list(one.turns()))) == ("agentcpm-explore-4b", 3)
        recipe = tmp_path / "mine.toml"
        recipe.write_text('steps = ["min_calls"]\n[min_calls]\nleast = 3\n')
        assert "dropped 1 too_few_calls" in run("clean", raw, "--out", kept, "--recipe", recipe)

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
