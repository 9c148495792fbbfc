"""``sanderling synth mix``: the stages of a curriculum from measured questions. Thin: `synth.mix` draws them."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sanderling.core.config import read_config
from sanderling.core.errors import UserError
from sanderling.core.text import visible
from sanderling.data.questions import read_questions, write_questions
from sanderling.synth.mix import Mix, mix


def mix_stages(
    files: Annotated[list[Path], typer.Argument(metavar="QUESTIONS...", help="Files of questions, measured or not.")],
    plan: Annotated[Path, typer.Option("--plan", help="TOML file of stages: name, count, and parts with their shares.")],
    out: Annotated[Path, typer.Option("--out", help="Directory for one file of questions a stage.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting, such as seed=3; as often as you like.")
    ] = None,
) -> None:
    """Draw the stages of a curriculum: so many questions of each kind, each question in one stage."""
    settings = read_config(Mix, plan, overrides or [])
    questions = [question for path in files for question in read_questions(path)]
    if not questions:
        raise UserError("These files hold no question: give files that do.")
    table = Table("stage", "questions", "by part", "file")
    for mixed in mix(questions, settings):
        path = out / f"{mixed.stage.name}.jsonl"
        write_questions(path, mixed.questions)
        parts = ", ".join(f"{count:,}" for count in mixed.by_part)
        told = f"{len(mixed.questions):,}" + (f" ({mixed.short})" if mixed.short else "")
        table.add_row(escape(visible(mixed.stage.name)), told, parts, escape(visible(str(path))))
    Console().print(table)
