"""The log of an evaluation: one directory a run, judged again in place.

``run.db`` (see `runs.run`) holds what the run is, its attempts (each in short, with its whole record as a blob), verdicts, and
what models have cost; beside it stand ``questions.jsonl``, ``guard.jsonl`` (what was hidden) and ``result.json``. The same
command, called on a finished run, tries attempts again that met outages. A run goes on with the agent, world, questions, guard
and seed that it was begun with; attempts may become more.

Example: ``[log.record(one) for one in RunLog(Path("runs/gaia")).episodes()]``
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory, encode_record
from sanderling.data.questions import read_questions, write_questions
from sanderling.evaluate.result import Episode, EvalResult, GuardFigures, JudgedAttempt, Key, Record, answers_digest, episode_of
from sanderling.judge.book import JUDGED, ByHand, as_last_judged
from sanderling.judge.verdict import META_KEY
from sanderling.policy.budget import Prices
from sanderling.runs.files import close_directory, locked
from sanderling.runs.jsonl import JsonlLog, TrajectoryStore
from sanderling.runs.run import DATABASE, RECORDS, NoRunError, Run, Table, go_on_with, reading, without_places
from sanderling.world.guard import GuardKind, GuardLine

JUDGE = "judge"
# Tables of run.db: what the run is, verdicts by attempt, and what a person brought; then keys that are no attempt's id.
_ABOUT, _BY_HAND = "about", "by_hand"
_STATE, _SETUP, _JUDGED_BY = "evaluation", "attempts", ""
_OR_ELSE = "go on with those, or choose another store"
T = TypeVar("T")


class GuardFacts(Frozen):
    """What a run's guard hides; runs that differ in it measure different things."""

    on: bool = False
    verbatim: bool = False  # whether pages that hold a question word for word are hidden
    fingerprint: str = ""  # of its rules, the blocklist's included


NO_GUARD = GuardFacts()


class PeerFacts(Frozen):
    """What a run of others' records rests on; fixed with the files."""

    sources_sha256: str
    layouts: tuple[str, ...]
    records: int  # attempts with a record
    lost: int = 0  # attempts that have none that could be read: begun and not ended, or cut off
    unread: int = 0  # entries and files that could not be read
    benchmark_questions: int | None = None
    """That the benchmark's file holds; None: none was given, and the records' own accepted answers are used."""
    without_record: int = 0
    joined: dict[str, int] = Field(default_factory=dict[str, int])  # how records found their question
    unmatched: dict[str, int] = Field(default_factory=dict[str, int])  # records that found none, and why: unscored


class About(Record):
    """What a run measures; fixed, but for a file whose accepted answers were mended, and for what of it is shown."""

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
    finished: bool = False  # whether every attempt was made and judged
    command: str = ""  # the last one that made attempts
    unscored_limit: float = 0.02  # a larger share of unscored attempts makes the run invalid
    prices: Prices | None = None  # what the agent's tokens cost, as the last command that named a price has it


class JudgedBy(NamedTuple):
    """Whose verdicts a run has, by name."""

    first: str
    second: str = ""


