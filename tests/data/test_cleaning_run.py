"""Cleaning as a whole: what came in is what was kept and dropped, twice is once, and no trajectory breaks it."""

import itertools
import json
from typing import get_args

import pytest
from cleaning_conversations import ANY
from cleaning_makers import answer, call_text, chain, clean, message, results, search, seen, step, talk
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.record import NodeKind, Trajectory, decode_record, decode_trajectory, encode_trajectory
from sanderling.core.types import Ending
from sanderling.data.cleaning import (
    RECIPES,
    STEPS,
    Cleaner,
    CleaningRecipe,
    Reason,
    StepName,
    get_recipe,
)

DR_VENUS = get_profile("dr-venus-4b")
RECIPE = st.sampled_from(list(RECIPES))


@given(st.lists(ANY, max_size=4), RECIPE)
def test_what_came_in_is_what_was_kept_and_what_was_dropped(found: list[Trajectory], name: str) -> None:
    kept, dropped, report = clean(found, RECIPES[name])
    assert report.came_in == len(found) == len(kept) + len(dropped)
    assert (report.kept, report.dropped, sum(report.reasons.values())) == (len(kept), len(dropped), len(dropped))
    assert all(one.trajectory in found for one in dropped)
    assert [step.came_in for step in report.steps[1:]] == [step.went_out for step in report.steps[:-1]]
    assert report.steps[-1].went_out == len(kept)
    json.dumps(report.as_json()).encode()


@given(ANY, RECIPE)
def test_twice_is_once(found: Trajectory, name: str) -> None:
    kept, _, _ = clean([found], RECIPES[name])
    again, dropped, report = clean(kept, RECIPES[name])
    assert again == kept
    assert dropped == []
    assert report.changed == 0


@given(ANY, st.sampled_from(list(STEPS)))
def test_every_step_alone_is_idempotent(found: Trajectory, name: StepName) -> None:
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
    assert set(STEPS) == set(get_args(StepName))
    assert set(itertools.chain(*(recipe.steps for recipe in RECIPES.values()))) == set(STEPS)
    settings = set(CleaningRecipe.model_fields) - {"steps", "profile"}
    assert settings <= set(STEPS)


def test_a_recipe_names_each_step_once() -> None:
    with pytest.raises(ValueError, match="named twice"):
        CleaningRecipe(steps=("names", "names"))


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
    halves = Cleaner(recipe, DR_VENUS).empty_report()
    for half in (found[:3], found[3:]):
        halves.add(clean(half, recipe)[2])
    assert halves == whole


def test_a_dropped_one_is_handed_over_as_it_came() -> None:
    given_ = talk(call_text(("browse", {"url": "https://a.example/"})), "gone")
    kept, (dropped,), report = clean([given_], RECIPES["dr-venus"])
    assert kept == []
    assert dropped.trajectory is given_
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
