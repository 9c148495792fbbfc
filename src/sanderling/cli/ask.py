"""``sanderling ask``: research one question and watch the turns; it is kept as a session, and can be asked on in.

The answer with its sources is on standard output, and all else on standard error: turns, receipt and advice.
Exit status: 0 for an answer, 1 for none, 130 where it was stopped. The first Ctrl-C asks for the answer from what is there, the
second ends the episode with a readable record. If interrupted, ``sanderling resume`` goes on; so does the same command again
where it has ``--out``, with a journal beside that.
"""

import asyncio
import hashlib
import os
import shlex
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from sanderling.agent.agent import Agent
from sanderling.agent.evidence import Evidence
from sanderling.agent.journal import Journal
from sanderling.agent.loop import Event
from sanderling.agent.opening import AskConfig, journal_identity, opened_agent, price_of, stop_on_interrupt
from sanderling.agent.session import LAST, Going, Session, find_session, going_on, is_session, keeping, new_session, place_in
from sanderling.agent.spend import Limits, Spend, receipt
from sanderling.agent.turns import Finish
from sanderling.cli import INTERRUPTED, NO_ANSWER
from sanderling.cli import options as common
from sanderling.cli.options import RUN, argument, option, or_help, settings
from sanderling.cli.showing import Watcher, files_of, first_line, shown_answer
from sanderling.core.config import load_config, to_toml
from sanderling.core.errors import UserError
from sanderling.core.record import FILES, REPORT, Question, Seeds, Trajectory
from sanderling.core.text import visible
from sanderling.core.types import BudgetSpentError, Ending
from sanderling.judge.citations import Files, no_files
from sanderling.policy.budget import NOTHING, Ledger, Spending, read_prices
from sanderling.policy.contract import tell_reasoning_field
from sanderling.policy.load import is_endpoint
from sanderling.runs.files import check_places, or_cannot, replace_file
from sanderling.runs.jsonl import JsonlLog, TrajectoryStore
from sanderling.tools.contract import OnOutage, tool_roles
from sanderling.world.together import Outgoing

_TOO_LONG = "Its time was long over, and the turn under way was given up."
_SPEND = "At most this for the answer: 0.20usd, 5min, 200ktok, or several with commas."


def ask(
    question: Annotated[str, argument("QUESTION", "What to find out.")] = "",
    model: common.Model = None,
    profile: common.ProfileName = None,
    device: common.Device = None,
    dtype: common.Dtype = None,
    world: common.Worlds = None,
    docs: common.Docs = None,
    web: common.Web = None,
    mcp: common.Mcp = None,
    dock: common.Dock = None,
    tool: common.Tools = None,
    as_of: Annotated[str | None, option("--as-of", "Research as if on this day: 2024-03-05.", "DATE", common.PLACE)] = None,
    faults: common.Faults = None,
    seed: common.Seed = None,
    spend: Annotated[str | None, option("--spend", _SPEND, "AMOUNT", common.BUDGET)] = None,
    report: Annotated[Path | None, option("--report", "Write a report here, part by part (.md or .html).", "FILE", RUN)] = None,
    out: Annotated[
        Path | None, option("--out", "Append the trajectory here (.jsonl); an interrupted episode resumes.", "FILE", RUN)
    ] = None,
    record: Annotated[Path | None, option("--record", "Append every tool call here (.jsonl).", "FILE", RUN)] = None,
    follow: Annotated[bool, option("--continue", "Ask on in a session that is kept.", panel=RUN)] = False,
    name: Annotated[str, argument("SESSION", "With --continue: which one; the last by default.")] = "",
    save: Annotated[bool | None, option("--save/--no-save", "Keep the question as a session; by default.", panel=RUN)] = None,
    file: common.ConfigFile = None,
    sets: common.Set = None,
) -> None:
    """Research one question and watch the turns."""
    given = {"model": model, "profile": profile, "device": device, "dtype": dtype, "seed": seed}
    given |= {"docs": docs, "worlds": world, "web": web, "dock": dock, "tools": tool, "as_of": as_of, "faults": faults}
    given = {f"agent.{key}": value for key, value in given.items()} | common.servers(mcp, "agent.mcp")
    given |= {"spend": spend, "report": report, "out": out, "record": record, "save": save}
    session = None
    if follow:
        if is_session(question):  # ``--continue SESSION QUESTION`` is as natural
            question, name = name, question
        if report is not None:
            raise UserError("A report begins a session of its own: leave --continue out.")
        session = find_session(name or LAST)
        config = _as_before(session, file, sets, given)
    elif name:
        raise UserError(f"{name!r} is one word too many: put the question into quotes.")
    else:
        config = settings(AskConfig, file, sets, given)
    question = question.encode("utf-8", errors="replace").decode()  # a terminal may hand over bytes that are not text
    if not question.strip():
        raise UserError("The question is empty: write what you want to know.")
    if session is not None:
        last = session.questions()[-1]
        if last.is_open and last.text != question:
            raise UserError(
                f"Session {session.id} has not answered {last.text!r} yet: run sanderling resume {session.id} first."
            )
    run_ask(question, config, session)


