"""``sanderling synth``: questions from a world, and which of them are worth asking. Thin: `sanderling.synth` does the work.

Exit status 3 when something is still to be done (a model was not reached, or the budget is spent), 130 after Ctrl-C: the same
command goes on.
"""

import asyncio
import itertools
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

from sanderling.cli import exits
from sanderling.cli.attempting import ShowProgress, generated
from sanderling.cli.options import (
    AGENT,
    BUDGET,
    PLACE,
    RUN,
    ConfigFile,
    Judges,
    MaxCost,
    MaxTokens,
    Model,
    ProfileName,
    Set,
    Web,
    Worlds,
    settings,
    show,
    table,
)
from sanderling.cli.watch import show_retry
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.text import visible
from sanderling.data.questions import read_questions, write_questions
from sanderling.rl.curriculum import META, Band
from sanderling.runs.progress import Report
from sanderling.synth.facts import FactsConfig, make_facts
from sanderling.synth.generate import DifficultyConfig, band_file, sort_attempts
from sanderling.synth.graph.capabilities import Capability
from sanderling.synth.graph.encyclopedia import encyclopedia_of, open_graph
from sanderling.synth.graph.making import GraphSettings, make, question_of
from sanderling.synth.grow import GrowthConfig, grow_world
from sanderling.synth.mix import Mix, mix
from sanderling.synth.pages import MakingReport
from sanderling.synth.questions import chain_questions
from sanderling.synth.reading import ReadingConfig, make_readings
from sanderling.synth.verify import Check, VerifyConfig, verify_file
from sanderling.world.disk.store import read_manifest

app = typer.Typer(no_args_is_help=True)
WRITING = "Who writes and reads"
_MODEL = "http://host:port/v1#model or a model's directory; several stand in for one another."


@app.callback()
def synth() -> None:
    """Make questions from a world, and keep those that are worth asking."""


def _option(name: str, panel: str, help: str, **more: Any) -> Any:
    return typer.Option(name, help=help, rich_help_panel=panel, **more)


World = Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of a world.")]
File = Annotated[Path, typer.Argument(metavar="QUESTIONS", help="File of questions.")]
Out = Annotated[Path, typer.Option("--out", help="File of questions to write (JSON lines).")]
Hops = Annotated[str | None, typer.Option("--hops", metavar="N-M", help="Facts that a question puts together; 2-5 by default.")]
SeedOf = Annotated[int | None, _option("--seed", RUN, "Equal world, settings and seed: equal questions.")]
Models = Annotated[list[str] | None, _option("--model", WRITING, _MODEL)]
JudgeModels = Annotated[
    list[str] | None, _option("--judge-model", WRITING, "Who judges what was written; the writers themselves by default.")
]
Price = Annotated[list[str] | None, _option("--price", BUDGET, "Of a model, per million tokens: PROMPT,SAMPLED.")]


def _asking(models: Any, price: Any, tokens: Any, cost: Any) -> dict[str, Any]:
    """What the options say of models and money, by the key of their setting."""
    return {"models": models, "prices": price, "budget.max_tokens": tokens, "budget.max_cost": cost}


@app.command()
def chains(
    directory: World,
    out: Out,
    count: Annotated[int, typer.Option("--count", min=1, help="How many questions.")] = 100,
    hops: Annotated[str, typer.Option("--hops", metavar="N-M", help="Relations from the named thing to the answer.")] = "1-3",
    seed: Annotated[int, typer.Option("--seed", help="Equal world, options and seed: equal questions.")] = 0,
) -> None:
    """Draw chains of relations over a generated encyclopedia, equally many of each length.

    Each has one answer: every relation has one object for a subject. The scripted teacher can walk them (data generate).
    """
    least, most = _range("--hops", hops) or (0, 0)
    if not 1 <= least <= most:
        raise UserError(f"--hops {hops} does not go upwards from 1: write 2 or 1-3.")
    world = encyclopedia_of(directory)
    if world is None:
        raise UserError(f"{directory} is not just the pages of a generated encyclopedia: use sanderling synth graph for it.")
    drawn = chain_questions(world, count, seed, dict.fromkeys(range(least, most + 1), 1.0))
    name = read_manifest(directory).name  # perhaps another than the encyclopedia's, and what others find it by
    write_questions(out, [one.model_copy(update={"meta": {**one.meta, "world": name}}) for one in drawn])
    show(f"{len(drawn):,} questions in {out}; hops: {_by_hops(drawn)}.")


