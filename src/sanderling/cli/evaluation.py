"""``sanderling eval``: agents measured on benchmarks. Thin: each command has a file of its own."""

import typer

from sanderling.cli.benchmarks import agree, check, export, list_, score
from sanderling.cli.eval_judge import judge
from sanderling.cli.eval_report import report
from sanderling.cli.eval_run import run

app = typer.Typer(no_args_is_help=True)


@app.callback()
def evaluation() -> None:
    """Measure agents on public benchmarks, whose files you bring."""


app.command("list")(list_)
app.command("check")(check)
app.command("run")(run)
app.command("score")(score)
app.command("judge")(judge)
app.command("agree")(agree)
app.command("report")(report)
app.command("export")(export)