def _as_before(session: Session, file: Path | None, sets: list[str] | None, given: dict[str, Any]) -> AskConfig:
    """A session's settings, with what is given over them; a further question writes no file unless it is told to."""
    if file is not None:
        raise UserError("--continue has its settings from the session: leave --config out.")
    last = session.questions()[-1]
    origin = f"session {session.id}"
    kept = load_config(AskConfig, last.settings, origin).model_copy(update={"out": None, "record": None, "report": None})
    here = {key: [one.absolute() for one in value] if isinstance(value, list) else value for key, value in given.items()}
    here = {key: value.absolute() if isinstance(value, Path) else value for key, value in here.items()}
    if given["agent.model"]:  # a directory, or a file and what is named in it
        place, colon, name = given["agent.model"], "", ""
        if not Path(place).is_dir():
            place, colon, name = place.rpartition(":")
        if place and Path(place).exists():
            here["agent.model"] = f"{Path(place).absolute()}{colon}{name}"
    return or_help(lambda sets: load_config(AskConfig, to_toml(kept), origin, sets, here), sets)


def run_ask(question: str, config: AskConfig, session: Session | None = None) -> None:
    """Ask, or go on with the last question of a session or after it, and end as the command does."""
    with nullcontext() if session is None else _in_folder(session.questions()[-1].folder):
        store = None if config.out is None else TrajectoryStore(config.out)
        if store is not None:
            store.prepare()  # a place that cannot be written is told before the work, not after it
        if config.report is not None:
            check_places((), [config.report])
            begun = [load_config(AskConfig, one.settings, one.id).report for one in (session.questions() if session else ())]
            if config.report not in begun and config.report.is_file() and config.report.stat().st_size:
                raise UserError(
                    f"{config.report} is already there: name another file; if it is an unfinished report, "
                    "sanderling resume goes on with it."
                )
            with or_cannot(f"write {config.report}"):
                config.report.parent.mkdir(parents=True, exist_ok=True)
                TemporaryFile(dir=config.report.parent).close()
        log = None
        if config.record is not None:
            from sanderling.tools.recording import open_recording

            log = open_recording(config.record)
        done = asyncio.run(_ask(question, config, store, log, session))
    if done.ending is Ending.CANCELLED and done.detail != _TOO_LONG:
        raise typer.Exit(INTERRUPTED)
    if done.answer is None:
        raise typer.Exit(NO_ANSWER)


@contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    """Where a session was asked, since its settings may name places from there."""
    with or_cannot(f"go to {folder}, where the session was asked", "make that folder again, or ask anew"):
        before = Path.cwd()
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


