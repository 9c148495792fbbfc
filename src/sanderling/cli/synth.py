"""``sanderling synth``: questions from a world. Thin: each command has a file of its own."""

import typer

from sanderling.cli.synth_chains import chains
from sanderling.cli.synth_difficulty import difficulty
from sanderling.cli.synth_facts import facts
from sanderling.cli.synth_graph import graph
from sanderling.cli.synth_grow import grow
from sanderling.cli.synth_mix import mix_stages
from sanderling.cli.synth_show import show
from sanderling.cli.synth_verify import verify

app = typer.Typer(no_args_is_help=True)


@app.callback()
def synth() -> None:
    """Make questions from a world."""


app.command()(chains)
app.command()(facts)
app.command()(graph)
app.command()(verify)
app.command()(difficulty)
app.command()(grow)
app.command("mix")(mix_stages)
app.command()(show)
