"""``sanderling synth``: questions from a world, and which of them are worth asking. Thin: `sanderling.synth` does the work.

Exit status 3 when something is still to be done, 130 after Ctrl-C: run the same command again to resume.
"""

import asyncio
import itertools
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

from sanderling.cli import UNFINISHED
from sanderling.cli import options as common
from sanderling.cli.attempting import generated
from sanderling.cli.options import argument, counted, option, settings, show, table
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.text import visible
from sanderling.data.questions import check_questions, read_questions, write_questions
from sanderling.runs.files import check_places
from sanderling.runs.progress import Report
from sanderling.runs.stages import after_interrupt
from sanderling.synth.capabilities import Capability
from sanderling.synth.chains import chain_questions
from sanderling.synth.elimination import Form, elimination_questions
from sanderling.synth.facts import FactsConfig, make_facts
from sanderling.synth.generate import Band, DifficultyConfig, band_file, sort_attempts
from sanderling.synth.graph import encyclopedia_of, open_graph
from sanderling.synth.grow import GrowthConfig, grow_world
from sanderling.synth.making import GraphSettings, make, question_of
from sanderling.synth.pages import MakingReport, Outcome
from sanderling.synth.reading import ReadingConfig, make_readings
from sanderling.synth.verify import Check, VerifyConfig, verify_file
from sanderling.world.disk.store import read_manifest
from sanderling.world.encyclopedia import Encyclopedia

app = typer.Typer(no_args_is_help=True, help="Make questions from a world, and keep those that are worth asking.")
_COUNT = "Questions: 100 by default; with a model, around each page: 2."
World = Annotated[Path, argument("WORLD", "Directory of a world.")]
File = Annotated[Path, argument("QUESTIONS", "File of questions.")]
Out = Annotated[Path, option("--out", "File of questions to write (JSON lines).")]
Hops = Annotated[str | None, option("--hops", "Hops of a question.", "N-M")]
SeedOf = Annotated[int | None, option("--seed", "The same world, settings and seed give the same questions.")]
Models = Annotated[list[str] | None, option("--model", "Writes and reads: http://host:port/v1#model or a directory.")]
Pages = Annotated[int | None, option("--pages", "With a model: pages that are drawn.", min=1)]
Capabilities = Annotated[list[Capability] | None, option("--capability", "What to ask of an agent; repeatable. All, in turn.")]
Made = TypeVar("Made", bound=Outcome)


@app.command()
def chains(
    directory: World,
    out: Out,
    count: Annotated[int, option("--count", "How many questions.", min=1)] = 100,
    hops: Hops = "1-3",
    seed: SeedOf = 0,
) -> None:
    """Draw chains of relations over a generated encyclopedia, equally many of each length.

    Each has one answer: every relation has one object for a subject. The scripted teacher can walk them (data generate).
    """
    least, most = _range("--hops", hops) or (0, 0)
    if not 1 <= least <= most:
        raise UserError(f"--hops {hops} does not go upwards from 1: write 2 or 1-3.")
    shares = dict.fromkeys(range(least, most + 1), 1.0)
    _draw(directory, out, lambda world: chain_questions(world, count, seed or 0, shares))


@app.command()
def elimination(
    directory: World,
    out: Out,
    count: Annotated[int, option("--count", "How many questions.", min=1)] = 100,
    form: Annotated[
        Form, option("--form", "Short: 2-3 registers. Long: 10 pages, most of which lead to two of these.")
    ] = Form.LONG,
    seed: SeedOf = 0,
) -> None:
    """Ask over an encyclopedia with registers who of eight people fulfils all conditions: each register rules some of them out.

    The scripted teacher can answer them (data generate). A question names its answer, so verify it with --check evidence.
    """
    _draw(directory, out, lambda world: elimination_questions(world, count, seed or 0, form))


def _draw(directory: Path, out: Path, questions: Callable[[Encyclopedia], list[Question]]) -> None:
    """Write the questions over a world that is a generated encyclopedia. Raises UserError for any other."""
    check_questions(out)
    world = encyclopedia_of(directory)
    if world is None:
        raise UserError(f"{directory} is not just the pages of a generated encyclopedia: use sanderling synth graph for it.")
    drawn = questions(world)
    name = read_manifest(directory).name  # perhaps another than the encyclopedia's, and what others find it by
    write_questions(out, [one.model_copy(update={"meta": {**one.meta, "world": name}}) for one in drawn])
    show(f"{len(drawn):,} questions in {out}.")


