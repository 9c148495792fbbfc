"""Names from outside: files, packages, and the sentences about names that there are not."""

import math
import pickle
from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside, resolve

BUILTINS = {"exact": 1, "contains": 2}


def test_names_in_packages_and_files(tmp_path: Path) -> None:
    assert resolve("math:tau", BUILTINS, "judge") is math.tau
    assert resolve("os.path:join", BUILTINS, "judge")("a", "b") == "a/b"
    file = tmp_path / "mine.py"
    file.write_text("class Strict:\n    pass\nLOADED = []\n")
    found = resolve(f"{file}:Strict", BUILTINS, "judge")
    assert found is resolve(f"{tmp_path}/./mine.py:Strict", BUILTINS, "judge")
    assert type(pickle.loads(pickle.dumps(found()))) is found


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("exakt", "There is no judge 'exakt': did you mean 'exact'?"),
        ("zzz", "There is no judge 'zzz': choose one of exact, contains."),
        ("math:taus", "math defines no 'taus': did you mean 'tau'?"),
        ("no_such_package:x", "Cannot load no_such_package \\(ModuleNotFoundError"),
        ("nowhere.py:x", "There is no file nowhere.py"),
    ],
)
def test_what_there_is_not(name: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        resolve(name, BUILTINS, "judge")


def test_a_broken_file_is_told_and_may_be_mended(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("1 / 0")
    with pytest.raises(UserError, match="ZeroDivisionError"):
        resolve(f"{file}:x", BUILTINS, "judge")
    file.write_text("x = 5")
    assert resolve(f"{file}:x", BUILTINS, "judge") == 5


@pytest.mark.parametrize("name", ["exact", "https://w.example/v1", "gpt-4:mini", "C:", ":x", "model=a:b"])
def test_other_names_are_not_from_outside(name: str) -> None:
    assert not is_outside(name)
