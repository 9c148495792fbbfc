"""``sanderling data``: trajectories from raw files to supervision. Thin: each command has a file of its own."""

import typer

from sanderling.cli.data_clean import clean
from sanderling.cli.data_contamination import contamination
from sanderling.cli.data_dedupe import dedupe
from sanderling.cli.data_generate import generate_
from sanderling.cli.data_import import import_
from sanderling.cli.data_judge import judge
from sanderling.cli.data_resample import resample
from sanderling.cli.data_rows import rows
from sanderling.cli.data_run import run
from sanderling.cli.data_split import split
from sanderling.cli.data_stats import stats

app = typer.Typer(no_args_is_help=True)


@app.callback()
def data() -> None:
    """Turn raw trajectories into supervision."""


app.command("import")(import_)
app.command("clean")(clean)
app.command("contamination")(contamination)
app.command("dedupe")(dedupe)
app.command("resample")(resample)
app.command("rows")(rows)
app.command("run")(run)
app.command("split")(split)
app.command("stats")(stats)
app.command("judge")(judge)
app.command("generate")(generate_)
