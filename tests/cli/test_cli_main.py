"""The shell around the sub-commands: quick help, one-sentence errors, exit statuses."""

import errno
import os
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import Field
from typer.testing import CliRunner

from sanderling import __version__
from sanderling.cli import INTERRUPTED, USER_ERROR
from sanderling.cli import main as shell
from sanderling.cli.options import ConfigFile, Set, settings, show, table
from sanderling.cli.synth import app
from sanderling.cli.train import app as train
from sanderling.core.config import Frozen
from sanderling.core.errors import EXTRAS, UserError, need
from sanderling.core.plugins import load_outside
from sanderling.core.record import Trajectory
from sanderling.data.questions import check_questions, read_questions
from sanderling.rl.credit import ESTIMATORS
from sanderling.runs.jsonl import write_trajectories
from sanderling.synth.capabilities import Capability
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world
from sanderling.world.encyclopedia import generate_pages


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
        (IsADirectoryError(errno.EISDIR, "Is a directory", ".ex.partial", None, "ex"), "Cannot use ex (Is a directory)"),
    ],
)
def test_full_disks_and_closed_doors_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, call: Callable[..., tuple[int, str, str]], error: Exception, said: str
) -> None:
    plug(monkeypatch, "boom", failing(error))
    code, _, told = call("boom")
    assert (
        code == 2 and told.startswith((f"error: {said}: free some space", f"error: {said}: choose")) and told.count("\n") == 1
    )


def test_what_a_file_of_ones_own_raises_is_one_sentence_with_its_place(
    monkeypatch: pytest.MonkeyPatch, call: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "beside.py").write_text("def half(value):\n    return value / 0\n")
    (file := tmp_path / "mine.py").write_text("from beside import half\n\ndef boom():\n    return half(1)\n")
    plug(monkeypatch, "boom", load_outside(f"{file}:boom"))
    assert call("boom") == (
        2,
        "",
        f"error: {file}:4 raised ZeroDivisionError (division by zero): mend it there.\n",
    )
    file.write_text("from sanderling.core.text import counted_as\n\ndef ours():\n    return counted_as(None, None)\n")
    with pytest.raises(TypeError):  # a bug of ours has its traceback
        plug(monkeypatch, "boom", load_outside(f"{file.rename(tmp_path / 'two.py')}:ours"))
        call("boom")


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
    assert f"# Kinds: {', '.join(ESTIMATORS)};" in told and "gain_weight" not in told
    igpo = call("train", "rl", "--set", "help", "--set", "rl.estimator.kind=igpo")[1]
    assert '[rl.estimator]\nkind = "igpo"\n' in igpo and "\ngain_weight = 1.0\n" in igpo
    mine = call("train", "rl", "--recipe", "tiny", "--set", f"rl.estimator.kind={own}:credit", "--set", "help")[1]
    assert "# How steep.\nslope = 3.5\n" in mine
    assert "lr = 0.001\n" in call("train", "sft", "--set", "trainer.lr=1e-3", "--set", "help")[1]


