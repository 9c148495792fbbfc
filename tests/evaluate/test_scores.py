"""A user's scores of attempts, for the best of k: the table, and the command that takes it."""

import asyncio
from pathlib import Path

import pytest
from measured_runs import go
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.evaluate.judging import read_scores
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.result import EvalResult


def test_scores_and_prices_come_after_the_run(tmp_path: Path) -> None:
    run, table = tmp_path / "run", tmp_path / "verifier.csv"
    asyncio.run(go(run, 4, 3))
    ids = [row.id for row in RunLog(run).episodes()]
    table.write_text("\ufeffid,score\n" + "".join(f"{id},{place % 5}\n" for place, id in enumerate(ids)), encoding="utf-8")
    assert read_scores(table, ids) == {id: float(place % 5) for place, id in enumerate(ids)}
    done = CliRunner().invoke(app, ["judge", str(run), "--scores", str(table), "--price", "1,2"])
    assert "The best of 3 by verifier" in done.output, done.output
    result = EvalResult.load(run / "result.json")
    assert sorted(result.best_of) == ["verifier"] and result.cost is not None
    again = CliRunner().invoke(app, ["judge", str(run)])
    assert "The best of 3 by verifier" in again.output, "kept with the run, under its name"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id,points\na-0,1\n", "is no table of id,score"),
        ("", "none, or one twice"),
        ("id,score\na-0,good\n", "is no table of id,score"),
        ("id,score\na-0,nan\n", "such as a-0"),
        ("id,score\na-0\n", "is no table of id,score"),
        ("id,score\nz-0,1\n", "such as z-0"),
        ("id,score\na-0,1\na-0,2\n", "none, or one twice"),
        ("id,score\n\udcff,1\n", "is no table of id,score"),
    ],
)
def test_tables_that_are_none(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=says):
        read_scores(tmp_path / "mine.csv", ["a-0"])
