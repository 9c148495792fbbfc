"""``sanderling world``: build a world, look at it, search it, visit its pages, serve it. Thin: `world` does the work."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from sanderling.agent.opening import PlaceConfig, opened_reader
from sanderling.cli import exits
from sanderling.cli.options import PLACE, Faults, Set, or_help, settings, show, table
from sanderling.core.asking import AskingOutageError
from sanderling.core.config import load_config, to_toml
from sanderling.core.errors import UserError
from sanderling.core.profiles import PROFILES, ResultLayout, get_profile
from sanderling.core.text import visible
from sanderling.core.types import ToolStatus
from sanderling.runs.files import or_cannot, replace_file
from sanderling.tools.contract import ToolContext, ToolOutageError
from sanderling.tools.layouts import parts_note, status_sentence, visit_miss
from sanderling.tools.page_reader import OnOutage
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import VisitReply
from sanderling.world.dense.embedders import FORMS, open_embedder, opens_socket
from sanderling.world.dense.vectors import DIRECTORY, DenseSettings, embed_world, read_info, settings_for
from sanderling.world.disk.building import SourceAccount
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.pages import WorldCounts
from sanderling.world.disk.store import WorldInfo, add_to_world, build_world, open_world, read_manifest
from sanderling.world.milvus import VectorIndex, push_world
from sanderling.world.opening import open_as_met
from sanderling.world.recorded import REPLAY_FILE, Unit
from sanderling.world.sources.base import Limits, Source
from sanderling.world.sources.gathering import Gathering
from sanderling.world.sources.kinds import SOURCES, open_source, open_sources, remember_sources

_FIRST = ("build", "add", "info", "search", "visit")


class _Commands(TyperGroup):
    """Lists what everybody needs before the rest; of itself a group stands last."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))


app = typer.Typer(help="Offline worlds: build, look at, search, visit.", no_args_is_help=True, cls=_Commands)
build = typer.Typer(help="Build a world from a source of pages.", no_args_is_help=True)
app.add_typer(build, name="build")


def _place(name: str, help: str) -> Any:
    return typer.Option(name, help=help, rich_help_panel=PLACE)


Where = Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of a world.")]
Out = Annotated[Path, typer.Option("--out", help="Directory of the new world; must not exist.")]
Name = Annotated[str, typer.Option(help="The world's name, as trajectories record it; the first source's by default.")]
AsProfile = Annotated[
    str | None, typer.Option("--profile", help=f"Show what an agent of this profile reads: {', '.join(PROFILES)}.")
]
Results = Annotated[list[Path], typer.Option(help="An evaluation's result (JSON); repeat it, one for each agent.")]
RecordedCalls = Annotated[
    Path, typer.Option("--from", help="Directory of recorded trajectories, of any known layout, or a file of ask --record.")
]
_KINDS = "Folders, archives, dumps, JSON lines, other worlds; or KIND:REST, such as recorded:TRAJECTORIES. Kinds: "
Sources = Annotated[list[str], typer.Argument(metavar="SOURCE...", help=_KINDS + ", ".join(SOURCES))]
BaseUrl = Annotated[
    str, typer.Option(help="Address that the paths of folders, ZIM files and dumps stand below; local://NAME/ by default.")
]
Workers = Annotated[int, typer.Option(min=1, help="Processes that read documents. More give the same world, sooner.")]
WorldSeed = Annotated[int, _place("--world-seed", "Equal seeds give equal delays and faults.")]
Search = Annotated[SearchMode, _place("--search", "Rank by words, nearness, or both fused; the last two want `world embed`.")]

AGAIN = "Interrupted: the same command goes on from here."
_WORDS = 2_000
_DIALECTS = "native, serper, jina, literesearcher, search_r1, asearcher, mcp"
_LONGEST_ADDRESS = 300


# building


