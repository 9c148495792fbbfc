"""Locks between processes: what is held, what is left behind, and what cannot be held."""

from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.runs.locks import LOCK, locked, locked_place


def test_a_place_is_held_by_one_at_a_time_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    place = tmp_path / "above" / "place"
    for _ in range(2):
        with locked_place(place), locked_place(place.with_name("another")):
            with pytest.raises(UserError, match=r"Another process is at work in .*place: wait"), locked_place(place):
                pass
            assert not place.exists()
        assert list(place.parent.iterdir()) == []


def test_a_failure_lets_go(tmp_path: Path) -> None:
    for hold in (locked, locked_place):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="its own"), hold(tmp_path / "place"):
                raise RuntimeError("its own")


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
    with locked_place(place):
        assert taken == 1 and (tmp_path / f"{LOCK}-place").is_file()
        with pytest.raises(UserError, match="at work"), locked_place(place):
            pass


def test_a_place_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for hold, place in ((locked, tmp_path / "file"), (locked_place, tmp_path / "file" / "below")):
        with pytest.raises(UserError, match="Cannot use"), hold(place):
            pass


def test_a_directory_that_was_made_for_nothing_is_gone(tmp_path: Path) -> None:
    for place in (tmp_path / "new", tmp_path / "above" / "new"):
        with pytest.raises(RuntimeError), locked(place):
            raise RuntimeError
        assert not place.exists()


def test_a_directory_that_was_there_or_holds_something_stays(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(RuntimeError), locked(tmp_path / "there"):
        raise RuntimeError
    with pytest.raises(RuntimeError), locked(tmp_path / "new"):
        (tmp_path / "new" / "begun").touch()
        raise RuntimeError
    assert (tmp_path / "there").is_dir() and (tmp_path / "new" / "begun").is_file()
    with locked(tmp_path / "new"), locked(tmp_path / "there"):
        pass
