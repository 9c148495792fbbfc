"""``sanderling doctor``: what a model's server speaks, and the command to use it with."""

import asyncio
import shlex
from functools import partial
from typing import Annotated

import typer

from sanderling.cli import NO_ANSWER
from sanderling.cli.options import option, show, table
from sanderling.core.errors import UserError
from sanderling.core.text import visible
from sanderling.policy.doctor import examine
from sanderling.policy.load import is_endpoint


def doctor(
    model: Annotated[str, option("--model", "http://host:port/v1, with #model where it serves several.", "URL")],
) -> None:
    """Find out in a few calls whether a server can research: tools, context, reasoning, token ids."""
    if not is_endpoint(model):
        raise UserError(f"{model!r} is no server's address: write http://host:port/v1#model.")
    show("A few calls, as long as the model takes for up to 2,048 tokens each:", error=True)
    found = asyncio.run(examine(model, partial(show, error=True)))
    marks = {True: "yes", False: "no", None: ""}
    shown = table("what", "", "found")
    for one in found.findings:
        shown.add_row(one.about, marks[one.good], visible(one.text))
    show(shown)
    if not found.model:
        show("It cannot research as it is: see the lines marked no.")
        raise typer.Exit(NO_ANSWER)
    show(f"Ask with:\n  sanderling ask 'QUESTION' --docs FOLDER --model {shlex.quote(found.model)}")