@build.command("from")
def build_from(
    sources: Sources,
    out: Out,
    base_url: BaseUrl = "",
    name: Name = "",
    workers: Workers = 1,
    sets: Set = None,
) -> None:
    """Build a world from files: folders, archives, dumps, or several of these together.

    Stopped or killed, the same command goes on. Settings: document_bytes, depth, extractor (trafilatura: slower,
    better on news).
    """
    opened, source = _opened(sources, base_url, sets)
    remember, name = partial(remember_sources, sources=opened), name or opened[0].name
    with _progress() as progress:
        info = build_world(out, Gathering(opened, workers), name=name, source=source, progress=progress, finish=remember)
    _report(out, info)


def _opened(sources: list[str], base_url: str, sets: list[str] | None) -> tuple[list[Source], str]:
    """The sources, and how the manifest calls them."""
    opened = open_sources(sources, base_url, settings(Limits, None, sets))
    return opened, " + ".join(one.name for one in opened) + (f" below {base_url}" if base_url else "")


@app.command("add")
def add(directory: Where, sources: Sources, base_url: BaseUrl = "", workers: Workers = 1, sets: Set = None) -> None:
    """Add pages to a world, without building it again.

    Whoever reads the world meanwhile goes on reading it as it was. Stopped or killed, the same command goes on.
    """
    opened, source = _opened(sources, base_url, sets)
    read_manifest(directory)
    gathering = Gathering(opened, workers)
    with _progress() as progress:
        remember_sources(directory, opened)  # before the pages are there: one too many does no harm
        info, counts = add_to_world(directory, gathering, source=source, progress=progress)
    _report(directory, info)
    show(f"{counts.kept:,} pages are new; left out: {_left_out(gathering.accounts(gathering.mark()), counts)}.")


@build.command("encyclopedia")
def build_encyclopedia(
    out: Out,
    size: Annotated[int, typer.Option(min=1, help="Number of entities, 40 at least; about two pages each.")] = 2_000,
    seed: Annotated[int, typer.Option(help="Equal size and seed give equal worlds.")] = 0,
) -> None:
    """Generate an encyclopedia of invented people, places, organisations, works and events."""
    feed = Gathering([open_source(f"encyclopedia:{size}/{seed}")])
    name, source = f"encyclopedia-{size}-{seed}", f"encyclopedia --size {size} --seed {seed}"
    with _progress() as progress:
        built = build_world(out, feed, name=name, source=source, seed=seed, progress=progress)
    _report(out, built)


@build.command("recorded")
def build_recorded(
    source: RecordedCalls,
    out: Out,
    name: Name = "recorded",
    hold_out: Annotated[float, typer.Option(help="Share of the questions to leave out, for `world fidelity`.")] = 0.0,
    hold_out_by: Annotated[Unit, typer.Option(help="Whole questions, or single trajectories.")] = Unit.QUESTION,
    seed: Annotated[int, typer.Option(help="Which questions are held out.")] = 0,
) -> None:
    """Build a world from recorded trajectories: every page they listed or read, and a table that replays their calls.

    Their questions that have accepted answers are laid beside them, for sanderling eval run world.
    """
    from sanderling.data.questions import write_questions
    from sanderling.data.recorded_source import read_recorded
    from sanderling.world.recorded import answerable_questions, built_from, pages_from_trajectories, split, write_built_from

    recorded = read_recorded(source)
    built, held = split(recorded.trajectories, hold_out, seed, hold_out_by)
    pages, report = pages_from_trajectories(built)
    replays = recorded.replays(built)

    def finish(place: Path) -> None:
        replays.save(place / REPLAY_FILE)
        write_questions(place / "questions.jsonl", answerable_questions(built))
        write_built_from(place, [built_from(built, held, hold_out, seed, hold_out_by)])

    words = f"recorded {source.name}" + (f", {hold_out:g} held out by {hold_out_by.value}" if hold_out else "")
    with _progress("Interrupted: nothing was built, and nothing is left behind.") as progress:
        info = build_world(
            out, pages, name=name, source=words, seed=seed if hold_out else None, progress=progress, finish=finish
        )
    show(*filter(None, (recorded.report, report)), error=True)
    if hold_out:
        show(f"Held out: {len(held)} of {len(recorded.trajectories)} trajectories.", error=True)
    _report(out, info)