@app.command()
def graph(
    directory: World,
    out: Out,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="Questions: 100 by default; with a model, around each page: 2.")
    ] = None,
    size: Annotated[str | None, typer.Option("--size", metavar="N-M", help="Things behind a question; 5-7 by default.")] = None,
    hops: Hops = None,
    capability: Annotated[
        list[Capability] | None, typer.Option("--capability", help="What to ask of an agent; repeatable. All, in turn.")
    ] = None,
    seed: SeedOf = None,
    models: Models = None,
    pages: Annotated[int | None, _option("--pages", WRITING, "Pages to read on from, drawn; 20 by default.", min=1)] = None,
    price: Price = None,
    tokens: MaxTokens = None,
    cost: MaxCost = None,
    file: ConfigFile = None,
    sets: Set = None,
) -> None:
    """Make multi-hop questions from the facts of a world, without a language model or with one.

    A generated encyclopedia's facts are known from its seed. Of any other world, a --model reads pages around drawn ones for
    their facts, and puts the drafted questions into its words; which answer is right, and that there is one only, follows from
    the facts alone.
    """
    drawn = {"count": count, "size": _range("--size", size), "hops": _range("--hops", hops), "seed": seed}
    drawn["capabilities"] = capability or None
    if not models:
        _from_facts(directory, out, settings(GraphSettings, file, sets, drawn))
        return
    given = {f"reading.graph.{key}": value for key, value in drawn.items()} | _asking(models, price, tokens, cost)
    given |= {"world": directory, "out": out, "pages": pages, "seed": seed}
    _make(partial(make_readings, settings(ReadingConfig, file, sets, given)), out)


def _from_facts(directory: Path, out: Path, wanted: GraphSettings) -> None:
    """Make questions of a generated world without a model, and say what came of every draw."""
    facts, info = open_graph(directory), read_manifest(directory)
    with Report(Console(stderr=True)).task("asking", wanted.count) as advance:
        made = make(facts, wanted, lambda _: advance())
    if not made.drafts:
        raise UserError(f"{directory} gave no question in {made.drawn.total():,} draws: try other --hops or --size.")
    place = {"world": info.name, "fingerprint": info.fingerprint, "seed": wanted.seed}
    questions = [question_of(facts, draft, **place, number=number) for number, draft in enumerate(made.drafts)]
    write_questions(out, questions)
    found = table("capability", ">drawn", ">kept", "dropped")
    for capability, drawn in made.drawn.items():
        reasons = made.dropped.get(capability, Counter())
        told = ", ".join(f"{number:,} {reason}" for reason, number in reasons.most_common()) or "none"
        found.add_row(capability.value, f"{drawn:,}", f"{made.kept[capability]:,}", told)
    show(
        f"{len(facts.entities):,} things and {len(facts.facts):,} facts in {info.name}.",
        found,
        f"{len(questions):,} questions in {out}; capabilities: {len(made.kept)} of {len(Capability)}.",
        f"Hops: {_by_hops(questions)}.",
        f"Uniqueness: {len(questions):,} proven.",
    )
    if len(questions) < wanted.count:
        show(f"No more were found of the {wanted.count:,} asked for: another --seed, --size or --hops may find others.")


@app.command()
def facts(
    directory: World,
    out: Out,
    models: Models = None,
    judges: JudgeModels = None,
    pages: Annotated[int | None, typer.Option("--pages", min=1, help="Pages that are drawn; 100 by default.")] = None,
    added: Annotated[bool | None, typer.Option("--added", help="Draw from the world's last addition alone.")] = None,
    seed: SeedOf = None,
    price: Price = None,
    tokens: MaxTokens = None,
    cost: MaxCost = None,
    file: ConfigFile = None,
    sets: Set = None,
) -> None:
    """Make short-answer questions from pages: each stands alone, passes seven points, and hides its own page."""
    given = {"world": directory, "out": out, "judge_models": judges, "pages": pages, "added": added, "seed": seed}
    _make(partial(make_facts, settings(FactsConfig, file, sets, given | _asking(models, price, tokens, cost))), out)


@app.command()
def verify(
    questions: File,
    directory: Annotated[Path, typer.Option("--world", help="Directory of the world that they are asked in.")],
    out: Annotated[Path, typer.Option("--out", help="The questions that pass, with what each check found.")],
    checks: Annotated[
        list[Check] | None, typer.Option("--check", help="Repeatable. All that go by rule, and with --model all.")
    ] = None,
    models: Models = None,
    judges: Judges = None,
    price: Price = None,
    tokens: MaxTokens = None,
    cost: MaxCost = None,
    file: ConfigFile = None,
    sets: Set = None,
) -> None:
    """Keep the questions that can be answered, and not without research.

    Checked in this order, until one fails: the question holds its answer (giveaway); the world, with the question's mask,
    does not hold it (evidence); titles and snippets tell it (snippets); another answer is found (unique); a model knows it
    (closed-book). Whether an agent finds the answer is measured by ``synth difficulty``.
    """
    given = {"questions": questions, "world": directory, "out": out, "checks": checks or None, "judge.judges": judges or None}
    report = _run(partial(verify_file, settings(VerifyConfig, file, sets, given | _asking(models, price, tokens, cost))))
    found = table("check", ">failed", ">untold", "first that failed")
    for check in Check:
        if report.failed[check] or report.unscored[check]:
            example = escape(visible(report.examples.get(check, ""))[:200])
            found.add_row(check.value, f"{report.failed[check]:,}", f"{report.unscored[check]:,}", example)
    show(*([found] if found.row_count else []), f"{report.kept:,} of {report.questions:,} questions in {out}")
    _end(report, "questions met no model")


