"""Capsules: a session in one file, whose loop anybody can run again without a socket, to see that it comes out the same.

A capsule is a zip. ``capsule.json`` says what is asked, and names every other member with its SHA-256: the records, the journal
with what the model said, the replies of searches and visits, each page, and the tokenizer of a token-level model. The archive's
comment ends in the SHA-256 of all bytes before it, so that every changed byte is found.
"""

import datetime
import hashlib
import json
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

from pydantic import ValidationError

from sanderling import __version__
from sanderling.agent.agent import Agent
from sanderling.agent.evidence import PAGES, REPLIES, Again
from sanderling.agent.journal import EPISODES, Journal, Journaled, JournalWarning, Replay
from sanderling.agent.session import MEANS
from sanderling.agent.session import Session as Conversation
from sanderling.agent.spend import LEFT
from sanderling.agent.turns import Outcome, run_call
from sanderling.core.chat import Tokenizer
from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile
from sanderling.core.record import FOLLOWS, Trajectory, decode_record, decode_trajectory, encode_record
from sanderling.core.types import Clock, FixedClock, Sampling, ToolCall, ToolSpec, ToolStatus
from sanderling.policy.contract import Completion, MessageSession, OnText, Policy, SampleKey, Session
from sanderling.runs.files import or_cannot, replace_file
from sanderling.runs.run import Run, differences, reading
from sanderling.tools.contract import Tool, ToolContext, ToolOutageError, ToolResult, tool_roles
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page

_FORMAT = 1
_MANIFEST, _TOKENIZER = "capsule.json", "tokenizer.json"
_RECORDS, _JOURNAL, _REPLIES = "records.jsonl", "journal.jsonl", "replies.jsonl"
_SEAL = b"sha256 of all before: "
_UNREADABLE = (BadZipFile, zlib.error, EOFError, RuntimeError, LookupError, ValueError, TypeError, AttributeError, OSError)
_LARGEST = 4 << 30  # bytes, unpacked
_COPY = "get another copy, or export the session again"


@dataclass(frozen=True)
class Capsule:
    """A session as a capsule has it."""

    path: Path
    manifest: dict[str, Any]
    records: list[Trajectory]
    journal: list[dict[str, Any]]  # of each record: its ``entries``, when it ``began``, and its ``means``
    replies: list[dict[str, Any]]
    pages: list[Page]
    tokenizer: bytes | None

    @property
    def made_by(self) -> str:
        return self.manifest["made_with"]["sanderling"]

    def before(self, number: int) -> Trajectory | None:
        """What question ``number`` follows."""
        follows = self.records[number].meta.get(FOLLOWS)
        return None if follows is None else {one.id: one for one in self.records}[follows["id"]]

    def profile(self, number: int = 0) -> Profile:
        """Under which a question was researched. Raises UserError."""
        try:
            return Profile.model_validate(self.journal[number]["means"]["profile"])
        except ValidationError as error:
            told = f"{self.path} was made by sanderling {self.made_by}, whose profiles differ: replay it with that."
            raise UserError(told) from error


def write_capsule(session: Conversation, path: Path) -> dict[str, Any]:
    """Put a session whose questions have all ended into one file; returns its manifest. Raises UserError."""
    asked = session.questions()
    if asked[-1].is_open:
        raise UserError(f"Session {session.id} has not ended: run sanderling resume {session.id} first.")
    records = session.records()
    with reading(session.directory) as tables:
        episodes, means = tables(EPISODES)[0], tables(MEANS)[0]
        journal = [
            {
                "id": one.id,
                "began": episodes.get(one.id) or {"on": one.at.date().isoformat(), "root": ""},
                "means": means.get(one.id),
                "entries": list(tables(f"episode {one.id}")[0].items()),
            }
            for one in asked
        ]
        replies = [value for _, value in tables(REPLIES)[0].items()]
        members = {_RECORDS: _lines(records), _REPLIES: _lines(replies)}
        pages = []
        for number, (key, about) in enumerate(tables(PAGES)[0].items(), start=1):
            file = f"pages/{number:04}.md"
            members[file] = tables(PAGES)[0].blob(key) or b""
            pages.append({**about, "file": file})
    for one in journal:  # its place is nobody else's business
        file, one["means"]["policy"]["tokenizer"] = one["means"]["policy"]["tokenizer"], records[0].tokenizer
        if file is not None:
            with or_cannot(f"read the model's tokenizer {file}", "export the session where its model is"):
                members[_TOKENIZER] = Path(file).read_bytes()
    members[_JOURNAL] = _lines(journal)
    told = [
        {"question": one.text, "at": one.at.isoformat(), "answer": done.answer, "model": done.model, "seeds": done.seeds}
        for one, done in zip(asked, records, strict=True)
    ]
    manifest = {
        "capsule": _FORMAT,
        "session": session.id,
        "made_with": journal[-1]["means"]["made_with"],
        "questions": told,
        "pages": pages,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
    }
    with or_cannot(f"write {path}"):
        replace_file(path, _sealed({_MANIFEST: encode_record(manifest), **members}))
    return manifest


