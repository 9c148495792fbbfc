"""``sanderling world``: build a world, look at it, search it, visit its pages, serve it. Thin: `world` does the work."""

import asyncio
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

from sanderling.agent.places import PlaceConfig, opened_reader
from sanderling.cli import NO_ANSWER
from sanderling.cli.options import PLACE, Faults, Set, argument, counted, option, or_help, settings, show, table
from sanderling.core.config import load_config, to_toml
from sanderling.core.errors import UserError
from sanderling.core.profiles import PROFILES, TINY, Profile, get_profile
from sanderling.core.text import visible
from sanderling.core.types import AskingOutageError, ToolStatus
from sanderling.data.importing import read_recorded
from sanderling.data.questions import write_questions
from sanderling.evaluate.fidelity import measure_fidelity
from sanderling.report.numbers import percent, span
from sanderling.runs.stages import after_interrupt
from sanderling.tools.contract import OnOutage, Tool, ToolContext, ToolOutageError
from sanderling.tools.world_tools import SearchTool, VisitTool
from sanderling.world.disk.building import add_to_world, build_world
from sanderling.world.disk.dense import DIRECTORY, DenseSettings, embed_world, read_info, settings_for
from sanderling.world.disk.embedders import FORMS, open_embedder, opens_socket
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.pages import WorldCounts
from sanderling.world.disk.parts import verify_world
from sanderling.world.disk.store import SourceAccount, WorldInfo, open_as_met, open_world, read_manifest
from sanderling.world.milvus import VectorIndex, push_world
from sanderling.world.recorded import answerable_questions, built_from, pages_from_trajectories, split, write_built_from
from sanderling.world.sources.base import Limits, Source
from sanderling.world.sources.kinds import SOURCES, Gathering, open_source, open_sources, refuse_collisions, remember_sources

app = typer.Typer(help="Offline worlds: build, look at, search, visit.", no_args_is_help=True)
build = typer.Typer(help="Build a world from a source of pages.", no_args_is_help=True)
app.add_typer(build, name="build")

_KINDS = f"Folders, archives, JSON lines, other worlds; or KIND:REST. Kinds: {', '.join(SOURCES)}"
_BASE = "Address that the paths of folders and ZIM files stand below; local://NAME/ by default."
_WORKERS = "Processes that read documents; the world is the same for any number."
_AS = f"Show exactly what an agent with this profile reads: {', '.join(PROFILES)}."
_RANKED = "Rank by words (BM25), by vectors, or both; the last two need `world embed`."
_RECORDED = "Directory of recorded trajectories, of any known layout, or a file of ask --record."
_DIALECTS = "What to speak: native, serper, jina, literesearcher, search_r1, asearcher, mcp; repeatable; default: all."
_TOKEN = "Variable with the token that clients send."

Where = Annotated[Path, argument("WORLD", "Directory of a world.")]
Out = Annotated[Path, option("--out", "Directory of the new world; must not exist.")]
Name = Annotated[str, option("--name", "The world's name, as trajectories record it; the first source's by default.")]
AsProfile = Annotated[str | None, option("--profile", _AS)]
RecordedCalls = Annotated[Path, option("--from", _RECORDED)]
Sources = Annotated[list[str], argument("SOURCE...", _KINDS)]
BaseUrl = Annotated[str, option("--base-url", _BASE)]
Workers = Annotated[int, option("--workers", _WORKERS, min=1)]
WorldSeed = Annotated[int, option("--world-seed", "The same seed gives the same delays and faults.", panel=PLACE)]
Search = Annotated[SearchMode, option("--search", _RANKED, panel=PLACE)]


@build.command("from")
def build_from(
    sources: Sources, out: Out, base_url: BaseUrl = "", name: Name = "", workers: Workers = 1, sets: Set = None
) -> None:
    """Build a world from files: folders, archives, tables, or several of these together.

    If interrupted, run the same command again to resume. Settings: document_bytes, depth.
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

    Whoever reads the world meanwhile goes on reading it as it was. If interrupted, run the same command again to resume.
    """
    opened, source = _opened(sources, base_url, sets)
    refuse_collisions(directory, opened)
    gathering = Gathering(opened, workers)
    with _progress() as progress:
        remember_sources(directory, opened)  # before the pages are there: one too many does no harm
        info, counts = add_to_world(directory, gathering, source=source, progress=progress)
    _report(directory, info)
    show(f"{counts.kept:,} pages are new; left out: {_left_out(gathering.accounts(gathering.mark()), counts)}.")