@app.command()
def grow(
    directory: Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of the world that grows.")],
    questions: File,
    source: Annotated[
        Path | None, _option("--from", PLACE, "World that is searched, such as a far larger one; or --web.")
    ] = None,
    web: Web = None,
    models: Annotated[list[str] | None, _option("--model", WRITING, "Who proposes queries beside the question.")] = None,
    price: Price = None,
    tokens: MaxTokens = None,
    cost: MaxCost = None,
    file: ConfigFile = None,
    sets: Set = None,
) -> None:
    """Search for every question, and add the pages that are new to the world; the next questions can be made of them."""
    given = {"world": directory, "questions": questions, "source": source, "web": web}
    report = _run(partial(grow_world, settings(GrowthConfig, file, sets, given | _asking(models, price, tokens, cost))))
    left = ", ".join(f"{count:,} {reason}" for reason, count in report.left_out.most_common()) or "none"
    show(
        f"{report.queries:,} queries of {report.questions:,} questions found {report.pages:,} new pages",
        f"found again by another question: {report.repeated:,}; left out: {left}",
        f"{directory} took in {report.added:,} pages",
    )
    _end(report, "questions were not searched for")


@app.command()
def difficulty(
    questions: File,
    out: Annotated[Path, typer.Option("--out", help="The questions that are kept; the other bands lie beside it.")],
    model: Model = None,
    made: Annotated[
        Path | None, _option("--from", AGENT, "Attempts that were made and judged before (data generate), for a model.")
    ] = None,
    world: Worlds = None,
    profile: ProfileName = None,
    attempts: Annotated[int | None, typer.Option("--attempts", min=1, help="At each question; 8 by default.")] = None,
    keep: Annotated[str | None, typer.Option("--keep", metavar="N-M", help="So many must be right; 1-7 by default.")] = None,
    judges: Judges = None,
    price: Annotated[str | None, _option("--price", BUDGET, "Of the agent, per million tokens: PROMPT,SAMPLED.")] = None,
    tokens: MaxTokens = None,
    cost: MaxCost = None,
    progress: ShowProgress = True,
    file: ConfigFile = None,
    sets: Set = None,
) -> None:
    """Let an agent try every question several times, and keep those that are neither too easy nor too hard for it.

    Killed or stopped, the same command goes on; questions whose band is not told yet are in NAME.untold.jsonl.
    """
    least, most = _range("--keep", keep) or (None, None)
    band = {"attempts": attempts, "least_right": least, "most_right": most}
    agent = {"model": model, "worlds": world or None, "profile": profile, "price": price}
    given = {"questions": questions, "out": out, "made": made, "judge.judges": judges or None}
    given |= {"budget.max_tokens": tokens, "budget.max_cost": cost}
    given |= {f"band.{key}": value for key, value in band.items()} | {f"agent.{key}": value for key, value in agent.items()}
    config = settings(DifficultyConfig, file, sets, given)
    unfinished = generated(config.generating, "measuring", progress=progress) if config.generating else 0
    bands, rates = sort_attempts(config)
    found = table("band", ">questions", "file")
    for name, sorted_in in bands.items():
        found.add_row(name.value, f"{len(sorted_in):,}", escape(visible(str(band_file(out, name)))))
    lengths = sorted({question.meta[META]["length"] for question in bands[Band.KEPT]})
    show(
        found,
        f"right of scored: {', '.join(f'{rate}: {number:,}' for rate, number in rates.items())}",
        f"length bands of the kept: {', '.join(lengths) or 'none'}",
    )
    if unfinished:
        raise typer.Exit(unfinished)


@app.command("mix")
def mix_stages(
    files: Annotated[list[Path], typer.Argument(metavar="QUESTIONS...", help="Files of questions, measured or not.")],
    plan: Annotated[Path, typer.Option("--plan", help="TOML file of stages: name, count, and parts with their shares.")],
    out: Annotated[Path, typer.Option("--out", help="Directory for one file of questions a stage.")],
    sets: Set = None,
) -> None:
    """Draw the stages of a curriculum: so many questions of each kind, each question in one stage."""
    wanted = settings(Mix, plan, sets)
    questions = [question for path in files for question in read_questions(path)]
    if not questions:
        raise UserError("These files hold no question: give files that do.")
    found = table("stage", ">questions", "by part", "file")
    for mixed in mix(questions, wanted):
        path = out / f"{mixed.stage.name}.jsonl"
        write_questions(path, mixed.questions)
        told = f"{len(mixed.questions):,}" + (f" ({mixed.short})" if mixed.short else "")
        found.add_row(escape(mixed.stage.name), told, ", ".join(map(str, mixed.by_part)), escape(visible(str(path))))
    show(found)


