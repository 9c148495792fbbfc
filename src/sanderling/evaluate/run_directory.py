"""A run of an evaluation as a directory: what was asked for, its attempts, its result.

``run.json`` says what the run is and which round it is in; ``questions.jsonl`` are its questions, ``attempts.jsonl`` the
trajectories, which are the truth. ``run.db`` says these in short, with whom the run was begun, what judges have said and models
have cost; ``by_hand.csv`` what a person has said, ``published.csv`` what others had said of attempts of theirs, ``guard.jsonl``
what was hidden, ``scores.csv`` a user's scores. ``judged.jsonl`` (who was right) and ``result.json`` (figures) are made anew
whenever the run ends. A round is
one pass over what is missing; the same command, called on a finished one, begins another over attempts that met outages. A run
goes on with the agent, world, questions, guard and seed that it was begun with; attempts may become more, and another judge
judges anew.
"""

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sanderling.agent.journal import EPISODES
from sanderling.core.errors import UserError
from sanderling.core.record import Question, encode_record
from sanderling.data.questions import read_questions, write_questions
from sanderling.evaluate.attempt_stores import IndexedRecords
from sanderling.evaluate.begun import ATTEMPTS
from sanderling.evaluate.guarding import NO_GUARD, GuardFacts
from sanderling.evaluate.peers import PeerFacts
from sanderling.evaluate.result import Record
from sanderling.policy.budget import Prices
from sanderling.runs.files import close_directory, replace_file
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.locks import locked
from sanderling.runs.run import DATABASE, Run, Table, reading

ROWS = "rows"
"""The table of attempts in short."""


class Kind(StrEnum):
    """Who made the attempts of a run."""

    OWN = "own"
    PEERS = "peers"
    """Others, whose records were brought."""


class About(Record):
    """What a run measures; fixed for good, but for a file whose accepted answers were mended, and for what of it is shown."""

    kind: Kind = Kind.OWN
    benchmark: str
    split: str = ""
    file: str = ""
    """Name of the file that the questions came from, without its place."""
    file_sha256: str = ""
    chosen: str = "all"
    """Which of its questions: ``all``, ``first 20``, ``20 by seed 0``."""
    questions: int
    questions_sha256: str
    """Of ids, texts and masks, in order; accepted answers may be mended."""
    seed: int
    private: bool = False
    """Its texts are not to be published."""
    canaries: tuple[str, ...] = ()
    guard: GuardFacts = NO_GUARD
    peers: PeerFacts | None = None
    """Of others' records."""


class RunFile(Record):
    """``run.json``."""

    schema_version: int = 1
    about: About
    attempts: int
    round: int = 1
    finished: bool = False
    """Whether the round is over."""
    commands: tuple[str, ...] = ()
    """All that worked on it, each once, in the order of their last time."""
    unscored_limit: float = 0.02
    """A larger share of unscored attempts makes the run invalid."""
    prices: Prices | None = None
    """What the agent's tokens cost, as the last command that named a price has it."""