NOBODY = JudgedBy("")


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
            what = f"{self.database} was written by another version of sanderling, or is damaged"
            raise UserError(f"{what}: use that one, or choose another directory.") from error

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
            now = RunState(about=about, attempts=attempts, command=command, prices=prices)
            self.write_state(now, questions)
            return now
        before, after = (_compared(one) for one in (was.about, about))
        if name := next((name for name in before if before[name] != after[name]), ""):
            others = {"questions_sha256": "the questions are others", "peers": "the records are others"}
            differs = others.get(name, f"{name} was {before[name]!r} and is {after[name]!r}")
            raise UserError(f"{self.root} was begun with something else ({differs}): choose another directory.")
        if attempts < was.attempts:
            raise UserError(f"{self.root} was begun with {was.attempts} attempts: give as many, or more.")
        changes = {"about": about, "attempts": attempts, "finished": False, "command": command, "prices": prices or was.prices}
        return was.model_copy(update=changes)

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
        self.put(state)  # first: what it stands beside belongs to it
        write_questions(self.questions_file, questions, private=state.about.private)

    def finish(self, state: RunState) -> None:
        """Every attempt was made and judged; the result has to be written before."""
        self.put(state.model_copy(update={"finished": True}))

    def put(self, state: RunState) -> None:
        """Write down what the run is."""
        self.run.table(_ABOUT).put(_STATE, state.model_dump(mode="json"))

    def read(self) -> RunState | None:
        """What the run is; None where there is none. Raises UserError for a damaged one."""
        value = self._values(_ABOUT).get(_STATE)
        return None if value is None else self._as(RunState, value)

    def guard_counts(self) -> GuardFigures:
        """What the guard hid; the same thing hidden twice from one attempt counts once."""
        lines = map(GuardLine.model_validate, JsonlLog(self.guard_file))
        once = {(one.question, one.attempt, one.tool, one.url, one.kind) for one in lines}
        kinds = Counter(kind for *_, kind in once)
        hidden = {key[:2] for key in once if key[-1] is not GuardKind.REPORTED}
        return GuardFigures(kinds={kind: kinds[kind] for kind in GuardKind}, attempts=len(hidden))

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

    # -- attempts -----------------------------------------------------------------------------------

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
        """These attempts whole, or all, one by one, with what was said of them last."""
        with self._read(RECORDS) as table, self._read(JUDGED) as said:
            ids = [one.id for one in episodes] if episodes is not None else table.keys() if table is not None else []
            for id in ids:
                assert table is not None and said is not None, "its attempts were read from it"
                yield as_last_judged(table.record(id), said.get(id))

    def append(self, trajectory: Trajectory, *, durable: bool = True) -> Episode:
        episode = episode_of(trajectory)
        self._keep(episode, encode_record(trajectory), durable=durable)
        return episode

    def judged(self, episode: Episode, question: Question, verdict: dict[str, Any]) -> Episode:
        later = replace(episode, accepted=answers_digest(question), verdict=verdict)
        self._keep(later)
        return later

    def _keep(self, episode: Episode, record: bytes | None = None, *, durable: bool = True) -> None:
        value = _ADAPTERS[Episode].dump_python(episode, mode="json", exclude_defaults=True)
        self.run.table(RECORDS).put(episode.id, value, blob=record, durable=durable)

    # -- who was right -------------------------------------------------------------------------------------------------

    def write_verdicts(self, judged: Iterable[JudgedAttempt], by: JudgedBy) -> None:
        """Replace the verdicts, all at once."""
        values = {one.id: one.model_dump(mode="json", exclude_defaults=True) for one in judged}
        self.run.table(JUDGED).replace({_JUDGED_BY: by._asdict()} | values)

    def verdicts(self) -> list[JudgedAttempt]:
        """Who was right, attempt by attempt; none before the run was judged. Raises UserError."""
        return [self._as(JudgedAttempt, value) for id, value in self._values(JUDGED).items() if id != _JUDGED_BY]

    def judged_by(self) -> JudgedBy | None:
        """Whose verdicts they are; None: there are none."""
        found = self._values(JUDGED).get(_JUDGED_BY)
        return None if found is None else JudgedBy(**found)

    def by_hand(self) -> ByHand:
        """A person's verdicts that the run keeps."""
        return ByHand({tuple(json.loads(name)): correct for name, correct in self._values(_BY_HAND).items()})

    def keep_by_hand(self, by_hand: ByHand) -> None:
        """In place of earlier ones."""
        self.run.table(_BY_HAND).replace({json.dumps(name): correct for name, correct in by_hand.lines.items()})


def _compared(about: About) -> dict[str, Any]:
    """What makes a run the same run: accepted answers may have been mended, and what may be shown is no part of it."""
    found = {name: value for name, value in about if name not in ("file", "file_sha256", "private")}
    return found | {"peers": about.peers and about.peers.sources_sha256}


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


AttemptStore = RunLog | JsonlAttempts
"""Where attempts are kept, and later verdicts on them; of several records of one attempt the last counts."""


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