@app.command("show")
def show_questions(
    file: File,
    most: Annotated[int | None, typer.Option("--most", min=1, help="Show no more than these.")] = None,
    first: Annotated[int, typer.Option("--from", min=1, help="Begin with the question at this place.")] = 1,
    capability: Annotated[str, typer.Option("--capability", help="Only those of this capability.")] = "",
) -> None:
    """Read questions: text, answers, uniqueness, and the facts behind them with their pages and words."""
    numbered = itertools.islice(enumerate(read_questions(file), start=1), first - 1, None)
    wanted = ((number, one) for number, one in numbered if not capability or one.meta.get("capability") == capability)
    for number, question in itertools.islice(wanted, most):
        for line in _shown(question, number):
            typer.echo(visible(line))
        typer.echo()


def _shown(question: Question, number: int) -> Iterator[str]:
    """The lines of one question; what its ``meta`` lacks is not shown."""
    meta, answers = question.meta, question.answers
    told = [str(meta[key]) for key in ("capability", "form", "uniqueness") if meta.get(key)]
    if question.hops is not None:
        told.insert(0, f"{question.hops} {'hop' if question.hops == 1 else 'hops'}")
    more = f" (and {len(answers) - 4} other ways to write it)" if len(answers) > 4 else ""
    yield f"{number}. {question.text}"
    yield f"   answer: {' | '.join(answers[:4]) or '(unknown)'}{more}"
    if told:
        yield f"   {', '.join(told)}"
    if path := meta.get("path"):
        yield f"   path: {' > '.join(map(str, path))}"
    facts = meta.get("facts")
    for fact in (fact for fact in facts if isinstance(fact, Mapping)) if isinstance(facts, list) else ():
        yield f"   * {' — '.join(str(fact[key]) for key in ('subject', 'relation', 'object') if fact.get(key)) or fact}"
        if fact.get("url"):
            yield f"     {fact['url']}"
        if fact.get("quote"):
            yield f"     “{fact['quote']}”"
    for url in question.masked_urls:
        yield f"   hidden: {url}"


def _range(option: str, words: str | None) -> tuple[int, int] | None:
    """From ``6`` or ``5-7``. Raises UserError for anything else."""
    if words is None:
        return None
    found = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", words.strip())
    if found is None:
        raise UserError(f"{option} {words!r} is no number and no range: write 6 or 5-7.")
    return int(found[1]), int(found[2] or found[1])


def _by_hops(questions: list[Question]) -> str:
    counts = Counter(question.hops or 0 for question in questions)
    return ", ".join(f"{number:,} with {size}" for size, number in sorted(counts.items()))


class _Unfinished(Protocol):
    """What every report of work with models says."""

    outages: int
    stopped: str
    spent: str


Made = TypeVar("Made", bound=_Unfinished)


def _run(work: Callable[..., Awaitable[Made]]) -> Made:
    """Run it to its end under a progress bar; Ctrl-C says how to go on, and exits with 130."""
    console = Console(stderr=True)

    async def all_of_it() -> Made:
        return await work(progress=Report(console), on_retry=partial(show_retry, console))

    try:
        return asyncio.run(all_of_it())
    except KeyboardInterrupt:
        show("Stopped. The same command goes on: what is done is kept.", error=True)
        raise typer.Exit(exits.INTERRUPTED) from None


def _make(work: Callable[..., Awaitable[MakingReport]], out: Path) -> None:
    """Make questions page by page, and say what became of them."""
    report = _run(work)
    found = table("rejected because", ">count", "first")
    for reason, count in report.rejected.most_common():
        found.add_row(escape(visible(reason)), f"{count:,}", escape(visible(report.examples.get(reason, ""))[:160]))
    show(
        *([found] if report.rejected else []),
        *(f"{name}: {count:,}" for name, count in sorted(report.figures.items())),
        f"{report.kept:,} questions of {report.pages:,} pages in {out}",
    )
    _end(report, "pages met no model")


def _end(report: _Unfinished, waiting: str) -> None:
    """What models took, what is still to be done, and exit status 3 for it; ``waiting`` says what outages are."""
    if report.spent:
        show(report.spent)
    if report.stopped:
        show(f"Stopped: {report.stopped} The same command with a larger limit goes on.")
    if report.outages:
        show(f"{report.outages:,} {waiting}: the same command goes on with them.")
    if report.stopped or report.outages:
        raise typer.Exit(exits.UNFINISHED)
