"""The log of an evaluation: one directory a run, judged again in place.

``run.db`` (see `runs.run`) holds what the run is, its attempts (each in short, with its whole record as a blob), verdicts, and
what models have cost; beside it stand ``questions.jsonl``, ``guard.jsonl`` (what was hidden) and ``result.json``.
A *round* is one pass over what is missing; the same command, called on a finished run, begins another over attempts that met
outages. A run goes on with the agent, world, questions, guard and seed that it was begun with; attempts may become more.

Example: ``[log.record(one) for one in RunLog(Path("runs/gaia")).episodes()]``
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory, encode_record, encode_trajectory
from sanderling.data.questions import read_questions, write_questions
from sanderling.evaluate.episodes import Episode, JudgedAttempt, Key, accepted_digest, episode_of
from sanderling.evaluate.guarding import NO_GUARD, GuardFacts
from sanderling.evaluate.peers.records import PeerFacts
from sanderling.evaluate.result import EvalResult, Record
from sanderling.judge.book import ByHand
from sanderling.judge.verdict import META_KEY
from sanderling.policy.budget import Prices
from sanderling.runs.files import close_directory, locked
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.run import DATABASE, RECORDS, NoRunError, Run, Table, go_on_with, reading, without_places

JUDGE = "judge"
# Tables of run.db: what the run is, verdicts by attempt, and what a person brought; then keys that are no attempt's id.
_ABOUT, _JUDGED, _BY_HAND, _PUBLISHED = "about", "judged", "by_hand", "published"
_STATE, _SETUP, _JUDGED_BY = "evaluation", "attempts", ""
_OR_ELSE = "go on with those, or choose another store"
T = TypeVar("T")


class Kind(StrEnum):
    """Who made the attempts of a run."""

    OWN = "own"
    PEERS = "peers"  # others, whose records were imported


class About(Record):
    """What a run measures; fixed, but for a file whose accepted answers were mended, and for what of it is shown."""

    kind: Kind = Kind.OWN
    benchmark: str
    split: str = ""
    file: str = ""  # name of the file that the questions came from, without its place
    file_sha256: str = ""
    chosen: str = "all"  # which of its questions: ``all``, ``first 20``, ``20 by seed 0``
    questions: int
    questions_sha256: str  # of ids, texts and masks, in order; accepted answers may be mended
    seed: int
    private: bool = False  # its texts are not to be published
    canaries: tuple[str, ...] = ()
    guard: GuardFacts = NO_GUARD
    peers: PeerFacts | None = None  # of others' records


class RunState(Record):
    """What a run is, and how far."""

    about: About
    attempts: int
    round: int = 1
    finished: bool = False  # whether the round is over
    commands: tuple[str, ...] = ()  # all that worked on it, each once, in the order of their last time
    unscored_limit: float = 0.02  # a larger share of unscored attempts makes the run invalid
    prices: Prices | None = None  # what the agent's tokens cost, as the last command that named a price has it


class JudgedBy(NamedTuple):
    """Whose verdicts a run has, by name."""

    first: str
    second: str = ""


NOBODY = JudgedBy("")


class AttemptStore(Protocol):
    """Where attempts are kept: records, and later verdicts on them; of several records of one attempt the last counts."""

    def episodes(self) -> Iterable[Episode]: ...
    def append(self, trajectory: Trajectory) -> Episode: ...
    def judged(self, episode: Episode, question: Question, verdict: dict[str, Any]) -> Episode: ...


class RunLog:
    """A run's directory; one process writes, and any may read meanwhile."""

    def __init__(self, root: Path) -> None:
        self.root, self.database = root, root / DATABASE
        self.questions_file, self.guard_file = root / "questions.jsonl", root / "guard.jsonl"
        self.result_file = root / "result.json"
        self._run: Run | None = None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other processes out, however this one ends. Raises UserError while one is at work."""
        with locked(self.root), Run(self.root, locked=True) as self._run:
            try:
                yield
            finally:
                self._run = None

    @property
    def run(self) -> Run:
        """The run's database, open for writing."""
        if self._run is None:
            self._run = Run(self.root)
        return self._run

    @contextmanager
    def _read(self, kind: str) -> Iterator[Table | None]:
        """A table for a look; None where there is no run."""
        if self._run is not None:
            yield self._run.table(kind)
            return
        try:
            with reading(self.root) as tables:
                yield tables(kind)[0]
        except NoRunError:
            yield None

    def _values(self, kind: str) -> dict[str, Any]:
        with self._read(kind) as table:
            return {} if table is None else dict(table.items())

    def _as(self, kind: type[T], value: Any) -> T:
        try:
            return _ADAPTERS[kind].validate_python(value)
        except ValidationError as error:
            told = f"{self.database} was written by another version of sanderling, or is damaged"
            raise UserError(f"{told}: use that one, or choose another directory.") from error

    # -- what the run is -----------------------------------------------------------------------------------------------

    def begin(
        self, about: About, questions: Sequence[Question], attempts: int, command: str, prices: Prices | None = None
    ) -> RunState:
        """Write down what a new run is; one that is there stays as it is until :meth:`write_state`.

        Raises UserError where the directory holds another run, or something else.
        """
        was = self.read()
        if was is None:
            held = {path.name for path in self.root.iterdir()} if self.root.is_dir() else set[str]()
            held -= {".lock", *(DATABASE + end for end in ("", "-wal", "-shm", "-journal"))}  # a kill may have come just then
            if held:
                raise UserError(f"{self.root} holds something else than a run ({min(held)}): choose another directory.")
            now = RunState(about=about, attempts=attempts, commands=(command,), prices=prices)
            self.write_state(now, questions)
            return now
        # A file with the same questions is the same run: its accepted answers may have been mended. So may what is shown.
        for name in (name for name in About.model_fields if name not in ("file", "file_sha256", "private")):
            before, after = getattr(was.about, name), getattr(about, name)
            if isinstance(before, PeerFacts) and isinstance(after, PeerFacts):
                before, after = before.sources_sha256, after.sources_sha256
            if before != after:
                others = {"questions_sha256": "the questions are others", "peers": "the records are others"}
                told = others.get(name, f"{name} was {before!r} and is {after!r}")
                raise UserError(f"{self.root} was begun with something else ({told}): choose another directory.")
        if attempts < was.attempts:
            raise UserError(f"{self.root} was begun with {was.attempts} attempts: give as many, or more.")
        return was.model_copy(
            update={
                "about": about,
                "attempts": attempts,
                "finished": False,
                "round": was.round + was.finished,
                "commands": (*(one for one in was.commands if one != command), command),
                "prices": prices or was.prices,
            }
        )

    def write_state(self, state: RunState, questions: Sequence[Question]) -> None:
        """Write down what the run is from now on: everything else that was asked for has been found to be there.

        A private run's directory is for its owner alone. Raises UserError where it cannot be.
        """
        if state.about.private:
            try:
                close_directory(self.root)
            except OSError as error:
                told = f"{self.root} cannot be closed to others ({error.strerror})"
                raise UserError(f"{told}, and the run is private: choose a directory of your own.") from error
        self._write(state)  # first: what it stands beside belongs to it
        write_questions(self.questions_file, questions, private=state.about.private)

    def finish(self, state: RunState) -> None:
        """The round is over; its result has to be written before."""
        self._write(state.model_copy(update={"finished": True}))

    def price(self, prices: Prices) -> None:
        """From now on the agent's tokens cost this. Raises UserError where there is no run."""
        self._write(self.require().model_copy(update={"prices": prices}))

    def _write(self, state: RunState) -> None:
        self.run.table(_ABOUT).put(_STATE, state.model_dump(mode="json"))

    def read(self) -> RunState | None:
        """What the run is; None where there is none. Raises UserError for a damaged one."""
        value = self._values(_ABOUT).get(_STATE)
        return None if value is None else self._as(RunState, value)

    def require(self) -> RunState:
        """:meth:`read`. Raises UserError where there is no run."""
        found = self.read()
        if found is None:
            raise UserError(f"{self.root} is no run of an evaluation: give a directory that sanderling eval run has written.")
        return found

    def questions(self) -> list[Question]:
        """What the run asks. Raises UserError."""
        return read_questions(self.questions_file)

    def made_with(self) -> dict[str, Any]:
        """What its attempts depend on; empty where it does not say."""
        return self._values(_ABOUT).get(_SETUP, {})

    # -- attempts: an `AttemptStore` -----------------------------------------------------------------------------------

    def episodes(self) -> list[Episode]:
        """All attempts in short, in the order of their making; no record is read."""
        return [self._as(Episode, value) for value in self._values(RECORDS).values()]

    def counted(self, result: EvalResult) -> dict[Key, Episode]:
        """Those that a result is about."""
        asked = {one.id for one in result.questions}
        return {one.key: one for one in self.episodes() if one.question in asked and one.attempt < result.attempts}

    def record(self, episode: Episode) -> Trajectory:
        """An attempt whole. Raises UserError for a damaged one."""
        return next(self.records([episode]))

    def records(self, episodes: Iterable[Episode] | None = None) -> Iterator[Trajectory]:
        """These attempts whole, or all, one by one."""
        with self._read(RECORDS) as table:
            ids = [one.id for one in episodes] if episodes is not None else table.keys() if table is not None else []
            for id in ids:
                assert table is not None, "its attempts were read from it"
                yield table.record(id)

    def append(self, trajectory: Trajectory, *, durable: bool = True) -> Episode:
        episode = episode_of(trajectory)
        self._keep(episode, encode_trajectory(trajectory), durable=durable)
        return episode

    def judged(self, episode: Episode, question: Question, verdict: dict[str, Any]) -> Episode:
        later = replace(episode, accepted=accepted_digest(question), verdict=verdict)
        self._keep(later)
        return later

    def _keep(self, episode: Episode, record: bytes | None = None, *, durable: bool = True) -> None:
        value = _ADAPTERS[Episode].dump_python(episode, mode="json", exclude_defaults=True)
        self.run.table(RECORDS).put(episode.id, value, blob=record, durable=durable)

    # -- who was right -------------------------------------------------------------------------------------------------

    def write_verdicts(self, judged: Iterable[JudgedAttempt], by: JudgedBy) -> None:
        """Replace the verdicts, all at once."""
        values = {one.id: one.model_dump(mode="json", exclude_defaults=True) for one in judged}
        self.run.table(_JUDGED).replace({_JUDGED_BY: by._asdict()} | values)

    def verdicts(self) -> list[JudgedAttempt]:
        """Who was right, attempt by attempt; none before the run was judged. Raises UserError."""
        return [self._as(JudgedAttempt, value) for id, value in self._values(_JUDGED).items() if id != _JUDGED_BY]

    def judged_by(self) -> JudgedBy | None:
        """Whose verdicts they are; None: there are none."""
        found = self._values(_JUDGED).get(_JUDGED_BY)
        return None if found is None else JudgedBy(**found)

    def by_hand(self) -> ByHand:
        """A person's verdicts that the run keeps."""
        return ByHand({tuple(json.loads(name)): correct for name, correct in self._values(_BY_HAND).items()})

    def keep_by_hand(self, by_hand: ByHand) -> None:
        """In place of earlier ones."""
        self.run.table(_BY_HAND).replace({json.dumps(name): correct for name, correct in by_hand.lines.items()})

    def published(self) -> ByHand | None:
        """What others said of attempts that they made; None: nothing."""
        found = self._values(_PUBLISHED)
        return ByHand({(id,): correct for id, correct in found.items()}) if found else None

    def keep_published(self, verdicts: Mapping[str, bool]) -> None:
        """By the ids of trajectories."""
        self.run.table(_PUBLISHED).replace(verdicts)


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (Episode, JudgedAttempt, RunState)}