@build.command("encyclopedia")
def build_encyclopedia(
    out: Out,
    size: Annotated[int, option("--size", "Number of entities, 40 at least; about two pages each.", min=1)] = 2_000,
    seed: Annotated[int, option("--seed", "The same size and seed give the same world.")] = 0,
    registers: Annotated[bool, option("--registers", "Also pages of who worked, was born or taught where.")] = False,
) -> None:
    """Generate an encyclopedia of invented people, places, organisations, works and events."""
    opened = open_source(f"encyclopedia:{size}/{seed}{'/registers' if registers else ''}")
    feed, name = Gathering([opened]), opened.name
    source = f"encyclopedia --size {size} --seed {seed}{' --registers' if registers else ''}"
    with _progress() as progress:
        built = build_world(out, feed, name=name, source=source, seed=seed, progress=progress)
    _report(out, built)


@build.command("recorded")
def build_recorded(
    source: RecordedCalls,
    out: Out,
    name: Name = "recorded",
    hold_out: Annotated[float, option("--hold-out", "Share of the questions to leave out, for `world fidelity`.")] = 0.0,
    seed: Annotated[int, option("--seed", "Which questions are held out.")] = 0,
) -> None:
    """Build a world from recorded trajectories: every page they listed or read.

    Their questions that have accepted answers are laid beside them, for sanderling eval run world.
    """
    trajectories, imported = read_recorded(source)
    built, held = split(trajectories, hold_out, seed)
    pages, report = pages_from_trajectories(built)

    def finish(place: Path) -> None:
        write_questions(place / "questions.jsonl", answerable_questions(built))
        write_built_from(place, [built_from(built, held, hold_out, seed)])

    words = f"recorded {source.name}" + (f", {hold_out:g} held out by question" if hold_out else "")
    how = {"name": name, "source": words, "seed": seed if hold_out else None, "finish": finish}
    with _progress() as progress:
        info = build_world(out, pages, progress=progress, **how)
    show(*filter(None, (imported, report)), error=True)
    if hold_out:
        show(f"Held out: {len(held)} of {len(trajectories)} trajectories.", error=True)
    _report(out, info)


@app.command("embed")
def embed(
    directory: Where,
    embedder: Annotated[str | None, option("--embedder", f"{FORMS}; the index's own when it has been made.")] = None,
    sets: Set = None,
) -> None:
    """Embed a world's pages for dense and hybrid search; killed, it goes on, and pages that came since are added.

    Settings: chunking.most (passages of a page), chunking.chars, prefixes.query and prefixes.document ("query: " and
    "passage: " for E5), precision (float16 or float32).
    """
    info = read_info(directory / DIRECTORY) if directory else None  # --set help needs neither a world nor an embedder
    spec = embedder or (info.embedder if info else "hashed" if "help" in (sets or ()) else None)
    if spec is None:
        raise UserError(f"Name the embedder: --embedder with {FORMS}.")
    opened = open_embedder(spec)
    made = (info.settings if info else settings_for(opened)).model_copy(
        update={"model": opened.model, "dimension": opened.dimension}
    )
    chosen = or_help(lambda sets: load_config(DenseSettings, to_toml(made), "the index", sets), sets)
    world = open_world(directory)
    with _progress() as progress:
        on_pages = partial(progress, "pages", total=world.page_count)
        done = embed_world(directory, world, opened, chosen, spec=spec, progress=on_pages)
    show(
        f"{done.pages:,} pages as {done.rows:,} passages of {done.settings.dimension} dimensions by {done.settings.model} "
        f"({done.vector_bytes / 1e6:,.1f} MB): {directory / DIRECTORY}"
    )


@app.command("push")
def push(
    directory: Where,
    milvus: Annotated[str, option("--milvus", "http://host:19530 (token in MILVUS_TOKEN), or a milvus-lite file.", "URI")],
    out: Annotated[Path, option("--out", "Directory that will stand for the pushed world.")],
    vectors: Annotated[VectorIndex, option("--vectors", "How passages are searched, if embedded.")] = VectorIndex.HNSW,
) -> None:
    """Push a world to Milvus; --out then takes its place in every command. An interrupted push resumes when run again."""
    world, dense = open_world(directory), read_info(directory / DIRECTORY)
    with _progress() as progress:
        on_rows = partial(progress, "pages, passages", total=world.page_count + (dense.rows if dense else 0))
        done = push_world(directory, world, milvus, out, vector_index=vectors, progress=on_rows)
    show(f"{done.pages:,} pages and {done.passages:,} passages are on {milvus}; {out} stands for them.")


