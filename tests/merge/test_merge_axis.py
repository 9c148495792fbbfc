"""Which point of a sweep is the best, and what can be swept."""

from pathlib import Path
from typing import Any

import pytest

from sanderling.core.errors import UserError
from sanderling.merge.settings import MergeSettings
from sanderling.merge.sweep import Axis, best, name_of, points_of, settings_at

A, B, C = Path("a"), Path("b"), Path("c")
LINEAR = MergeSettings.model_validate({"method": "linear", "models": [A, B]})
TIES = MergeSettings.model_validate({"method": "ties", "models": [A, B], "base": C, "weights": [0.4, 0.6]})


def line(means: dict[float, float | None]) -> dict[tuple[float, ...], float | None]:
    return {(value,): mean for value, mean in means.items()}


def test_the_best_is_the_highest_mean() -> None:
    assert best(line({0.0: 0.5, 0.5: 0.4, 1.0: 0.6})) == (1.0,)


def test_ties_go_to_the_middle_and_then_to_the_smaller() -> None:
    assert best(line({0.0: 0.5, 0.4: 0.5, 1.0: 0.5})) == (0.4,)
    assert best(line({0.0: 0.1, 0.25: 0.5, 0.75: 0.5, 1.0: 0.1})) == (0.25,)
    assert best({(1.0, 0.0, 0.0): 0.5, (0.5, 0.5, 0.0): 0.5, (0.0, 0.0, 1.0): 0.4}) == (0.5, 0.5, 0.0)


def test_a_point_without_a_mean_is_never_the_best() -> None:
    assert best(line({0.0: 0.1, 0.5: None, 1.0: 0.05})) == (0.0,)
    assert best(line({0.5: None})) is None and best({}) is None


def test_each_axis_changes_its_own_coefficient() -> None:
    def at(settings: MergeSettings, axis: Axis, value: float) -> MergeSettings:
        (point,) = points_of(settings, axis, [value])
        assert point == (value,) and name_of(point) == f"{value:g}"
        return settings_at(settings, axis, point)

    assert at(LINEAR, Axis.WEIGHT, 0.25).weights == (0.75, 0.25)
    slerp = MergeSettings.model_validate({"method": "slerp", "models": [A, B]})
    assert at(slerp, Axis.WEIGHT, 0.25).t == 0.25 and at(slerp, Axis.WEIGHT, 0.25).weights == ()
    assert at(TIES, Axis.SCALE, 0.5).scale == 0.5 and at(TIES, Axis.SCALE, 0.5).weights == (0.4, 0.6)
    assert at(TIES, Axis.DENSITY, 0.5).density == 0.5


def test_shares_of_three_models_are_swept_over_the_simplex() -> None:
    three = MergeSettings.model_validate({"method": "linear", "models": [A, B, C]})
    points = points_of(three, Axis.WEIGHT, (0, 0.2, 0.4, 0.6, 0.8, 1))
    assert len(points) == 21 and len({name_of(point) for point in points}) == 21
    assert all(sum(point) == pytest.approx(1) and min(point) >= 0 for point in points)
    assert {"1:0:0", "0:1:0", "0:0:1", "0.2:0.4:0.4"} < {name_of(point) for point in points}
    assert settings_at(three, Axis.WEIGHT, points[3]).weights == points[3]
    with pytest.raises(UserError, match="leaves the first model a share"):
        points_of(three, Axis.WEIGHT, (0.6, 0.8))
    with pytest.raises(UserError, match="from 0 to 1"):
        points_of(three, Axis.WEIGHT, (-0.5, 0.5))


@pytest.mark.parametrize(
    ("settings", "axis", "values", "told"),
    [
        ({"method": "ties", "models": [A], "base": B}, Axis.WEIGHT, (0.5,), "between models, and one"),
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
        chosen = MergeSettings.model_validate(settings)
        for at in points_of(chosen, axis, values):
            settings_at(chosen, axis, at)