@app.command()
def graph(
    directory: World,
    out: Out,
    count: Annotated[int | None, option("--count", _COUNT, min=1)] = None,
    size: Annotated[str | None, option("--size", "Things behind a question; 5-7 by default.", "N-M")] = None,
    hops: Hops = None,
    capability: Capabilities = None,
    seed: SeedOf = None,
    models: Models = None,
    pages: Pages = None,
    tokens: common.MaxTokens = None,
    file: common.ConfigFile = None,
    sets: common.Set = None,
) -> None:
    """Make multi-hop questions (2-5 hops by default) from the facts of a world, without a language model or with one.

    A generated encyclopedia's facts are known from its seed. Of any other world, a --model reads pages around drawn ones for
    their facts, and puts the drafted questions into its words; which answer is right, and that there is one only, follows from
    the facts alone.
    """
    drawn = {"count": count, "size": _range("--size", size), "hops": _range("--hops", hops), "seed": seed}
    drawn["capabilities"] = capability or None
    if models:
        given = {f"graph.{key}": value for key, value in drawn.items()} | {"budget.max_tokens": tokens, "seed": seed}
        given |= {"world": directory, "out": out, "pages": pages, "models": models}
        _make(partial(make_readings, settings(ReadingConfig, file, sets, given)), out)
        return
    wanted = settings(GraphSettings, file, sets, drawn)
    check_questions(out)
    facts, info = open_graph(directory), read_manifest(directory)
    with Report(Console(stderr=True)).task("asking", wanted.count) as advance:
        made = make(facts, wanted, lambda _: advance())
    if not made.drafts:
        raise UserError(f"{directory} gave no question: try other --hops or --size.")
    place = {"world": info.name, "fingerprint": info.fingerprint, "seed": wanted.seed}
    questions = [question_of(facts, draft, **place, number=number) for number, draft in enumerate(made.drafts)]
    write_questions(out, questions)
    show(f"{len(questions):,} questions in {out}: {counted(made.kept)}; other draws: {counted(made.dropped)}.")
    if len(questions) < wanted.count:
        show(f"No more were found of the {wanted.count:,} asked for: another --seed, --size or --hops may find others.")


@app.command()
def facts(
    directory: World,
    out: Out,
    models: Models = None,
    judges: Annotated[list[str] | None, option("--judge-model", "Judges what was written; default: the same model.")] = None,
    pages: Pages = None,
    added: Annotated[bool | None, option("--added", "Draw from the world's last addition alone.")] = None,
    seed: SeedOf = None,
    tokens: common.MaxTokens = None,
    file: common.ConfigFile = None,
    sets: common.Set = None,
) -> None:
    """Make short-answer questions from pages: each stands alone, passes seven points, and hides its own page."""
    given = {"world": directory, "out": out, "judge_models": judges, "pages": pages, "added": added, "seed": seed}
    given |= {"models": models, "budget.max_tokens": tokens}
    _make(partial(make_facts, settings(FactsConfig, file, sets, given)), out)


@app.command()
def verify(
    questions: File,
    directory: Annotated[Path, option("--world", "Directory of the world that they are asked in.")],
    out: Annotated[Path, option("--out", "The questions that pass, with what each check found.")],
    checks: Annotated[list[Check] | None, option("--check", "Repeatable; all by default.")] = None,
) -> None:
    """Keep the questions that can be answered, and not without research.

    Checked in this order, until one fails: the question holds its answer (giveaway); the world, with the question's mask,
    does not hold it (evidence); titles and snippets tell it (snippets). Whether an agent finds the answer is measured by
    ``synth difficulty``.
    """
    given = {"questions": questions, "world": directory, "out": out, "checks": checks or None}
    report = asyncio.run(verify_file(settings(VerifyConfig, given=given), Report(Console(stderr=True))))
    _reasons("failed", report.failed, report.examples)
    show(f"{report.kept:,} questions passed and are in {out}")


@app.command()
def grow(
    directory: World,
    questions: File,
    source: Annotated[Path | None, option("--from", "World that is searched, such as a larger one; or --web.")] = None,
    web: common.Web = None,
    file: common.ConfigFile = None,
    sets: common.Set = None,
) -> None:
    """Search for every question, and add the pages that are new to the world; the next questions can be made of them."""
    given = {"world": directory, "questions": questions, "source": source, "web": web}
    report = _run(partial(grow_world, settings(GrowthConfig, file, sets, given)))
    found = f"{report.questions:,} questions found {report.pages:,} new pages; left out: {counted(report.left_out)}"
    show(found, f"{directory} took in {report.added:,} pages")
    _end(report)


