"""``sanderling world``: build a world, look at it, search it, visit its pages. Thin: the work is done in ``world/``."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sanderling.cli.world_agents import agents
from sanderling.cli.world_build import AGAIN, add, build_from
from sanderling.cli.world_dynamics import Dynamics, WorldSeed, duplicates, fit_dynamics
from sanderling.cli.world_embed import Search, dense_line, embed
from sanderling.cli.world_fidelity import fidelity, read_recorded
from sanderling.cli.world_links import links
from sanderling.cli.world_obedience import obedience
from sanderling.cli.world_progress import build_progress
from sanderling.cli.world_push import push
from sanderling.cli.world_serve import serve
from sanderling.cli.world_shown import AsProfile, Where, changed, plain, readable
from sanderling.cli.world_visit import visit
from sanderling.core.profiles import ResultLayout, get_profile
from sanderling.core.text import visible
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext
from sanderling.tools.layouts import status_sentence
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import answered
from sanderling.world.dense.index import SearchMode
from sanderling.world.disk.store import WorldInfo, build_world, read_manifest
from sanderling.world.opening import open_as_met
from sanderling.world.recorded import REPLAY_FILE, Unit
from sanderling.world.sources.gathering import Gathering
from sanderling.world.sources.kinds import open_source

app = typer.Typer(help="Offline worlds: build, look at, search, visit.", no_args_is_help=True)
build = typer.Typer(help="Build a world from a source of pages.", no_args_is_help=True)
app.add_typer(build, name="build")
build.command("from")(build_from)
app.command("add")(add)
app.command("agents")(agents)
app.command("duplicates")(duplicates)
app.command("embed")(embed)
app.command("fidelity")(fidelity)
app.command("fit-dynamics")(fit_dynamics)
app.command("links")(links)
app.command("obedience")(obedience)
app.command("push")(push)
app.command("serve")(serve)
app.command("visit")(visit)

"""The replay table within the directory of a recorded world."""
_NOTHING = "Interrupted: nothing was built, and nothing is left behind."
Out = Annotated[Path, typer.Option("--out", help="Directory of the new world; must not exist.")]


@build.command("encyclopedia")
def build_encyclopedia(
    out: Out,
    size: Annotated[int, typer.Option(min=1, help="Number of entities, 40 at least; about two pages each.")] = 2_000,
    seed: Annotated[int, typer.Option(help="Equal size and seed give equal worlds.")] = 0,
) -> None:
    """Generate an encyclopedia of invented people, places, organisations, works and events."""
    feed = Gathering([open_source(f"encyclopedia:{size}/{seed}")])
    with build_progress(AGAIN) as progress:
        info = build_world(
            out,
            feed,
            name=f"encyclopedia-{size}-{seed}",
            source=f"encyclopedia --size {size} --seed {seed}",
            seed=seed,
            progress=progress,
        )
    _report(out, info)


@build.command("recorded")
def build_recorded(
    source: Annotated[
        Path, typer.Option("--from", help="Directory of recorded trajectories, of any known layout, or a file of ask --record.")
    ],
    out: Out,
    name: Annotated[str, typer.Option(help="The world's name, as trajectories record it.")] = "recorded",
    hold_out: Annotated[
        float, typer.Option("--hold-out", help="Share of the questions to leave out, for sanderling world fidelity.")
    ] = 0.0,
    hold_out_by: Annotated[
        Unit, typer.Option("--hold-out-by", help="Whole questions, or single trajectories: others of the question may stay.")
    ] = Unit.QUESTION,
    seed: Annotated[int, typer.Option(help="Which questions are held out.")] = 0,
) -> None:
    """Build a world from recorded trajectories: every page they listed or read, and a table that replays their calls.

    Their questions that have accepted answers are laid beside them, for sanderling eval run world.
    """
    from sanderling.data.questions import write_questions
    from sanderling.world.recorded import answerable_questions, built_from, pages_from_trajectories, split, write_built_from

    console = Console(stderr=True)
    with console.status("reading trajectories"):
        recorded = read_recorded(source)
        built, held = split(recorded.trajectories, hold_out, seed, hold_out_by)
        pages, report = pages_from_trajectories(built)
        table = recorded.replays(built)

    def finish(place: Path) -> None:
        table.save(place / REPLAY_FILE)
        write_questions(place / "questions.jsonl", answerable_questions(built))
        write_built_from(place, [built_from(built, held, hold_out, seed, hold_out_by)])

    with build_progress(_NOTHING) as progress:
        info = build_world(
            out,
            pages,
            name=name,
            source=f"recorded {source.name}" + (f", {hold_out:g} held out by {hold_out_by.value}" if hold_out else ""),
            seed=seed if hold_out else None,
            progress=progress,
            finish=finish,
        )
    if recorded.report is not None:
        console.print(recorded.report)
    console.print(report)
    if hold_out:
        console.print(f"Held out: {len(held)} of {len(recorded.trajectories)} trajectories.")
    _report(out, info)


@build.command("jsonl")
def build_jsonl(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Pages as JSON lines: url, title and text (also: doc, content, contents).")
    ],
    out: Out,
    name: Annotated[str, typer.Option(help="The world's name, as trajectories record it; the file's by default.")] = "",
) -> None:
    """Build a world from a file of JSON lines; as ``build from``, which takes several sources."""
    feed = Gathering([open_source(file, "jsonl")])
    with build_progress(AGAIN) as progress:
        info = build_world(out, feed, name=name or file.stem, source=f"jsonl {file.name}", progress=progress)
    _report(out, info)


@app.command("info")
def info(directory: Where) -> None:
    """What a world holds and where it comes from."""
    _report(directory, read_manifest(directory), dense_line(directory))


@app.command("search")
def search(
    directory: Where,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to search for.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Number of results; 10, or the profile's number.")] = None,
    profile: AsProfile = None,
    dynamics: Dynamics = None,
    world_seed: WorldSeed = 0,
    mode: Search = SearchMode.LEXICAL,
) -> None:
    """Search a world and show the ranked results."""
    if profile is not None:
        chosen = changed(get_profile(profile), results_per_query=limit)
        with readable(directory):
            opened = open_as_met(directory, dynamics, world_seed, mode)
            tool = world_tools(opened, chosen)[chosen.tools.search]
            result = asyncio.run(tool({chosen.tools.search_query: [query]}, ToolContext()))
            Console().print(Text(visible(result.text)), soft_wrap=True)
        return
    with readable(directory):
        opened = open_as_met(directory, dynamics, world_seed, mode)
        reply = answered(opened.search(query, limit=limit or 10))
    console = Console()
    if reply.status is not ToolStatus.OK:
        console.print(status_sentence(reply.status, ResultLayout.MARKDOWN))
    for number, hit in enumerate(reply.hits, start=1):
        date = f"  [dim]{plain(hit.date)}[/]" if hit.date else ""
        console.print(f"[bold]{number:2}. {plain(hit.title)}[/]{date}  [dim]{hit.score:.4g}[/]")
        console.print(f"    [cyan]{plain(hit.url)}[/]\n    {plain(hit.snippet)}\n", highlight=False, soft_wrap=True)


def _report(directory: Path, world: WorldInfo, dense: str = "") -> None:
    counts = world.counts
    left_out = Counter({"empty": counts.empty, "duplicate URL": counts.duplicate, "no URL": counts.no_url})
    for account in world.accounts:
        left_out.update(account.skipped)
    table = Table(show_header=False, box=None)
    rows = {
        "world": world.name,
        "directory": str(directory),
        "source": world.source,
        "seed": "none" if world.seed is None else str(world.seed),
        "pages": f"{counts.kept:,}" + (f" ({counts.not_text:,} of them not text)" if counts.not_text else ""),
        "links": f"{world.links.inside:,} inside, {world.links.dead:,} dead, {world.links.outside:,} to other sites",
        "left out": ", ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count) or "none",
        "built by": f"sanderling {world.package}",
        "sha256": world.fingerprint,
    }
    if dense:
        rows["dense search"] = dense
    for key, value in rows.items():
        table.add_row(f"[dim]{key}[/]", plain(value))
    Console().print(table)
