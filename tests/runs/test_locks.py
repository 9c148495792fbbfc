"""Locks between processes: what is held, what is left behind, and what cannot be held."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.runs.files import LOCK, locked

BOTH = pytest.mark.parametrize("hold", [locked, partial(locked, beside=True)])


def test_a_place_is_held_by_one_at_a_time_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    place = tmp_path / "above" / "place"
    for _ in range(2):
        with locked(place, beside=True), locked(place.with_name("another"), beside=True):
            with pytest.raises(UserError, match=r"Another process is at work in .*place: wait"), locked(place, beside=True):
                pass
            assert not place.exists()
        assert list(place.parent.iterdir()) == []


@BOTH
def test_a_failure_lets_go_and_a_place_that_cannot_be_used_is_one_sentence(tmp_path: Path, hold: Callable) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match="its own"), hold(tmp_path / "place"):
            raise RuntimeError("its own")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="Cannot use"), hold(tmp_path / "file" / "below"):
        pass


def test_a_lock_whose_file_was_taken_away_before_it_was_locked_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    place, real, taken = tmp_path / "place", fcntl.flock, 0

    def after_the_last_holder(handle: object, how: int) -> None:
        nonlocal taken
        if not taken:
            taken += 1
            (tmp_path / f"{LOCK}-place").unlink()
        real(handle, how)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", after_the_last_holder)
    with locked(place, beside=True):
        assert taken == 1 and (tmp_path / f"{LOCK}-place").is_file()
        with pytest.raises(UserError, match="at work"), locked(place, beside=True):
            pass