@app.command("info")
def info(directory: Where) -> None:
    """What a world holds and where it comes from."""
    manifest, dense = read_manifest(directory), read_info(directory / DIRECTORY)
    words = "none (make it with sanderling world embed)"
    if dense is not None:
        by = f"{dense.settings.dimension} dimensions by {dense.settings.model}"
        words = f"{dense.pages:,} pages as {dense.rows:,} passages, {by}"
        words += "" if dense.world == manifest.fingerprint else "; not of the world as it is: embed again"
        if opens_socket(dense.embedder):
            words += f"; queries are sent to {dense.embedder}: the world is not closed"
    _report(directory, manifest, words)


@app.command("verify")
def verify(directory: Where) -> None:
    """Compare every page, the index and the groups of near-duplicates with their checksums."""
    with _progress() as progress:
        pages, damaged = verify_world(directory, partial(progress, "pages", total=read_manifest(directory).page_count))
    if damaged:
        shown = "; ".join(damaged[:5]) + ("; …" if len(damaged) > 5 else "")
        raise UserError(f"{directory} is damaged in {len(damaged)} places ({shown}): copy it again, or build it again.")
    show(f"{directory}: {pages:,} pages, the index and the groups are as they were written.")


@app.command("search")
def search(
    directory: Where,
    query: Annotated[str, argument("QUERY", "What to search for.")],
    limit: Annotated[int | None, option("--limit", "Number of results; 10, or the profile's number.", min=1)] = None,
    profile: AsProfile = None,
    faults: Faults = None,
    world_seed: WorldSeed = 0,
    mode: Search = SearchMode.LEXICAL,
) -> None:
    """Search a world and show the ranked results."""
    if not query.strip():
        raise UserError("There is nothing to search for: give some words.")
    reading = _reading(profile, results_per_query=limit)
    tool = SearchTool(open_as_met(directory, faults, world_seed, mode), reading)
    asyncio.run(_call(directory, tool, **{reading.tools.search_query: [query]}))


@app.command("visit")
def visit(
    directory: Where,
    url: Annotated[str, argument("URL", "Address of a page; URL#page=2: the second part of a long one.")],
    goal: Annotated[str, option("--goal", "What to look for; without one, the page from its top.")] = "",
    words: Annotated[int | None, option("--words", "Most words shown; 2,000, or the profile's number.", min=8)] = None,
    profile: AsProfile = None,
    faults: Faults = None,
    world_seed: WorldSeed = 0,
    sets: Set = None,
) -> None:
    """Show the passages of a page that serve a goal, or a part of it. Exit status 1: the page cannot be read.

    ``--set reader.model=http://host:port/v1#model``: a model reads the page, or a reader of your own, ``file.py:name``.
    """
    place = settings(PlaceConfig, None, sets, {"faults": faults, "world_seed": world_seed})
    reading = _reading(profile, visit_words=words)
    world = open_as_met(
        directory, place.faults or None, place.world_seed, place.search, place.prompt_injection, filters=place.filters
    )

    async def read() -> ToolStatus:
        async with opened_reader(place.reader, on_outage=OnOutage.FALL_BACK, on_close=partial(show, error=True)) as reader:
            asked = {reading.tools.visit_url: [url], reading.tools.visit_goal: goal}
            return await _call(directory, VisitTool(world, reading, reader), **asked)

    if asyncio.run(read()) is not ToolStatus.OK:
        raise typer.Exit(NO_ANSWER)


def _reading(profile: str | None, **limits: int | None) -> Profile:
    """The profile whose agents read so; without a name, plain lists and pages, which can be read on."""
    update = {name: value for name, value in limits.items() if value is not None}
    if profile is not None:
        return get_profile(profile).model_copy(update=update)
    plain = {"results_per_query": 10, "snippet_words": 30, "visit_words": 2_000, "visit_parts": True}
    return TINY.model_copy(update=plain | update)


async def _call(directory: Path, tool: Tool, **arguments: Any) -> ToolStatus:
    """Print what an agent reads, a call that failed to standard error. Raises UserError where nothing answers."""
    try:
        result = await tool(arguments, ToolContext())
    except ToolOutageError as error:
        if isinstance(error.__cause__, AskingOutageError):
            raise UserError(f"The page reader cannot be reached ({error}): start its server, or leave it out.") from error
        if isinstance(error.__cause__, UserError):
            raise error.__cause__ from error
        raise UserError(f"The world {directory} cannot be read ({error}): copy it again, or build it again.") from error
    show(result.text, error=result.status not in (ToolStatus.OK, ToolStatus.EMPTY))
    return result.status