@app.command("embed")
def embed(
    directory: Where,
    embedder: Annotated[str | None, typer.Option("--embedder", help=f"{FORMS}; the index's own when it has been made.")] = None,
    sets: Set = None,
) -> None:
    """Embed a world's pages for dense and hybrid search; killed, it goes on, and pages that came since are added.

    Settings: chunking.most (passages of a page), chunking.chars, prefixes.query and prefixes.document ("query: " and
    "passage: " for E5), precision (float16 or float32).
    """
    info, world = read_info(directory / DIRECTORY), open_world(directory)
    spec = embedder or (info.embedder if info else None)
    if spec is None:
        raise UserError(f"Name the embedder: --embedder with {FORMS}.")
    opened = open_embedder(spec)
    made = (info.settings if info else settings_for(opened)).model_copy(
        update={"model": opened.model, "dimension": opened.dimension}
    )
    chosen = or_help(lambda sets: load_config(DenseSettings, to_toml(made), "the index", sets), sets)
    with _progress("Interrupted: the same command goes on after the last whole batch.") as progress:
        told = partial(progress, "pages", total=world.page_count)
        done = embed_world(directory, world, opened, chosen, spec=spec, progress=told)
    show(
        f"{done.pages:,} pages as {done.rows:,} passages of {done.settings.dimension} dimensions by {done.settings.model} "
        f"({done.vector_bytes / 1e6:,.1f} MB): {directory / DIRECTORY}"
    )


@app.command("push")
def push(
    directory: Where,
    milvus: Annotated[
        str, typer.Option(metavar="URI", help="http://host:19530 (token in MILVUS_TOKEN), or a milvus-lite file.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Directory that will stand for the pushed world.")],
    vectors: Annotated[VectorIndex, typer.Option(help="How passages are searched, if embedded.")] = VectorIndex.HNSW,
) -> None:
    """Push a world to Milvus; --out then stands for it in every command. Killed, the same command goes on."""
    world, dense = open_world(directory), read_info(directory / DIRECTORY)
    with _progress() as progress:
        told = partial(progress, "pages, passages", total=world.page_count + (dense.rows if dense else 0))
        done = push_world(directory, world, milvus, out, vector_index=vectors, progress=told)
    show(f"{done.pages:,} pages and {done.passages:,} passages are on {milvus}; {out} stands for them.")


# looking


@app.command("info")
def info(directory: Where) -> None:
    """What a world holds and where it comes from."""
    manifest, dense = read_manifest(directory), read_info(directory / DIRECTORY)
    words = "none (make it with sanderling world embed)"
    if dense is not None:
        made = dense.settings
        words = f"{dense.pages:,} pages as {dense.rows:,} passages, {made.dimension} dimensions by {made.model}"
        words += "" if dense.world == manifest.fingerprint else "; not of the world as it is: embed again"
        if opens_socket(dense.embedder):
            words += f"; queries are sent to {dense.embedder}: the world is not closed"
    _report(directory, manifest, words)