class JsonlAttempts:
    """Attempts in a file of whole trajectories, for commands whose product is that file."""

    def __init__(self, store: TrajectoryStore) -> None:
        self._store = store
        self._offsets: dict[Key, int] = {}

    def episodes(self) -> Iterator[Episode]:
        return (self._known(trajectory, offset) for offset, trajectory in self._store.with_offsets())

    def append(self, trajectory: Trajectory) -> Episode:
        return self._known(trajectory, self._store.append(trajectory))

    def judged(self, episode: Episode, question: Question, verdict: dict[str, Any]) -> Episode:
        record = self._store.at(self._offsets[episode.key])
        return self.append(record.model_copy(update={"question": question, "meta": {**record.meta, META_KEY: verdict}}))

    def _known(self, trajectory: Trajectory, offset: int) -> Episode:
        episode = episode_of(trajectory)
        self._offsets[episode.key] = offset
        return episode


def check_same_setup(run: Run, now: dict[str, Any], attempts: Iterable[object], place: Path) -> None:
    """Write down what attempts are made with, or see that it is the same: those of two agents are no measure of either.

    ``now``: JSON of what attempts depend on, with the judge under ``judge``. Another judge is nothing else: what it has not
    judged is judged anew. Raises UserError when they were made with something else.
    """
    about = run.table(_ABOUT)
    was = about.get(_SETUP)
    if next(iter(attempts), None) is None:
        about.remove(_SETUP)
    elif was is not None and without_places(was.get(JUDGE)) != without_places(now[JUDGE]):
        go_on_with({**was, JUDGE: now[JUDGE]}, now, place, _OR_ELSE)
        about.put(_SETUP, now)
    run.claim(now, _SETUP, _OR_ELSE)


def sha256_of_questions(questions: Sequence[Question]) -> str:
    """What makes questions the same questions: ids, texts and masks, in order."""
    return hashlib.sha256(encode_record([[one.id, one.text, sorted(one.masked_urls)] for one in questions])).hexdigest()
