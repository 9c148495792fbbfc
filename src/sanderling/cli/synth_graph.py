"""``sanderling synth graph``: questions of several hops from a world's facts, without a language model or with one. Thin."""

import re
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from sanderling.cli.asking import Cache, MaxCost, MaxTokens, Spending
from sanderling.cli.synth_making import Concurrency, JudgeModels, JudgePrices, ModelChoice, Prices
from sanderling.cli.synth_reading import PagesRead, PerStart, ReaderSpecs, ReadingCommand, Starts
from sanderling.core.errors import UserError
from sanderling.core.text import visible
from sanderling.data.questions import write_questions
from sanderling.runs.run import beside
from sanderling.synth.graph.capabilities import Capability, Range
from sanderling.synth.graph.encyclopedia import open_graph
from sanderling.synth.graph.making import GraphSettings, Made, make, question_of
from sanderling.synth.reading import ReadingSettings
from sanderling.world.disk.store import read_manifest


def graph(
    directory: Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of a world.")],
    out: Annotated[Path, typer.Option("--out", help="File of questions to write (JSON lines).")],
    count: Annotated[int, typer.Option(min=1, help="How many questions.")] = 100,
    size: Annotated[str, typer.Option(help="Things in the part of the graph behind a question: 6, or 5-7.")] = "5-7",
    hops: Annotated[str, typer.Option(help="Facts that a question puts together: 3, or 2-5.")] = "2-5",
    capability: Annotated[
        list[Capability] | None, typer.Option(help="What to ask of an agent; may be repeated. All by default, in turn.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Equal world, options and seed give equal questions.")] = 0,
    models: ReaderSpecs = None,
    starts: Starts = 20,
    per_start: PerStart = 2,
    read: PagesRead = 8,
    judges: JudgeModels = None,
    concurrency: Concurrency = 8,
    price: Prices = None,
    judge_price: JudgePrices = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: Cache = None,
) -> None:
    """Make multi-hop questions from the facts of a world, without a language model or with one.

    A generated encyclopedia's facts are known from its seed. Of any other world, a --model reads pages around drawn ones for
    their facts, and puts the drafted questions into its words; which answer is right, and that there is one only, follows from
    the facts alone.
    """
    sizes, lengths = _range(size, "--size", 2), _range(hops, "--hops", 1)
    if models:
        wanted = tuple(capability or ReadingSettings().graph.capabilities)
        wish = GraphSettings(count=per_start, size=sizes, hops=lengths, capabilities=wanted, seed=seed)
        settings = ReadingSettings(pages=read, graph=wish)
        choice = ModelChoice(models, judges, price, judge_price)
        spending = Spending(beside(out), max_tokens, max_cost, cache)
        ReadingCommand(directory, out, choice, settings, starts, seed, concurrency, spending).run()
        return
    if sizes.most <= lengths.least:
        raise UserError(f"A question of {lengths.least} hops needs a part of {lengths.least + 1} things: raise --size.")
    wanted = tuple(capability or Capability)
    _from_facts(directory, out, GraphSettings(count=count, size=sizes, hops=lengths, capabilities=wanted, seed=seed))


def _from_facts(directory: Path, out: Path, wish: GraphSettings) -> None:
    """Make the questions without a model, and say what came of it. Raises UserError when there is none."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        facts, info = open_graph(directory), read_manifest(directory)
        asking = bar.add_task("asking", total=wish.count)
        made = make(facts, wish, lambda done: bar.update(asking, completed=done))
    if not made.drafts:
        raise UserError(f"{directory} gave no question in {made.drawn.total():,} draws: try other --hops or --size.")
    write_questions(
        out,
        (
            question_of(facts, draft, world=info.name, fingerprint=info.fingerprint, seed=wish.seed, number=number)
            for number, draft in enumerate(made.drafts)
        ),
    )
    console = Console()
    console.print(f"{len(facts.entities):,} things and {len(facts.facts):,} facts in {visible(info.name)}.", markup=False)
    console.print(_table(made))
    console.print(_summary(made, wish, out), markup=False)


def _range(words: str, option: str, least: int) -> Range:
    """From ``6`` or ``5-7``. Raises UserError for anything else."""
    found = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", words.strip())
    if found is None:
        raise UserError(f"{option} {words!r} is no number and no range: write 6 or 5-7.")
    low, high = int(found[1]), int(found[2] or found[1])
    if not least <= low <= high:
        raise UserError(f"{option} {words} does not go upwards from {least}: write {least} or {least}-{least + 3}.")
    return Range(low, high)


def _table(made: Made) -> Table:
    """Every draw by what became of it, capability by capability."""
    table = Table("capability", "drawn", "kept", "dropped")
    for capability, drawn in made.drawn.items():
        reasons = made.dropped.get(capability, Counter())
        told = ", ".join(f"{number:,} {reason}" for reason, number in reasons.most_common()) or "none"
        table.add_row(capability.value, f"{drawn:,}", f"{made.kept[capability]:,}", told)
    return table


def _summary(made: Made, wish: GraphSettings, out: Path) -> str:
    hops = Counter(draft.hops for draft in made.drafts)
    lines = [
        f"{len(made.drafts):,} questions in {visible(str(out))}; capabilities: {len(made.kept)} of {len(Capability)}.",
        "Hops: " + ", ".join(f"{number:,} with {size}" for size, number in sorted(hops.items())) + ".",
        f"Uniqueness: {len(made.drafts):,} proven.",
    ]
    if len(made.drafts) < wish.count:
        lines.append(
            f"No more than that were found of the {wish.count:,} asked for: another --seed, --size or --hops may find others."
        )
    return "\n".join(lines)
