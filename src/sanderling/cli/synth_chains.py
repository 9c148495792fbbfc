"""``sanderling synth chains``: chains of relations over a generated encyclopedia. Thin: `synth.questions` draws them."""

import re
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.core.errors import UserError
from sanderling.core.text import visible
from sanderling.data.questions import write_questions
from sanderling.synth.graph.encyclopedia import encyclopedia_of
from sanderling.synth.questions import chain_questions
from sanderling.world.disk.store import read_manifest


def chains(
    directory: Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of a world of generated pages alone.")],
    out: Annotated[Path, typer.Option("--out", help="File of questions to write (JSON lines).")],
    count: Annotated[int, typer.Option("--count", min=1, help="How many questions.")] = 100,
    hops: Annotated[str, typer.Option("--hops", help="Relations from the named thing to the answer: 2, or 1-3.")] = "1-3",
    seed: Annotated[int, typer.Option("--seed", help="Equal world, options and seed give equal questions.")] = 0,
) -> None:
    """Draw chains of relations, equally many of each length; the scripted teacher can walk them (data generate).

    Each has one answer: every relation of the encyclopedia has one object for a subject.
    """
    found = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", hops.strip())
    least, most = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= least <= most:
        raise UserError(f"--hops {hops!r} is no number and no range from 1 on: write 2 or 1-3.")
    world = encyclopedia_of(directory)
    if world is None:
        raise UserError(f"{directory} is not just the pages of a generated encyclopedia: use sanderling synth graph for it.")
    # Which may be another name than the generated encyclopedia's, and is what others find it by.
    name = read_manifest(directory).name
    drawn = chain_questions(world, count, seed, dict.fromkeys(range(least, most + 1), 1.0))
    questions = [question.model_copy(update={"meta": {**question.meta, "world": name}}) for question in drawn]
    write_questions(out, questions)
    sizes = Counter(question.hops for question in questions)
    told = ", ".join(f"{number:,} with {size}" for size, number in sorted(sizes.items(), key=lambda item: item[0] or 0))
    Console().print(f"{len(questions):,} questions in {visible(str(out))}; hops: {told}.", markup=False, soft_wrap=True)