# -- `sanderling recipe` after Ctrl-C: one sentence that says how to go on, and status 130 ---------------------------------


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_recipe_goes_on_with_the_same_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sanderling.recipes.tiny_stages.run_tiny", interrupt)
    monkeypatch.setattr(sys, "argv", ["sanderling", "recipe", "run", "tiny", "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as stop:
        shell.main()
    assert stop.value.code == INTERRUPTED
    assert capsys.readouterr().err == "Interrupted: run the same command again to resume.\n"


def test_a_recipe_without_steps_of_sft_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text("")
    monkeypatch.setattr(
        sys, "argv", ["sanderling", "recipe", "run", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "run")]
    )
    with pytest.raises(SystemExit) as stop:
        shell.main()
    assert stop.value.code == USER_ERROR
    assert capsys.readouterr().err == "error: The two SFT arms are compared at equal steps: set sft.max_steps.\n"
    assert not (tmp_path / "run").exists()


# -- `sanderling synth graph`, `show` and `train rl`: questions of an encyclopedia, and wrong wishes in one sentence each ----


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("worlds") / "encyclopedia"
    build_world(place, generate_pages(80, 2), name="encyclopedia-80-2", source="encyclopedia --size 80 --seed 2", seed=2)
    return place


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_questions_are_written_and_shown(world: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "questions.jsonl"
    told = run("graph", str(world), "--out", str(out), "--count", "25", "--seed", "3")
    questions = read_questions(out)
    assert len(questions) == 25
    assert "25 questions" in told
    assert all(f"5 {capability.value}" in told for capability in Capability)
    shown = run("show", str(out), "--most", "1")
    assert questions[0].text in shown and questions[0].answers[0] in shown and "proven" in shown
    assert all(fact["quote"] in shown and fact["url"] in shown for fact in questions[0].meta["facts"])
    assert questions[1].text not in shown


def test_questions_and_trajectories_replace_nothing_else(world: Path, tmp_path: Path) -> None:
    mine, asked, recorded = tmp_path / "mine.py", tmp_path / "asked.jsonl", tmp_path / "recorded.jsonl"
    for _ in range(2):
        run("chains", str(world), "--out", str(asked), "--count", "5")
    mine.write_text("print('mine')\n")
    write_trajectories(recorded, [Trajectory(id="t", question=read_questions(asked)[0], nodes=(), leaf=None, ending=None)])
    for target in (mine, recorded):
        before = target.read_bytes()
        for command in (["chains", world], ["graph", world, "--count", "5"], ["verify", asked, "--world", world]):
            with pytest.raises(UserError, match=f"{target.name} holds something else than questions"):
                run(*map(str, command), "--out", str(target))
        assert target.read_bytes() == before
    for name, text in (("corpus", '{"id": "d", "text": "A document."}\n'), ("notes", "\n\nnotes\n")):
        (tmp_path / f"{name}.jsonl").write_text(text)
        with pytest.raises(UserError, match="holds something else than questions"):
            check_questions(tmp_path / f"{name}.jsonl")
    pq.write_table(pa.table({"question": ["Where?"]}), tmp_path / "bench.parquet")
    for target in (asked, tmp_path / "bench.parquet"):
        with pytest.raises(UserError, match=f"{target.name} holds something else than trajectories"):
            write_trajectories(target, [])
    assert len(read_questions(asked)) == 5
    asked.write_bytes(b"\xef\xbb\xbf" + asked.read_bytes())
    check_questions(asked, tmp_path / "new.jsonl", tmp_path / "missing" / "new.jsonl")
    write_trajectories(tmp_path / "t.parquet", [])
    write_trajectories(tmp_path / "t.parquet", [])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--size", "6-5"], "size 6-5 does not go upwards"),
        (["--hops", "0"], "hops 0-0 does not go upwards"),
        (["--hops", "many"], "--hops 'many'"),
        (["--size", "2", "--hops", "4"], "raise size"),
    ],
)
def test_a_wrong_wish_is_one_sentence(world: Path, tmp_path: Path, options: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        run("graph", str(world), "--out", str(tmp_path / "q.jsonl"), *options)


def test_a_world_whose_facts_nobody_knows_is_one_sentence(tmp_path: Path) -> None:
    build_world(tmp_path / "w", [Page(url="https://a.example/x", title="x", text="Just words.")], name="w", source="folder")
    with pytest.raises(UserError, match=r"No facts are known.*--model"):
        run("graph", str(tmp_path / "w"), "--out", str(tmp_path / "q.jsonl"))


def test_a_world_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no world"):
        run("graph", str(tmp_path / "none"), "--out", str(tmp_path / "q.jsonl"))


def refused(*words: str) -> str:
    result = CliRunner().invoke(train, ["rl", *words])
    assert isinstance(result.exception, UserError), result.output
    return str(result.exception)


def test_wrong_options_are_told():
    assert "names no model: write http://host:port/v1#model" in refused("--endpoint", "http://localhost:1/v1")
    assert "choose agentcpm-explore-4b, dr-venus-4b" in refused("--recipe", "dr-venus")
    assert "did you mean rl.steps?" in refused("--set", "rl.stepz=3")
    assert "give --model" in refused()
