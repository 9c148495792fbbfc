import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.train.config import GuardConfig
from sanderling.train.sft.loop import DivergenceGuard


def end(losses: list[float], config: GuardConfig | None = None) -> int | None:
    """The step at which a run of these losses is stopped."""
    guard = DivergenceGuard(config or GuardConfig())
    for step, loss in enumerate(losses, 1):
        try:
            guard.check(step, loss, [f"row {step}"])
        except UserError:
            return step
    return None


def test_a_run_that_explodes_is_stopped_and_its_batch_is_named():
    guard = DivergenceGuard(GuardConfig(patience=2))
    for step in range(1, 21):
        guard.check(step, 1.0, [])
    guard.check(21, 9.0, ["a"])
    with pytest.raises(UserError, match=r"times its median \(1\) for 2 steps and is 8 in step 22.*rows t0, .* and 2 more"):
        guard.check(22, 8.0, [f"t{i}" for i in range(10)])


def test_single_spikes_pass_and_do_not_raise_the_bar():
    assert end([1.0] * 20 + [9.0, 1.0] * 30) is None
    assert end([1.0] * 20 + [9.0, 1.0] * 30 + [4.0] * 5) == 85


@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=80))
def test_losses_within_the_factor_never_stop_a_run(losses: list[float]):
    config = GuardConfig(factor=600)
    assert end(losses, config) is None


@given(st.lists(st.floats(0.01, 50), min_size=1, max_size=80), st.integers(0, 80), st.integers(1, 4))
def test_a_resumed_guard_judges_as_one_that_saw_all(losses: list[float], cut: int, patience: int):
    config = GuardConfig(patience=patience, window=20)
    stop = end(losses, config)
    cut = min(cut, (stop or len(losses) + 1) - 1)
    guard = DivergenceGuard(config, losses[:cut])
    for step, loss in enumerate(losses[cut:], cut + 1):
        if step == stop:
            with pytest.raises(UserError):
                guard.check(step, loss, [])
            return
        guard.check(step, loss, [])
    assert stop is None
