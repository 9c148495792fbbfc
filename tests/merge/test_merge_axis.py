"""Which point of a sweep is the best, and what can be swept."""

from pathlib import Path
from typing import Any

import pytest

from sanderling.core.errors import UserError
from sanderling.merge.settings import MergeSettings
from sanderling.merge.sweep import Axis, best, settings_along

A, B, C = Path("a"), Path("b"), Path("c")
LINEAR = MergeSettings.model_validate({"method": "linear", "models": [A, B]})
TIES = MergeSettings.model_validate({"method": "ties", "models": [A, B], "base": C, "weights": [0.4, 0.6]})


@pytest.mark.parametrize(
    ("means", "at"),
    [
        ({0.0: 0.5, 0.5: 0.4, 1.0: 0.6}, 1.0),
        ({0.0: 0.5, 0.4: 0.5, 1.0: 0.5}, 0.4),
        ({0.0: 0.1, 0.25: 0.5, 0.75: 0.5, 1.0: 0.1}, 0.25),
        ({0.0: 0.1, 0.5: None, 1.0: 0.05}, 0.0),
        ({0.5: None}, None),
        ({}, None),
    ],
)
def test_the_best_has_the_highest_mean_then_lies_in_the_middle_then_is_the_smaller(
    means: dict[float, float | None], at: float | None
) -> None:
    assert best(means) == at


def test_each_axis_changes_its_own_coefficient() -> None:
    def at(settings: MergeSettings, axis: Axis, value: float) -> MergeSettings:
        return settings_along(settings, axis, [value])[value]

    assert at(LINEAR, Axis.WEIGHT, 0.25).weights == (0.75, 0.25)
    slerp = MergeSettings.model_validate({"method": "slerp", "models": [A, B]})
    assert at(slerp, Axis.WEIGHT, 0.25).t == 0.25 and at(slerp, Axis.WEIGHT, 0.25).weights == ()
    assert at(TIES, Axis.SCALE, 0.5).scale == 0.5 and at(TIES, Axis.SCALE, 0.5).weights == (0.4, 0.6)
    assert at(TIES, Axis.DENSITY, 0.5).density == 0.5


@pytest.mark.parametrize(
    ("settings", "axis", "values", "told"),
    [
        ({"method": "ties", "models": [A], "base": B}, Axis.WEIGHT, (0.5,), "between two models, and 1"),
        ({"method": "linear", "models": [A, B], "weights": [1, 2]}, Axis.WEIGHT, (0.5,), "leave --weight out"),
        ({"method": "linear", "models": [A, B]}, Axis.SCALE, (0.5,), "linear has no scale"),
        ({"method": "task-arithmetic", "models": [A], "base": B}, Axis.DENSITY, (0.5,), "has no density"),
        ({"method": "linear", "models": [A, B]}, Axis.WEIGHT, (), "different values"),
        ({"method": "linear", "models": [A, B]}, Axis.WEIGHT, (0.5, 0.5), "different values"),
        ({"method": "slerp", "models": [A, B]}, Axis.WEIGHT, (0.5, 2.0), "no merge at weight 2"),
        ({"method": "ties", "models": [A], "base": B}, Axis.DENSITY, (0.0,), "no merge at density 0"),
        ({"method": "linear", "models": [A, B]}, Axis.WEIGHT, (float("nan"),), "no merge at weight nan"),
    ],
)
def test_a_sweep_that_is_none_is_refused(settings: dict[str, Any], axis: Axis, values: tuple[float, ...], told: str) -> None:
    with pytest.raises(UserError, match=told):
        settings_along(MergeSettings.model_validate(settings), axis, values)
