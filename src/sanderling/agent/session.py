"""Sessions: what was asked, kept so that it can be read, resumed after a kill, followed by a further question, and handed on.

A session is a conversation in the directory of a run of its own. For each question the run has with which settings it was
asked, the journal of its episode, which a session keeps, and its record; and all that the places said (`evidence`). A further
question adds to these, and changes nothing of what is there.
"""

import datetime
import os
import re
import secrets
import sys
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sanderling import __version__
from sanderling.agent.agent import Agent
from sanderling.agent.evidence import Evidence
from sanderling.agent.journal import EPISODES, Journal
from sanderling.agent.spend import tokens_taken
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, encode_record
from sanderling.core.types import Ending
from sanderling.policy.budget import NOTHING, SPENT, Ledger, Spent
from sanderling.policy.contract import takes_tools
from sanderling.runs.files import close_directory, or_cannot
from sanderling.runs.run import DATABASE, RECORDS, NoRunError, reading, records

LAST = "last"
ASKED, MEANS = "asked", "means"  # tables: questions, and what each was researched with
_ID = re.compile(r"\d{4}-[0-9a-f]{4}")
_PACKAGES = ("pydantic", "httpx", "tokenizers", "tantivy", "pyarrow", "torch", "transformers")


class Asked(Frozen):
    """A question of a session."""

    id: str  # its record's
    text: str
    at: datetime.datetime
    settings: str  # of ``ask``, as TOML
    folder: Path  # from where its paths lead
    spent_before: tuple[int, float] = (0, 0.0)  # tokens and money that the session had taken
    ending: Ending | None = None  # None: it is under way, or was killed
    tokens: int = 0  # read and written
    report: str = ""  # of a part of a report: what the report is to answer
    unfinished: bool = False  # that report needs more

    @property
    def told(self) -> str:
        """What a person asked."""
        return self.report or self.text

    @property
    def is_open(self) -> bool:
        """Whether it has not ended, and can be gone on with."""
        return self.ending is None or not self.ending.scored


def going_on(asked: Sequence[Asked]) -> Asked | None:
    """With what ``resume`` has something to do: the last question where that is open, or else an unfinished report."""
    if asked and asked[-1].is_open:
        return asked[-1]
    part = next((one for one in reversed(asked) if one.report), None)
    return part if part is not None and (part.unfinished or part.ending is Ending.CONTEXT_EXHAUSTED) else None


@dataclass(frozen=True)
class Session:
    """A conversation that is kept."""

    directory: Path

    @property
    def id(self) -> str:
        return self.directory.name

    def questions(self) -> list[Asked]:
        """Its questions, in order; none where its maker was killed at once. Raises UserError."""
        try:
            with reading(self.directory) as tables:
                return [Asked.model_validate(value) for _, value in tables(ASKED)[0].items()]
        except NoRunError:
            return []
        except ValidationError as error:
            raise UserError(f"{self.directory} was kept by another version of sanderling: use that one.") from error

    def records(self) -> list[Trajectory]:
        """The record of each question that has one."""
        return list(records(self.directory)) if self.questions() else []

    def before(self, id: str = "") -> Trajectory | None:
        """The record that a question follows; without an id, the next one."""
        ids = [one.id for one in self.questions()]
        number = ids.index(id) if id in ids else len(ids)
        with reading(self.directory) as tables:
            return tables(RECORDS)[0].record(ids[number - 1]) if number else None

    def spent(self) -> Spent:
        """What its questions took."""
        with reading(self.directory) as tables:
            return sum((Spent(*value) for _, value in tables(SPENT)[0].items()), NOTHING)

    def docs(self) -> list[list[Path]]:
        """The folders of documents of each question."""
        told = ((one.folder, tomllib.loads(one.settings).get("agent", {}).get("docs", [])) for one in self.questions())
        return [[folder / path for path in paths] for folder, paths in told]

    def seconds(self) -> float:
        """What its questions that have ended took."""
        return sum(record.seconds for record in self.records() if record.ending is not None and record.ending.scored)

    def reasoning_field(self, ids: Sequence[str]) -> str:
        """Where the server of its model gave reasoning, as the journals of questions say; empty: nowhere."""
        with reading(self.directory) as tables:
            entries = (entry for id in reversed(ids) for _, entry in tables(f"episode {id}")[0].items("turn "))
            return next((field for entry in entries if (field := entry["done"].get("reasoning_field"))), "")