def _lines(values: Sequence[Any]) -> bytes:
    return b"".join(encode_record(value) + b"\n" for value in values)


def _sealed(members: dict[str, bytes]) -> bytes:
    """The archive: equal members, equal bytes."""
    made = BytesIO()
    with ZipFile(made, "w", ZIP_DEFLATED) as archive:
        archive.comment = _SEAL + b"0" * 64
        for name, data in members.items():
            archive.writestr(ZipInfo(name), data, ZIP_DEFLATED)
    head = made.getvalue()[:-64]
    return head + hashlib.sha256(head).hexdigest().encode()


def open_capsule(path: Path) -> Capsule:
    """A capsule whose every byte is as it was made. Raises UserError: it is none, or it was changed, and where."""
    with or_cannot(f"read {path}", "check the path"):
        data = path.read_bytes()
    try:
        archive = ZipFile(BytesIO(data))
        manifest = json.loads(archive.read(_MANIFEST))
        made_by, format = manifest["made_with"]["sanderling"], manifest["capsule"]
    except _UNREADABLE as error:
        if data[-64 - len(_SEAL) : -64] == _SEAL:
            raise UserError(f"{path} is damaged ({_MANIFEST} cannot be read): {_COPY}.") from error
        raise UserError(f"{path} is no capsule: make one with sanderling export SESSION --to capsule.") from error
    if format != _FORMAT:
        raise UserError(f"{path} was made by sanderling {made_by} in another format: replay it with that.")
    if sum(member.file_size for member in archive.infolist()) > _LARGEST:
        raise UserError(f"{path} would take more than 4 GB unpacked, as no session does: {_COPY}.")
    try:
        members: dict[str, bytes] = {}
        if more := set(archive.namelist()) - {_MANIFEST, *manifest["files"]}:
            raise UserError(f"{path} was changed after it was made ({min(more)} was added): {_COPY}.")
        titles = {page["file"]: f"the page {page['url']}" for page in manifest["pages"]}
        for name, digest in manifest["files"].items():
            try:
                members[name] = archive.read(name)
            except _UNREADABLE as error:
                raise UserError(f"{path} is damaged ({titles.get(name, name)} cannot be read): {_COPY}.") from error
            if hashlib.sha256(members[name]).hexdigest() != digest:
                raise UserError(f"{path} was changed after it was made ({titles.get(name, name)} is another): {_COPY}.")
        if hashlib.sha256(data[:-64]).hexdigest().encode() != data[-64:]:
            raise UserError(f"{path} was changed after it was made: {_COPY}.")
        records, journal, replies = (
            [decode_record(line) for line in members[name].splitlines()] for name in (_RECORDS, _JOURNAL, _REPLIES)
        )
        pages = [
            Page(url=page["url"], title=page["title"], text=members[page["file"]].decode("utf-8", "surrogatepass"))
            for page in manifest["pages"]
        ]
        told = list(map(decode_trajectory, records))
        capsule = Capsule(path, manifest, told, journal, replies, pages, members.get(_TOKENIZER))
        if not told or [one["id"] for one in journal] != [one.id for one in told]:
            raise ValueError("records and journal are of different questions")
        for number in range(len(told)):
            capsule.before(number)
        return capsule
    except _UNREADABLE as error:
        raise UserError(f"{path} holds no session that can be read ({error}): {_COPY}.") from error


# -- the loop, again -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replayed:
    """A question's episode that was run again, and where it differs from its record."""

    record: Trajectory
    calls: int  # whose results came out of the replies again
    taken: int  # whose results stand for themselves: a model read the page, a tool is not in the capsule, or a clock ended it
    differences: tuple[str, ...]