async def _ask(
    question: str,
    config: AskConfig,
    store: TrajectoryStore | None,
    log: JsonlLog | None,
    session: Session | None = None,
) -> Trajectory:
    tell = partial(Console(stderr=True, emoji=False).print, style="dim", markup=False, highlight=False, soft_wrap=True)
    going, limits, budget = place_in(session), Limits.read(config.spend), config.budget
    price = price_of(config.agent)
    prices = read_prices([], 1, limits.cost)[0] if price is None else price  # a limit of money needs one
    spent, seconds = going.spent, 0.0
    if config.report:  # all its parts are one answer
        spent, seconds = NOTHING, 0.0 if session is None else session.seconds()
    tokens, cost = budget.max_tokens, budget.max_cost  # for this answer: the ledger counts the whole session
    most = {"max_tokens": tokens and tokens + spent.tokens, "max_cost": cost and cost + spent.cost}
    spending, evidence, outgoing = Spending(None, budget.model_copy(update=most)), Evidence(), list[Outgoing]()
    how = {"spending": spending, "on_outage": OnOutage.FALL_BACK, "notice": tell}
    how |= {"on_outgoing": outgoing.append, "consent": _consents, "evidence": evidence}
    asked = as_question(question, config.agent.files)
    async with opened_agent(config.agent, [asked] if config.agent.files else (), **how) as agent:
        spend = Spend(limits, spending.ledger, agent.clock, prices, agent.profile.sampling.max_tokens, spent, seconds)
        identity, finish = journal_identity(config.agent, agent), Finish()
        files = files_of([config.agent.docs, *([] if session is None else session.docs())])
        each = {"seed": config.agent.seed, "log": log, "spend": spend, "finish": finish}
        kept = partial(_kept, agent=agent, config=config, identity=identity, evidence=evidence, ledger=spending.ledger, **each)
        if config.report is not None:
            session = session or new_session()
            records = await _report(question, config.report, session, kept, finish, files)
        else:
            id = going.id or episode_id(question, agent, config.agent.seed, going.before)
            link = None if store is None else store.path.with_name(f"{store.path.name}.{id}.run")
            session = session or (_session_at(link) if config.save else None)
            if session is not None:
                records = [await kept(asked, session, replace(going, id=id))]
            else:
                with nullcontext() if link is None else Journal(link, identity) as journal:
                    records = [await research(asked, agent, journal=journal, id=id, **each)]
            if store is not None and link is not None:
                store.append(records[0])
                if records[0].ending is not None and records[0].ending.scored:
                    link.unlink(missing_ok=True) if session is not None else shutil.rmtree(link)
            print_answer(records[0], files)
    tell(receipt(records, None if price is None else spend.taken().cost))
    if is_endpoint(config.agent.model) and not any(node.events for node in records[-1].branch()):
        doctor, ending = f"sanderling doctor --model {shlex.quote(config.agent.model)}", records[-1].ending
        if ending is Ending.POLICY_OUTAGE:
            tell(f"{doctor} finds out what the server speaks, if anything.")
        elif ending is not Ending.CANCELLED:
            tell(f"No tool was called: {doctor} finds out whether the model can, and is shown any.")
    for one in outgoing:
        tell(f"{'sent to the web' if one.sent else 'held back'}: {one.what} {visible(' '.join(one.text.split()))}")
    if session is not None:
        more = "go on with sanderling resume" if going_on(session.questions()) else "ask on with --continue"
        if config.report and records[-1].ending is Ending.CONTEXT_EXHAUSTED:
            more += " and more context (--set agent.max_context=N, or ?context=N in agent.model)"
        tell(f"Kept as session {session.id}: {more}, or see sanderling history.")
    return records[-1]


async def _kept(
    question: Question,
    session: Session,
    going: Going,
    *,
    agent: Agent,
    config: AskConfig,
    identity: str,
    evidence: Evidence,
    ledger: Ledger,
    is_unfinished: Callable[[Trajectory], bool] = lambda record: False,
    **how: Any,
) -> Trajectory:
    """Research a question as the next one of a session, or go on with one. ``is_unfinished``: whether its report needs more."""
    id = going.id or episode_id(question.text, agent, config.agent.seed, going.before)
    report = question.meta.get(REPORT, {}).get("question", "")
    asked = going.to_keep(id, question.text, to_toml(config), report)
    if going.reasoning_field:
        tell_reasoning_field(agent.policy, going.reasoning_field)
    with keeping(session, going, asked, agent, identity, evidence, ledger) as keep:
        done = await research(question, agent, journal=keep.journal, id=id, before=going.before, **how)
        keep.record(done, unfinished=is_unfinished(done))
    return done


async def _report(
    question: str,
    path: Path,
    session: Session,
    kept: Callable[..., Awaitable[Trajectory]],
    finish: Finish,
    files: Files,
) -> list[Trajectory]:
    """Write a report from where it stands, until it is complete, or ``finish`` is set; the file has what is finished."""
    from sanderling.agent.writing import Kind, kind_of, next_part
    from sanderling.judge.written import as_written  # brings the templates, which answers do without

    records = session.records()
    while (part := next_part(question, records)) is not None:
        records = [one for one in records if one.ending and one.ending.scored and one.ending is not Ending.CONTEXT_EXHAUSTED]

        def is_unfinished(record: Trajectory, before: Sequence[Trajectory] = records) -> bool:
            return next_part(question, [*before, record]) is not None

        told = part.heading or ("outline" if part.kind is Kind.OUTLINE else first_line(part.text))
        Console(stderr=True).rule(Text(visible(told), style="bold"), characters="━")
        asked = part.to_question()
        done = await kept(asked, session, place_in(session, asked.text), is_unfinished=is_unfinished)
        records = [*records, done]
        with or_cannot(f"write {path}", f"then sanderling resume {session.id} --set report=FILE goes on"):
            replace_file(path, as_written(records, path.suffix, files))
        print_answer(done, files)
        if finish.is_set() or done.ending is None or not done.ending.scored or (part.kind is Kind.OUTLINE and not done.answer):
            break
        if done.ending is Ending.CONTEXT_EXHAUSTED:
            break
    last = records[-1]
    if last.ending is Ending.CONTEXT_EXHAUSTED:
        told = f"ends there: {visible(last.detail)}"
    elif next_part(question, records) is not None:
        has_one = any(kind_of(one) is Kind.SECTION and one.answer is not None for one in records)
        told = "has the sections that are finished" if has_one else "has no section yet"
    else:
        told = "is complete"
    Console().print(Text(f"{path} {told.rstrip('.')}.", style="bold"), soft_wrap=True)
    return records