def home() -> Path:
    """Where sessions are kept for this user."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "sanderling" / "sessions"


def new_session() -> Session:
    """An empty one, which its owner alone may read. Raises UserError."""
    while True:
        directory = home() / f"{datetime.datetime.now().astimezone():%m%d}-{secrets.token_hex(2)}"
        with or_cannot(f"keep the question in {home()}", "free some space, or ask with --no-save"):
            if not directory.exists():
                close_directory(directory)
                return Session(directory)


def sessions() -> list[tuple[Session, list[Asked]]]:
    """All that are kept with their questions, the one that was asked something last first. Raises UserError."""
    kept: list[tuple[Session, list[Asked]]] = []
    for path in home().iterdir() if home().is_dir() else ():
        try:
            kept += [(Session(path), asked)] if (asked := Session(path).questions()) else []
        except UserError as error:  # one of them does not hide the others
            warnings.warn(f"{error} It is left out.", stacklevel=2)
    return sorted(kept, key=lambda one: one[1][-1].at, reverse=True)


def is_session(name: str) -> bool:
    """Whether a word names a session, or the last one."""
    return name == LAST or (_ID.fullmatch(name) is not None and (home() / name / DATABASE).is_file())


def find_session(name: str) -> Session:
    """A session by its id, by how that begins, or the last one. Raises UserError."""
    kept = [session for session, _ in sessions()]
    if not kept:
        raise UserError("No question is kept yet: ask one with sanderling ask.")
    found = kept[:1] if name == LAST else [one for one in kept if name and one.id.startswith(name)]
    if len(found) == 1 or (found and found[0].id == name):
        return found[0]
    if found:
        some = ", ".join(one.id for one in found[:5]) + ("" if len(found) <= 5 else ", …")
        raise UserError(f"{name} begins the ids of {len(found)} sessions ({some}): write more.")
    raise UserError(f"There is no session {name!r}: sanderling history lists those that are kept.")


@dataclass(frozen=True)
class Going:
    """How a session goes on: with its last question where that is open, else with a further one; with none, it begins."""

    id: str = ""  # of the open one's record
    before: Trajectory | None = None  # what the question follows
    spent: Spent = NOTHING  # by the questions before it
    reasoning_field: str = ""  # where the model's server gave its reasoning

    def to_keep(self, id: str, text: str, settings: str, report: str = "") -> Asked:
        """The question as it is kept."""
        spent = (self.spent.tokens, self.spent.cost)
        now = datetime.datetime.now().astimezone()
        return Asked(id=id, text=text, at=now, settings=settings, folder=Path.cwd(), spent_before=spent, report=report)


def place_in(session: Session | None, text: str = "") -> Going:
    """Where the next question of a session stands. ``text``: of a part of a report, which goes on if the context was full."""
    if session is None or not (asked := session.questions()):
        return Going()
    field = session.reasoning_field([one.id for one in asked])
    if asked[-1].is_open or (asked[-1].text == text and asked[-1].ending is Ending.CONTEXT_EXHAUSTED):
        return Going(asked[-1].id, session.before(asked[-1].id), Spent(*asked[-1].spent_before), field)
    return Going("", session.before(), session.spent(), field)


@dataclass(frozen=True)
class Keeping:
    """A question under way in its session."""

    journal: Journal
    asked: Asked

    def record(self, record: Trajectory, *, unfinished: bool = False) -> None:
        """Keep what became of it; its journal stays. ``unfinished``: see `Asked`."""
        self.journal.run.table(RECORDS).put(record.id, None, blob=encode_record(record))
        became = {"ending": record.ending, "tokens": sum(tokens_taken(record)), "unfinished": unfinished}
        ended = self.asked.model_copy(update=became)
        self.journal.run.table(ASKED).put(record.id, ended.model_dump(mode="json"))


@contextmanager
def keeping(
    session: Session, going: Going, asked: Asked, agent: Agent, identity: str, evidence: Evidence, ledger: Ledger
) -> Iterator[Keeping]:
    """Keep a question before it is asked, with the journal of its episode (``identity``: see `Journal`) and all it reads.

    A question to which nothing was said, since the model cannot be asked, is not kept. Raises UserError where another process
    has asked something since ``going`` was found.
    """
    with Journal(session.directory, identity) as journal:
        run = journal.run
        earlier = [key for key, _ in run.table(ASKED).items() if key != asked.id]
        if earlier[-1:] != ([going.before.id] if going.before else []):
            raise UserError(f"Another process has asked on in session {session.id}: look at it with sanderling show, then ask.")
        run.table(MEANS).put(asked.id, means_of(agent, evidence))
        run.table(ASKED).put(asked.id, asked.model_dump(mode="json"))
        ledger.keep_in(run.table(SPENT))
        evidence.keep_in(run)
        try:
            yield Keeping(journal, asked)
        except UserError as error:
            if asked.id in run.table(EPISODES):
                told = f"{error} What was done is kept: sanderling resume {session.id} goes on with it."
                raise UserError(told) from error
            for table in (ASKED, MEANS):
                run.table(table).remove(asked.id)
            if not run.table(ASKED).keys():
                run.reset("")
            raise


def means_of(agent: Agent, evidence: Evidence) -> dict[str, Any]:
    """With what an agent researches, so that its loop can be run again without model and places."""
    policy, tokenizer = agent.policy, agent.policy.tokenizer
    sampling = agent.profile.sampling.model_dump(mode="json", exclude_unset=True)  # what is left to a server stays so
    return {
        "made_with": _versions(),
        "profile": agent.profile.model_dump(mode="json") | {"sampling": sampling},
        "tools": [tool.spec.model_dump(mode="json") for tool in agent.tools.values()],
        "reader": agent.reader,
        "offline": evidence.offline,
        "policy": {
            "name": policy.name,
            "version": policy.version,
            "context_length": policy.context_length,
            "takes_tools": takes_tools(policy),
            "tokenizer": None if tokenizer is None else str(getattr(tokenizer, "file", "")),
        },
    }


def _versions() -> dict[str, str]:
    found = {"sanderling": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # an extra that is not installed
            continue
    return found