@app.command("search")
def search(
    directory: Where,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to search for.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Number of results; 10, or the profile's number.")] = None,
    profile: AsProfile = None,
    faults: Faults = None,
    world_seed: WorldSeed = 0,
    mode: Search = SearchMode.LEXICAL,
) -> None:
    """Search a world and show the ranked results."""
    console = Console()
    with _readable(directory):
        world = open_as_met(directory, faults, world_seed, mode)
        if profile is not None:
            chosen = get_profile(profile)
            chosen = chosen.model_copy(update={"results_per_query": limit or chosen.results_per_query})
            tool = world_tools(world, chosen)[chosen.tools.search]
            show(asyncio.run(tool({chosen.tools.search_query: [query]}, ToolContext())).text)
            return
        reply = asyncio.run(world.search(query, limit=limit or 10))
    if reply.status is not ToolStatus.OK:
        console.print(status_sentence(reply.status, ResultLayout.MARKDOWN))
    for number, hit in enumerate(reply.hits, start=1):
        date = f"  [dim]{_plain(hit.date)}[/]" if hit.date else ""
        console.print(f"[bold]{number:2}. {_plain(hit.title)}[/]{date}  [dim]{hit.score:.4g}[/]")
        console.print(f"    [cyan]{_plain(hit.url)}[/]\n    {_plain(hit.snippet)}\n", highlight=False, soft_wrap=True)


@app.command("visit")
def visit(
    directory: Where,
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of a page; URL#page=2: the second part of a long one.")],
    goal: Annotated[str, typer.Option(help="What to look for; without one, the page from its top.")] = "",
    words: Annotated[int | None, typer.Option(min=1, help="Most words shown; 2,000, or the profile's number.")] = None,
    profile: AsProfile = None,
    faults: Faults = None,
    world_seed: WorldSeed = 0,
    sets: Set = None,
) -> None:
    """Show the passages of a page that serve a goal, or a part of it. Exit status 1: the page cannot be read.

    ``--set reader.model=http://host:port/v1#model``: a model reads the page, or a reader of your own, ``file.py:name``.
    """
    place = settings(PlaceConfig, None, sets, {"faults": faults, "world_seed": world_seed})

    async def read() -> ToolStatus:
        world = open_as_met(
            directory, place.faults or None, place.world_seed, place.search, place.prompt_injection, filters=place.filters
        )
        async with opened_reader(place.reader, on_outage=OnOutage.FALL_BACK, on_close=partial(show, error=True)) as reader:
            if profile is not None:
                chosen = get_profile(profile)
                chosen = chosen.model_copy(update={"visit_words": words or chosen.visit_words})
                tool = world_tools(world, chosen, reader)[chosen.tools.visit]
                result = await tool({chosen.tools.visit_url: [url], chosen.tools.visit_goal: goal}, ToolContext())
                show(result.text)
                return result.status
            reply = await world.visit(url, goal, max_words=words or _WORDS)
            if reader is not None:

                async def again(address: str, most: int) -> VisitReply:
                    return await world.visit(address, goal, max_words=most)

                (reply,) = await reader.read_visits(again, [(url, reply)], goal, words or _WORDS, None)
            _show_page(url, reply)
            return reply.status

    with _readable(directory):
        status = asyncio.run(read())
    if status is not ToolStatus.OK:
        raise typer.Exit(exits.NO_ANSWER)


# comparing


@app.command("fidelity")
def fidelity(
    directory: Where,
    against: Annotated[Path, typer.Option(help="Recorded trajectories (a directory), or a recording (a file of --record).")],
    out: Annotated[Path, typer.Option("--out", help="Directory for fidelity.json.")],
    built_in: Annotated[bool | None, typer.Option("--built-in", help="Also what it was built from: an upper bound.")] = None,
    mode: Search = SearchMode.LEXICAL,
    sets: Set = None,
) -> None:
    """Compare a world with recorded calls that it was not built from."""
    from sanderling.evaluate.fidelity.measure import JSON_NAME, FidelityConfig, figure_rows, measure_fidelity

    config = settings(FidelityConfig, None, sets, {"built_in": built_in, "search": mode})
    report = measure_fidelity(directory, against, out, config)
    for part in report.parts:
        found = table("measure", ">n", ">mean", ">95% over queries", ">over questions", title=part.label)
        for row in figure_rows(part):
            found.add_row(*row)
        show(part.remark, found, error=True)
    show(*report.remarks, f"The same for machines: {out / JSON_NAME}", error=True)


