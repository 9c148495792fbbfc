"""The shell around the sub-commands: quick help, one-sentence errors, exit statuses."""

import errno
import os
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import Field

from sanderling import __version__
from sanderling.cli import main as shell
from sanderling.cli.options import ConfigFile, Set, settings, show, table
from sanderling.core.config import Frozen
from sanderling.core.errors import EXTRAS, UserError, need


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sanderling", *arguments])
        with pytest.raises(SystemExit) as stop:
            shell.main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run


def plug(monkeypatch: pytest.MonkeyPatch, name: str, target: object) -> None:
    """Put a sub-command where the shell looks for it."""
    module = types.ModuleType(f"plugged_{name}")
    module.target = target  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(shell.COMMANDS, name, shell.Command(module.__name__, "target", "Plugged in."))


def failing(error: BaseException) -> Callable[[], None]:
    def command() -> None:
        raise error

    return command


def test_version(call: Callable[..., tuple[int, str, str]]) -> None:
    assert call("--version") == (0, f"sanderling {__version__}\n", "")


def test_help_imports_no_room() -> None:
    code = """
import sys
from sanderling.cli import main
sys.argv = ["sanderling", "--help"]
try:
    main.main()
except SystemExit:
    pass
print("LOADED", *[name for name in ("torch", "numpy", "tantivy", "pyarrow", "transformers") if name in sys.modules])
print("ROOMS", *[name for name in sys.modules if name.startswith("sanderling.") and not name.startswith("sanderling.cli")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "LOADED\nROOMS sanderling.core sanderling.core.errors\n" in done.stdout


@pytest.mark.parametrize(
    "error", [UserError("Give a file."), ExceptionGroup("g", [ValueError(), ExceptionGroup("h", [UserError("Give a file.")])])]
)
def test_a_user_error_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, call: Callable[..., tuple[int, str, str]], error: Exception
) -> None:
    plug(monkeypatch, "boom", failing(error))
    assert call("boom") == (2, "", "error: Give a file.\n")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/data/x"), "Cannot use /data/x (No space left on device)"),
        (PermissionError(errno.EACCES, "Permission denied", "runs\x1b[2J"), "Cannot use runs␛[2J (Permission denied)"),
        (OSError(errno.EROFS, "Read-only file system"), "Cannot write (Read-only file system)"),
    ],
)
def test_full_disks_and_closed_doors_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, call: Callable[..., tuple[int, str, str]], error: Exception, said: str
) -> None:
    plug(monkeypatch, "boom", failing(error))
    code, _, told = call("boom")
    assert code == 2 and told.startswith(f"error: {said}: free some space") and told.count("\n") == 1


def test_an_interrupt_exits_with_130(monkeypatch: pytest.MonkeyPatch, call: Callable[..., tuple[int, str, str]]) -> None:
    plug(monkeypatch, "boom", failing(KeyboardInterrupt()))
    assert call("boom")[0] == 130


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, call: Callable[..., tuple[int, str, str]]) -> None:
    plug(monkeypatch, "boom", failing(ModuleNotFoundError("No module named 'torch'", name="torch")))
    status, _, err = call("boom")
    assert status == 2
    assert "pip install '.[local]'" in err


def test_warnings_are_short(monkeypatch: pytest.MonkeyPatch, call: Callable[..., tuple[int, str, str]]) -> None:
    def command() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("the torn last line is left out", UserWarning, stacklevel=1)

    plug(monkeypatch, "warn", command)
    assert call("warn") == (0, "", "warning: the torn last line is left out\n")


class Tide(Frozen):
    place: str
    days: int = Field(default=7, ge=1)
    """So many."""


def tide(place: str, days: int | None = None, file: ConfigFile = None, sets: Set = None) -> None:
    found = table("place", ">days")
    config = settings(Tide, file, sets, {"place": place, "days": days})
    found.add_row(config.place, str(config.days))
    show(found, f"in {config.place}[/]")


def test_a_command_lays_file_overrides_and_options_over_a_model(
    monkeypatch: pytest.MonkeyPatch, call: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    plug(monkeypatch, "tide", tide)
    (tmp_path / "tide.toml").write_text("days = 3")
    read = [
        call("tide", "Kent", *given)[1].split("Kent")[1].split()[0] for given in ([], ["--config", str(tmp_path / "tide.toml")])
    ]
    read += [call("tide", "Kent", "--set", "days=4", *given)[1].split("Kent")[1].split()[0] for given in ([], ["--days", "5"])]
    assert read == ["7", "3", "4", "5"]
    assert call("tide", "Kent")[1].endswith("in Kent[/]\n")
    assert call("tide", "--set", "help") == (0, "# place =\n# So many.\ndays = 7\n", "")
    assert call("tide", "Kent", "--set", "help") == (0, 'place = "Kent"\n# So many.\ndays = 7\n', "")
    assert call("tide", "Kent", "--set", "days=4", "--set", "help")[1].endswith("days = 4\n")
    assert call("tide", "Kent", "--set", "day=4", "--set", "help")[0] == 2
    status, _, err = call("tide", "Kent", "--set", "day=4", "--days", "0")
    assert (status, err) == (
        2,
        "error: 2 settings are wrong:\n  --set names no setting day: did you mean days?\n"
        "  In the command, days: input should be greater than or equal to 1.\n",
    )


def test_an_extra_that_is_missing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    need("local")
    monkeypatch.setitem(EXTRAS, "train", ("torch", "no_such_package"))
    with pytest.raises(UserError, match=r"needs no_such_package: run pip install '\.\[train\]'"):
        need("train")


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "sanderling", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"sanderling {__version__}\n"


def test_a_terminal_that_lacks_a_character_shows_the_rest() -> None:
    code = "from sanderling.cli import main as m; m.build_app = lambda _: lambda: print('a · b'); m.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"a ? b\n", b"")


def test_what_an_agent_lacks_is_told_before_anything_is_opened(
    call: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    file, out, empty = tmp_path / "q.jsonl", tmp_path / "o", tmp_path / "empty"
    file.write_text('{"question": "Which river?", "answer": "Kent"}')
    empty.mkdir()
    run = "eval", "run", "jsonl", str(file), "--out", str(out), "--judge", "exact"
    no_model = "  There is no model to ask: give --model, a directory, http://host:port/v1#model, or file.py:name.\n"
    for words in (run, ("ask", "Which river?")):
        status, _, told = call(*words, "--world", str(empty))
        assert status == 2 and "2 things are wrong" in told and no_model in told and f"  {empty} is not a world" in told
    status, _, told = call(*run, "--model", "m", "--world", str(empty), "--judge", "exakt")
    assert status == 2 and "3 things are wrong" in told and "no model at 'm'" in told and "'exakt'" in told
    assert not out.exists()


def test_set_help_shows_what_recipe_and_other_settings_give(call: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text(
        "from sanderling.rl.credit import Estimating\n"
        'class Mine(Estimating):\n    slope: float = 3.5\n    """How steep."""\n'
        "def credit(table, config: Mine):\n    return table.outcome * config.slope\n"
    )
    status, told, _ = call("train", "rl", "--recipe", "literesearcher-4b", "--set", "world_seed=7", "--set", "help")
    assert status == 0 and 'title = "literesearcher-4b"' in told and "\nworld_seed = 7\n" in told
    assert "# Kinds: grpo, leave_one_out, igpo;" in told and "gain_weight" not in told
    igpo = call("train", "rl", "--set", "help", "--set", "rl.estimator.kind=igpo")[1]
    assert '[rl.estimator]\nkind = "igpo"\n' in igpo and "\ngain_weight = 1.0\n" in igpo
    mine = call("train", "rl", "--recipe", "tiny", "--set", f"rl.estimator.kind={own}:credit", "--set", "help")[1]
    assert "# How steep.\nslope = 3.5\n" in mine
    assert "lr = 0.001\n" in call("train", "sft", "--set", "trainer.lr=1e-3", "--set", "help")[1]