def _consents(call: Outgoing) -> bool:
    """Whether whoever sits there wants a call sent that repeats a document; no, where nobody answers."""
    text = visible(" ".join(call.text.split()))
    try:
        return typer.confirm(f"This {call.what} repeats words of your documents: {text}\nSend it to the web?", err=True)
    except typer.Abort:
        return False


def _session_at(link: Path | None) -> Session | None:
    """A new session; with ``--out`` a link beside that file leads to it until it has ended, so the same command goes on.

    None: what was begun there without a session goes on without one.
    """
    if link is not None and link.is_dir():
        return Session(link.resolve()) if link.is_symlink() else None
    session = new_session()
    if link is not None:
        with or_cannot(f"write beside {link}"):
            link.unlink(missing_ok=True)  # its session is gone
            link.symlink_to(session.directory, target_is_directory=True)
    return session


async def research(
    question: Question,
    agent: Agent,
    *,
    seed: int = 0,
    journal: Journal | None = None,
    log: JsonlLog | None = None,
    spend: Spend | None = None,
    finish: Finish | None = None,
    id: str = "",
    before: Trajectory | None = None,
) -> Trajectory:
    """Run the episode, printing its turns; Ctrl-C asks for the answer, and then ends it. ``log``: where calls are recorded.

    ``finish``: is set when the answer has been asked for early. ``id``: the record's; empty: see :func:`episode_id`.
    ``before``: what the question follows.
    """
    id = id or episode_id(question.text, agent, seed, before)
    if log is not None:
        from sanderling.tools.recording import recorded_tools

        tools = recorded_tools(agent.tools, tool_roles(agent.profile), log, episode=id, question=question.text)
        agent = replace(agent, tools=tools)
    watch, finish = Watcher(Console(stderr=True), str if spend is None else spend.left), finish or Finish()
    if spend is not None:
        agent = replace(agent, tools=spend.tools(agent.tools))

    def on_event(event: Event) -> None:
        watch(event)
        if spend is not None and spend.is_closing_after(event):
            finish.why, finish.most = "What may be spent is nearly used up.", spend.most_left()
            finish.set()

    def hurry() -> None:
        finish.set()
        watch.line(Text("The answer is asked for with the next turn. Ctrl-C once more stops.", style="yellow"))

    def look() -> None:
        """Give up what goes on long after its time."""
        nonlocal later, given_up
        left = inf if spend is None else spend.patience()
        if 0 < left < inf:
            later = asyncio.get_running_loop().call_later(left, look)
        elif left <= 0:
            watch.line(Text("The time is long over: the turn under way is given up.", style="yellow"))
            given_up = True
            stop.set()

    seeds, later, given_up = Seeds(run=seed, episode=seed), None, False
    with stop_on_interrupt(hurry) as stop:
        look()
        try:
            how = {"on_event": on_event, "cancel": stop, "journal": journal, "finish_early": finish, "before": before}
            done = await agent.run(question, seeds, id=id, **how)
            return done.model_copy(update={"detail": _TOO_LONG}) if given_up and done.ending is Ending.CANCELLED else done
        except BudgetSpentError as error:
            raise UserError(f"{error} Give more with --set budget.max_tokens or budget.max_cost.") from error
        finally:
            if later is not None:
                later.cancel()


def print_answer(done: Trajectory, files: Files = no_files) -> None:
    """Print an answer, once it is kept, since nobody may read it any more; a part of a report is progress, too."""
    progress = Console(stderr=True)
    shown_answer(done, progress if REPORT in done.question.meta else Console(), progress, files)


def as_question(text: str, folder: Path | None = None) -> Question:
    """A question as it is asked by hand, about the files of a folder. Raises UserError where there is none."""
    if folder is None:
        return Question(id=f"ask-{_digest(text)}", text=text)
    with or_cannot(f"read {folder}", "name a folder of files with agent.files"):
        names = sorted(path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    about = f"{text}\n\n(The attached files are {', '.join(names)}.)" if names else text
    return Question(id=f"ask-{_digest(about)}", text=about, meta={FILES: names})


def episode_id(question: str, agent: Agent, seed: int, before: Trajectory | None = None) -> str:
    """The same for the same command."""
    more = [*([] if agent.reader is None else [str(agent.reader)]), *([] if before is None else [before.id])]
    return f"ask-{_digest(question, agent.policy.name, agent.fingerprint, agent.profile.name, str(seed), *more)}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", errors="replace")).hexdigest()[:12]