@app.command("agents")
def agents(local: Results, live: Results, seed: Annotated[int, typer.Option("--seed", help="Of the intervals.")] = 0) -> None:
    """Compare agents in a world (--local) with the same agents elsewhere (--live): whether both rank them alike."""
    from sanderling.evaluate.fidelity.agents import compare_agents, results_by_agent

    found = compare_agents(results_by_agent(local), results_by_agent(live), seed=seed)
    scores = table("agent", ">local", ">live")
    for row in found.agents:
        scores.add_row(Text(row.agent), f"{row.local:.1%}", f"{row.live:.1%}")
    show(scores)
    if found.tau_b is None:
        show("All agents tie in one place: their rankings cannot be compared.")
    else:
        span = "" if found.interval is None else f" (95% over questions {found.interval[0]:.2f} to {found.interval[1]:.2f})"
        show(f"Kendall's tau-b {found.tau_b:.2f}{span}, {len(found.agents)} agents, {found.questions} common questions.")
    show(*(f"ordered otherwise: {first}, {second}" for first, second in found.discordant))


# faults and serving


@app.command("fit-faults")
def fit_faults(
    source: RecordedCalls, out: Annotated[Path, typer.Option("--out", help="The profile as a TOML file, for --faults.")]
) -> None:
    """Make a profile of faults with the failures, and the delays if any, of recorded calls."""
    from sanderling.data.recorded_source import read_recorded
    from sanderling.world.faults.profiles import fit_profile

    fitted = fit_profile(read_recorded(source).trajectories, name=out.stem)
    with or_cannot(f"write {out}"):
        replace_file(out, to_toml(fitted.profile))
    delays = fitted.search_delays + fitted.visit_delays
    told = f"{fitted.search_delays} and {fitted.visit_delays} delays" if delays else "no delay"
    show(f"{fitted.queries:,} queries and {fitted.visits:,} visits, with {told}: {out}")


@app.command("serve")
def serve(
    directory: Where,
    host: Annotated[str, typer.Option(help="Where to listen; anything but this machine needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free one.")] = 8018,
    token_env: Annotated[str | None, typer.Option(metavar="NAME", help="Variable with the token that clients send.")] = None,
    dialect: Annotated[list[str] | None, typer.Option(help=f"What to speak: {_DIALECTS}; repeatable; default: all.")] = None,
    mcp_stdio: Annotated[bool, typer.Option("--mcp-stdio", help="Speak MCP over standard input and output.")] = False,
    faults: Faults = None,
    world_seed: WorldSeed = 0,
    prompt_injection: Annotated[float, _place("--prompt-injection", "Share of pages that order their reader about.")] = 0.0,
    mode: Search = SearchMode.LEXICAL,
    sets: Set = None,
) -> None:
    """Serve a world: a native API, the routes of Serper, Jina Reader, LiteResearcher, Search-R1 and ASearcher, and MCP.

    Settings: threads, max_concurrent (more requests are answered 429), timeout_s, page_words, certificate and key (PEM files,
    for clients whose https:// cannot be changed).
    """
    from sanderling.serve.settings import ServerSettings, check_binding

    token = os.environ.get(token_env or "") or None  # on a command line everybody on the machine could read it
    if token_env and token is None:
        raise UserError(f"The environment variable {token_env} is not set: put the token there.")
    given = {"host": host, "port": port, "dialects": dialect, "token": token}
    chosen = settings(ServerSettings, None, sets, given)
    if not mcp_stdio:
        check_binding(chosen)
    world = open_as_met(directory, faults, world_seed, mode, prompt_injection)
    if mcp_stdio:
        from sanderling.serve.mcp import serve_stdio

        serve_stdio(world, chosen.threads)
        return
    from sanderling.serve.server import serve as run

    run(world, chosen, lambda url: show(f"Serving {world.name} ({world.page_count:,} pages) at {url}", error=True))


# showing


