"""``sanderling synth show``: the questions of a file with what they rest on. Thin: `synth.show` has the lines."""

import itertools
from pathlib import Path
from typing import Annotated

import typer

from sanderling.core.text import visible
from sanderling.data.questions import read_questions
from sanderling.synth.show import shown


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File of questions (JSON lines).")],
    most: Annotated[int | None, typer.Option("--most", min=1, help="Show no more than these.")] = None,
    first: Annotated[int, typer.Option("--from", min=1, help="Begin with the question at this place.")] = 1,
    capability: Annotated[str, typer.Option(help="Only those of this capability.")] = "",
) -> None:
    """Read questions: text, answers, uniqueness, and the facts behind them with their pages and words."""
    numbered = enumerate(read_questions(file), start=1)
    wanted = (
        (number, question)
        for number, question in numbered
        if number >= first and (not capability or question.meta.get("capability") == capability)
    )
    for number, question in itertools.islice(wanted, most):
        for line in shown(question, number):
            typer.echo(visible(line))
        typer.echo()
