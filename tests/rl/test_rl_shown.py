"""What is said of a run: which model held-out questions have chosen, whichever way it went."""

import pytest
from rl_runs import SETTINGS

from sanderling.core.config import load_config
from sanderling.rl.config import RlRecipe, stages_of
from sanderling.rl.launch import chosen


@pytest.mark.parametrize(
    ("measured", "sentence"),
    [
        ([], ""),
        (
            [(0, 0.0), (2, 0.0), (4, 0.0)],
            "the model that training began with (0.0% right): none of the 4 steps led to a better",
        ),
        ([(0, 0.5), (2, 0.7), (4, 0.7)], "the model after step 2 of 4 (70.0% right, 50.0% before any)."),
        ([(2, 0.1), (4, 0.2)], "the model after step 4 of 4 (20.0% right)."),
    ],
)
def test_a_person_hears_which_model_was_chosen(measured: list[tuple[int, float]], sentence: str):
    (stage,) = stages_of(load_config(RlRecipe, SETTINGS, "settings", ()))
    told = chosen(stage, [{"step": step, "held_out": right} for step, right in measured])
    assert sentence in told and told.startswith("Held-out questions chose" if measured else "")