async def replay(capsule: Capsule) -> list[Replayed]:
    """Run the loop over a capsule again: model and clock answer from the journal, places from their replies, nothing else."""
    found: list[Replayed] = []
    with TemporaryDirectory() as place, Run(Path(place) / "run") as run, warnings.catch_warnings():
        warnings.simplefilter("ignore", JournalWarning)  # what it says is in the differences
        tokenizer = None
        if capsule.tokenizer is not None:
            file = Path(place) / _TOKENIZER
            file.write_bytes(capsule.tokenizer)
            tokenizer = Tokenizer(file)
        for number, record in enumerate(capsule.records):
            try:
                found.append(await _again(capsule, number, run, tokenizer))
            except _UNREADABLE as error:  # somebody who knew how to close it again has put in something else
                told = " ".join(str(error).split())[:200]
                found.append(Replayed(record, 0, 0, (f"it cannot be run again ({type(error).__name__}: {told})",)))
    return found


async def _again(capsule: Capsule, number: int, run: Run, tokenizer: Tokenizer | None) -> Replayed:
    """One question's episode."""
    record, kept, profile = capsule.records[number], capsule.journal[number], capsule.profile(number)
    run.table(EPISODES).put(record.id, kept["began"])
    run.table(f"episode {record.id}").replace(dict(kept["entries"]))
    means, clock = kept["means"], FixedClock(datetime.date.fromisoformat(kept["began"]["on"]))
    places = world_tools(Again(record.world, means["offline"], capsule.replies), profile)
    tools = {one.name: places.get(one.name) or _Absent(one) for one in map(ToolSpec.model_validate, means["tools"])}
    with _Recorded(run.directory, kept, tool_roles(profile)) as journal:
        policy = _Silent(**means["policy"] | {"tokenizer": tokenizer})
        agent = Agent(policy, tools, profile, clock, record.world)
        try:
            how = {"id": record.id, "journal": journal, "before": capsule.before(number)}
            done = await agent.run(record.question, record.seeds, **how)
        except _OtherwiseError as error:
            journal.differences.append(f"{error} (made by sanderling {capsule.made_by}; this is {__version__})")
        else:
            was, now = (decode_record(encode_record(one)) for one in (record, done))
            journal.differences += differences(was, now, "the record's")
        return Replayed(record, journal.calls, journal.taken, tuple(journal.differences))


class _Recorded(Journal):
    """The journal of one episode that is run again, with what is found meanwhile."""

    def __init__(self, directory: Path, kept: dict[str, Any], roles: Mapping[str, str]) -> None:
        super().__init__(directory)
        read_by_model = kept["means"]["reader"] is not None
        self.checked = {name for name, role in roles.items() if role == "search" or not read_by_model}
        self.root: str = kept["began"]["root"]
        self.calls = self.taken = 0
        self.differences: list[str] = []

    def episode(self, id: str, policy: Policy, clock: Clock, about: str) -> Replay:
        return _Episode(self, id, policy, clock)


class _Episode(Journaled):
    """Answers as the journal does, and makes each call again over the replies, to see that its result is what was read."""

    def __init__(self, journal: _Recorded, id: str, policy: Policy, clock: Clock) -> None:
        super().__init__(journal.run, id, policy, clock, journal.root)
        self._journal = journal

    async def run_call(self, call: ToolCall, tools: Mapping[str, Tool], context: ToolContext) -> Outcome:
        was, journal = await super().run_call(call, tools, context), self._journal
        stopped = was.result.status is ToolStatus.TIMEOUT and not was.result.parts
        if stopped or (call.name in tools and call.name not in journal.checked):
            journal.taken += 1
            return was
        journal.calls += 1
        now = await run_call(call, tools, context)
        same_text = was.result.text == now.result.text or was.result.text.startswith(f"{now.result.text}{LEFT}")
        if not same_text or replace(was.result, text="", latency_s=0.0) != replace(now.result, text="", latency_s=0.0):
            journal.differences.append(f"call {context.ordinal + 1} ({call.name}) reads otherwise over the kept replies")
        return was


class _OtherwiseError(Exception):
    """The loop asks the model something that it was not asked."""


@dataclass
class _Silent:
    """The policy that spoke, without its model: all that it says is in the journal."""

    tokenizer: Tokenizer | None
    name: str
    version: int
    context_length: int | None
    takes_tools: bool

    def open(self, key: SampleKey) -> Session:
        return _SilentSession()


class _SilentSession(MessageSession):
    async def _speak(self, branch: Sequence[Any], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion:
        raise _OtherwiseError(f"turn {key.turn + 1} is asked of the model otherwise than in the record")


@dataclass(frozen=True)
class _Absent:
    """A tool that is not in the capsule; the results of its calls are."""

    spec: ToolSpec

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        raise ToolOutageError(f"{self.spec.name} is not in the capsule.")
