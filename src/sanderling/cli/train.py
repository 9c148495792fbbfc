"""``sanderling train``: commands that change a model's weights. Each lives in a module of its own."""

import typer

from sanderling.cli.train_plan import plan
from sanderling.cli.train_rl import rl
from sanderling.cli.train_sft import sft

app = typer.Typer(no_args_is_help=True)
app.command("sft")(sft)
app.command("rl")(rl)
app.command("plan")(plan)