class RunDirectory:
    """The files of a run.

    Example: ``RunDirectory(Path("runs/gaia")).result_file``
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._run: Run | None = None
        self.run_file = root / "run.json"
        self.questions_file = root / "questions.jsonl"
        self.store = TrajectoryStore(root / "attempts.jsonl")
        self.attempts = IndexedRecords(self.store, lambda: self.table(ROWS), self._look)
        self.result_file = root / "result.json"
        self.judged_file = root / "judged.jsonl"
        self.by_hand_file = root / "by_hand.csv"
        self.guard_file = root / "guard.jsonl"
        self.scores_file = root / "scores.csv"
        self.published_file = root / "published.csv"

    def begin(
        self, about: About, questions: Sequence[Question], attempts: int, command: str, prices: Prices | None = None
    ) -> RunFile:
        """Write down what a new run is; one that has attempts stays as it is until :meth:`go_on`.

        Raises UserError where the directory holds another run, or something else.
        """
        was = self.read()
        if was is None:
            self._require_empty()
        if was is None or self._is_bare():
            told = prices if prices is not None or was is None else was.prices
            now = RunFile(about=about, attempts=attempts, commands=(command,), prices=told)
            self.go_on(now, questions)
        else:
            self._require_same(was.about, about)
            if attempts < was.attempts:
                raise UserError(f"{self.root} was begun with {was.attempts} attempts: give as many, or more.")
            commands = (*(one for one in was.commands if one != command), command)
            changes = {
                "about": about,
                "attempts": attempts,
                "commands": commands,
                "finished": False,
                "round": was.round + was.finished,
            }
            now = was.model_copy(update=changes | ({"prices": prices} if prices is not None else {}))
        return now

    def go_on(self, run: RunFile, questions: Sequence[Question]) -> None:
        """Write down what the run is from now on: everything else that was asked for has been found to be there.

        A private run's directory is for its owner alone. Raises UserError where it cannot be.
        """
        if run.about.private:
            self._close()
        self._write(run)  # first: what it stands beside belongs to it
        write_questions(self.questions_file, questions, private=run.about.private)

    def price(self, prices: Prices) -> None:
        """From now on its tokens cost this. Raises UserError where there is no run."""
        self._write(self.require().model_copy(update={"prices": prices}))

    def finish(self, run: RunFile) -> None:
        """The round is over; its result has to be written before."""
        self._write(run.model_copy(update={"finished": True}))

    def read(self) -> RunFile | None:
        """``run.json``; None where there is none. Raises UserError for a damaged one."""
        try:
            return RunFile.model_validate_json(self.run_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            raise UserError(f"{self.run_file} is no record of a run: restore it, or choose another directory.") from error

    def require(self) -> RunFile:
        """``run.json``. Raises UserError where there is none."""
        found = self.read()
        if found is None:
            raise UserError(f"{self.root} is no run of an evaluation: give a directory that sanderling eval run has written.")
        return found

    def questions(self) -> list[Question]:
        """What the run asks. Raises UserError."""
        return read_questions(self.questions_file)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out, however this one ends. Raises UserError while one is at work."""
        with locked(self.root), Run(self.root, locked=True) as self._run:
            try:
                yield
            finally:
                self._run = None

    def table(self, kind: str) -> Table:
        """Entries of the run's database."""
        return self.run.table(kind)

    @property
    def run(self) -> Run:
        """The run's database, open."""
        if self._run is None:
            self._run = Run(self.root, locked=True)
        return self._run

    def made_with(self) -> dict[str, Any]:
        """What its attempts depend on, as it was begun with; empty where it does not say, or its database is damaged."""
        if not (self.root / DATABASE).exists():
            return {}
        try:
            with reading(self.root) as tables:
                return tables("about")[0].get(ATTEMPTS, {})
        except UserError as error:
            warnings.warn(f"{error} Until then it does not say what it was begun with.", stacklevel=2)
            return {}

    @contextmanager
    def _look(self) -> Iterator[Table | None]:
        """The rows, for a look, while another process may write them."""
        if self._run is not None or not (self.root / DATABASE).exists():
            yield self._run and self.table(ROWS)
            return
        with reading(self.root) as tables:
            yield tables(ROWS)[0]

    def _close(self) -> None:
        try:
            close_directory(self.root)
        except OSError as error:
            told = f"{self.root} cannot be closed to others ({error.strerror})"
            raise UserError(f"{told}, and the run is private: choose a directory of your own.") from error

    def _require_empty(self) -> None:
        held = [path.name for path in self.root.iterdir() if path.name not in _OURS] if self.root.is_dir() else []
        if held:
            raise UserError(f"{self.root} holds something else than a run ({min(held)}): choose another directory.")

    def _is_bare(self) -> bool:
        """Whether nothing was attempted yet: what was asked for by mistake then binds nobody."""
        files = (self.store.path, self.guard_file)
        kept = any(len(self.table(kind)) for kind in (EPISODES, "verdicts"))
        return not kept and not any(one.exists() and one.stat().st_size for one in files)

    def _require_same(self, was: About, now: About) -> None:
        # A file with the same questions is the same run: its accepted answers may have been mended. So may what is shown of it.
        for name in (name for name in About.model_fields if name not in ("file", "file_sha256", "private")):
            before, after = _identity(was, name), _identity(now, name)
            if before != after:
                told = _OTHERS.get(name, f"{name} was {before!r} and is {after!r}")
                raise UserError(f"{self.root} was begun with something else ({told}): choose another directory.")

    def _write(self, run: RunFile) -> None:
        replace_file(self.run_file, run.model_dump_json(indent=1) + "\n", durable=True)


_OURS = {".lock", ".run.json.partial", *(DATABASE + end for end in ("", "-wal", "-shm", "-journal"))}
"""What a run's directory may hold before the run is written down: a kill may have come just then."""
_OTHERS = {"questions_sha256": "the questions are others", "peers": "the records are others"}


def _identity(about: About, name: str) -> object:
    """What of a field makes it the same; of others' records that is their files."""
    value = getattr(about, name)
    return value.sources_sha256 if isinstance(value, PeerFacts) else value


def sha256_of_questions(questions: Sequence[Question]) -> str:
    """What makes questions the same questions: ids, texts and masks, in order."""
    return hashlib.sha256(encode_record([[one.id, one.text, sorted(one.masked_urls)] for one in questions])).hexdigest()