@app.command()
def difficulty(
    questions: File,
    out: Annotated[Path, option("--out", "The questions that are kept; the other bands lie beside it.")],
    model: common.Model = None,
    world: common.Worlds = None,
    profile: common.ProfileName = None,
    attempts: common.Attempts = None,
    keep: Annotated[
        str | None, option("--keep", "Keep questions with this many correct attempts; by default neither none nor all.", "N-M")
    ] = None,
    judges: common.Judges = None,
    tokens: common.MaxTokens = None,
    file: common.ConfigFile = None,
    sets: common.Set = None,
) -> None:
    """Let an agent try every question several times, and keep those neither too easy nor too hard for it.

    If interrupted, run the same command again to resume; questions whose band is not known yet are in NAME.untold.jsonl.
    """
    least, most = _range("--keep", keep) or (None, None)
    given = {"questions": questions, "out": out, "judge.judges": judges or None, "budget.max_tokens": tokens}
    given |= {"band.attempts": attempts, "band.least_right": least, "band.most_right": most}
    given |= {"agent.model": model, "agent.worlds": world or None, "agent.profile": profile}
    config = settings(DifficultyConfig, file, sets, given)
    files = [band_file(config.out, band) for band in Band]
    check_places([config.questions], files)
    check_questions(*files)
    unfinished = generated(config.generating, "measuring", progress=True)
    bands, rates = sort_attempts(config)
    found = table("band", ">questions", "file")
    for name, sorted_in in bands.items():
        found.add_row(name.value, f"{len(sorted_in):,}", escape(visible(str(band_file(out, name)))))
    show(found, f"right of scored: {', '.join(f'{rate}: {number:,}' for rate, number in rates.items())}")
    if unfinished:
        raise typer.Exit(unfinished)


@app.command("show")
def show_questions(file: File, most: Annotated[int | None, option("--most", "Show no more than these.", min=1)] = None) -> None:
    """Read questions: text, answers, uniqueness, and the facts behind them with their pages and words."""
    for number, question in enumerate(itertools.islice(read_questions(file), most), start=1):
        meta = question.meta
        show(f"{number}. {question.text}", f"   answer: {' | '.join(question.answers[:4])}; {meta.get('uniqueness', '')}")
        for fact in meta.get("facts") or []:
            show(f"   * {fact['subject']} — {fact['relation']} — {fact['object']}: {fact['url']} “{fact['quote']}”")
        show(*(f"   hidden: {url}" for url in question.masked_urls))


def _range(option: str, text: str | None) -> tuple[int, int] | None:
    """From ``6`` or ``5-7``. Raises UserError for anything else."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", text.strip())
    if found is None:
        raise UserError(f"{option} {text!r} is no number and no range: write 6 or 5-7.")
    return int(found[1]), int(found[2] or found[1])


def _reasons(heading: str, counts: Counter[Any], examples: Mapping[Any, str]) -> None:
    """A table of why questions were not kept, with the first of each reason."""
    found = table(heading, ">count", "first")
    for reason, count in counts.most_common():
        found.add_row(escape(visible(str(reason))), f"{count:,}", escape(visible(examples.get(reason, ""))[:200]))
    if counts:
        show(found)


def _run(work: Callable[..., Coroutine[Any, Any, Made]]) -> Made:
    """Run it to its end under a progress bar; Ctrl-C says how to go on, and exits with 130."""
    with after_interrupt():
        return asyncio.run(work(progress=Report(Console(stderr=True))))


def _make(work: Callable[..., Coroutine[Any, Any, MakingReport]], out: Path) -> None:
    """Make questions page by page, and say what became of them."""
    report = _run(work)
    _reasons("rejected because", report.rejected, report.examples)
    show(f"{report.kept:,} questions of {report.pages:,} pages in {out}", report.spent)
    _end(report)


def _end(report: Outcome) -> None:
    """What is still to be done, and exit status 3 for it."""
    if report.stopped:
        show(f"Stopped: {report.stopped} Run the same command with a larger limit to resume.")
    if report.outages:
        show(f"{report.outages:,} were not done, since nobody answered: run the same command again for them.")
    if report.stopped or report.outages:
        raise typer.Exit(UNFINISHED)