@app.command("fidelity")
def fidelity(
    directory: Where,
    against: Annotated[Path, option("--against", "Recorded trajectories (a directory), or a recording (a file of --record).")],
    out: Annotated[Path, option("--out", "Directory for fidelity.json.")],
    k: Annotated[int, option("--k", "Results compared of each list.", min=1)] = 10,
    mode: Search = SearchMode.LEXICAL,
) -> None:
    """Compare a world with recorded calls that it was not built from."""
    compared = measure_fidelity(directory, against, out, k=k, search=mode)
    found = table("measure", ">n", ">mean", ">95% over questions", title=compared.label)
    for one in compared.figures:
        found.add_row(one.name, f"{one.n:,}", percent(one.value), span(one.interval))
    show(found, error=True)


@app.command("serve")
def serve(
    directory: Where,
    host: Annotated[str, option("--host", "Where to listen; anything but this machine needs a token.")] = "127.0.0.1",
    port: Annotated[int, option("--port", "0: any free one.", min=0, max=65_535)] = 8018,
    token_env: Annotated[str | None, option("--token-env", _TOKEN, "NAME")] = None,
    dialect: Annotated[list[str] | None, option("--dialect", _DIALECTS)] = None,
    faults: Faults = None,
    world_seed: WorldSeed = 0,
    mode: Search = SearchMode.LEXICAL,
    sets: Set = None,
) -> None:
    """Serve a world: a native API, the routes of Serper, Jina Reader, LiteResearcher, Search-R1 and ASearcher, and MCP.

    Settings: threads, max_concurrent (more requests are answered 429), timeout_s, page_words, certificate and key (PEM files,
    for clients whose https:// cannot be changed).
    """
    from sanderling.serve.app import serve as run
    from sanderling.serve.calls import log_lines
    from sanderling.serve.limits import ServerSettings, check_binding
    from sanderling.tools.mcp.config import secret

    token = secret(f"env:{token_env}") if token_env else None  # on a command line everybody on the machine could read it
    chosen = settings(ServerSettings, None, sets, {"host": host, "port": port, "dialects": dialect, "token": token})
    check_binding(chosen)
    world = open_as_met(directory, faults, world_seed, mode)
    log_lines()
    run(world, chosen, lambda url: show(f"Serving {world.name} ({world.page_count:,} pages) at {url}", error=True))


def _report(directory: Path, world: WorldInfo, dense: str = "") -> None:
    """Every document by what became of it, source by source, and what the world holds."""
    counts = world.counts
    if world.accounts:
        found = table("source", ">documents", ">pages", "left out")
        for account in world.accounts:
            name = escape(visible(account.name))  # text from a world: neither markup nor control characters
            found.add_row(name, f"{account.documents:,}", f"{account.pages:,}", counted(account.skipped))
        show(found)
    rows = {
        "world": world.name,
        "directory": str(directory),
        "source": world.source,
        "pages": f"{counts.kept:,}" + (f" ({counts.not_text:,} of them not text)" if counts.not_text else ""),
        "left out": _left_out(world.accounts, counts),
        "built by": f"sanderling {world.package}",
        "sha256": world.fingerprint,
        "dense search": dense,
    }
    show(*(f"{key:<12}  {value}" for key, value in rows.items() if value))


def _left_out(accounts: Iterable[SourceAccount], counts: WorldCounts) -> str:
    """What no page was made of, by its reason: what the sources passed over, and what the store did."""
    left = Counter({"at an address that has a page": counts.duplicate, "empty": counts.empty, "without address": counts.no_url})
    for account in accounts:
        left.update(account.skipped)
    return counted(left)


@contextmanager
def _progress() -> Iterator[Callable[..., None]]:
    """A bar for each stage of a build: call what it gives with the stage, how much is done, and of how much."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    stages: dict[str, Any] = {}
    with after_interrupt(), Progress(*columns, console=Console(stderr=True)) as bar:

        def report(stage: str, count: int, total: int | None) -> None:
            if stage not in stages:
                stages[stage] = bar.add_task(stage, total=total)
            elif count % 64 == 0 or count == total:  # moving the bar at each page would cost more than the page
                bar.update(stages[stage], completed=count, total=total)

        yield report