def _report(directory: Path, world: WorldInfo, dense: str = "") -> None:
    """Every document by what became of it, source by source, and what the world holds."""
    counts = world.counts
    if world.accounts:
        found = table("source", ">documents", ">pages", "left out")
        for account in world.accounts:
            reasons = _counted(Counter(dict(sorted(account.skipped.items()))))
            found.add_row(_plain(account.name), f"{account.documents:,}", f"{account.pages:,}", reasons)
        show(found)
    rows = Table(show_header=False, box=None)
    for key, value in {
        "world": world.name,
        "directory": str(directory),
        "source": world.source,
        "seed": "none" if world.seed is None else str(world.seed),
        "pages": f"{counts.kept:,}" + (f" ({counts.not_text:,} of them not text)" if counts.not_text else ""),
        "links": f"{world.links.inside:,} inside, {world.links.dead:,} dead, {world.links.outside:,} to other sites",
        "left out": _left_out(world.accounts, counts),
        "built by": f"sanderling {world.package}",
        "sha256": world.fingerprint,
        **({"dense search": dense} if dense else {}),
    }.items():
        rows.add_row(f"[dim]{key}[/]", _plain(value))
    Console().print(rows)


def _left_out(accounts: Iterable[SourceAccount], counts: WorldCounts) -> str:
    """What no page was made of, by its reason: what the sources passed over, and what the store did."""
    left = Counter({"second pages of an address": counts.duplicate, "empty": counts.empty, "without address": counts.no_url})
    for account in accounts:
        left.update(account.skipped)
    return _counted(left)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in counts.items() if count) or "none"


def _show_page(url: str, reply: VisitReply) -> None:
    """The page, or one sentence on standard error."""
    if reply.status is not ToolStatus.OK:
        address = url if len(url) <= _LONGEST_ADDRESS else f"{url[:_LONGEST_ADDRESS]}…"
        sentence = f"{_plain(address) or 'No address'}: {_plain(visit_miss(reply, ResultLayout.MARKDOWN))}"
        Console(stderr=True).print(sentence, soft_wrap=True, highlight=False)
        return
    text = f"[bold]{_plain(reply.title)}[/]\n[cyan]{_plain(reply.url)}[/]\n\n{_plain(reply.text)}"
    if reply.summary:
        text += f"\n\n[bold]Summary[/] {_plain(reply.summary)}"
    if note := parts_note(reply):
        text += f"\n\n[dim]{_plain(note)}[/]"
    Console().print(text, highlight=False, soft_wrap=True)


def _plain(text: str) -> str:
    """Text from a world: neither markup nor control characters."""
    return escape(visible(text))


@contextmanager
def _readable(directory: Path) -> Iterator[None]:
    """A store that breaks while it is read, or a reader that cannot be reached, is told in one sentence."""
    try:
        yield
    except UserError:
        raise
    except (OSError, ToolOutageError, AskingOutageError) as error:
        if isinstance(error, AskingOutageError) or isinstance(error.__cause__, AskingOutageError):
            raise UserError(f"The page reader cannot be reached ({error}): start its server, or leave it out.") from error
        raise UserError(f"The world {directory} cannot be read ({error}): copy it again, or build it again.") from error


@contextmanager
def _progress(interrupted: str = AGAIN) -> Iterator[Callable[..., None]]:
    """A bar for each stage of a build: call what it gives with the stage, how much is done, and of how much."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    stages: dict[str, Any] = {}
    with Progress(*columns, console=Console(stderr=True)) as bar:

        def report(stage: str, count: int, total: int | None) -> None:
            if stage not in stages:
                stages[stage] = bar.add_task(stage, total=total)
            elif count % 64 == 0 or count == total:  # moving the bar at each page would cost more than the page
                bar.update(stages[stage], completed=count, total=total)

        try:
            yield report
        except KeyboardInterrupt:
            bar.console.print(interrupted)
            raise typer.Exit(exits.INTERRUPTED) from None
