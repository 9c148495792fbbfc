"""A benchmark as data: where it comes from, how it is judged, and how a row of its file becomes a question.

Contract: `Benchmark.load(path)` gives every row as a question or as a counted :class:`Unread`. The first row says whether the
file is the right one: when a column that every question needs is not there, a :class:`UserError` names it and those that are.
Knows no network, no judge (`form` and `rules` are their names) and no agent.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.record import Question, question_id
from sanderling.data.fields import Fields, MissingColumnError
from sanderling.data.tables import Unread as Broken
from sanderling.data.tables import question_rows
from sanderling.evaluate.benchmarks.contract import Loaded, Options, Row, Split
from sanderling.evaluate.benchmarks.decrypt import Cipher, looks_encrypted
from sanderling.evaluate.benchmarks.sources import find_files, sha256_of
from sanderling.evaluate.benchmarks.unread import RowError, Unread, UnreadWhy

NOT_KNOWN = "not known"
_EXAMPLES = 3


@dataclass(frozen=True)
class Benchmark:
    """One benchmark; its row in `registry.BENCHMARKS`."""

    key: str
    title: str
    about: str
    obtain: str
    """Where a person gets the file."""
    licence: str
    """What stands before the first semicolon is the short form, for tables."""
    source: str
    """Where these facts were read."""
    row: Callable[[Fields, Options], Row]
    """A record of the file as a row. Raises RowError for one that is no question, MissingColumnError for another layout."""
    splits: tuple[Split, ...] = ()
    """The first is taken unless another is named; empty: any name will do."""
    form: str = ""
    """The judge's form; empty: the publisher scores by rule."""
    rules: tuple[str, ...] = ()
    """Rules that a person may choose; where there is no form, the first is the publisher's own."""
    published_judge: str = NOT_KNOWN
    answer_format: str = ""
    """What the publisher asks the model to write; told to people, never put into a prompt."""
    secret: Cipher = Cipher.NONE
    gated: bool = False
    """Behind terms that forbid to share it."""
    verbatim: bool = True
    """A page that holds the words of a question is a leak (and not the source from which the question was made)."""
    not_known: tuple[str, ...] = ()
    skip: frozenset[str] = frozenset()
    """Columns of Parquet that are never read: documents, images."""

    @property
    def private(self) -> bool:
        """Whether its texts are not to be shown or written unasked."""
        return self.secret is not Cipher.NONE or self.gated

    @property
    def own_rule(self) -> str:
        """The rule by which the publisher scores; empty: a model judges."""
        return "" if self.form or not self.rules else self.rules[0]

    def split_of(self, path: Path, asked: str = "") -> Split:
        """The split that is asked for, that the file's or its folder's name says, or the first. Raises UserError."""
        if not self.splits:
            return Split(asked, None)
        by_name = {split.name: split for split in self.splits}
        if asked and asked not in by_name:
            near = get_close_matches(asked, by_name, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(by_name)}."
            raise UserError(f"{self.key} has no split {asked!r}: {hint}")
        return by_name[asked or _named_split(path, by_name) or self.splits[0].name]

    def load(self, path: Path, options: Options | None = None) -> Loaded:
        """Read a file, or a folder as it was downloaded. Raises UserError when it is another's or holds no question."""
        options = options or Options()
        split = self.split_of(path, options.split)
        files = find_files(path, split.files)
        gathered = _Gathered(self, split)
        for line, found in enumerate(self._found(files), start=1):
            gathered.take(path, line, found, options)
        gathered.refuse_empty(path, options)
        return gathered.loaded(path, sha256_of(files))

    def _found(self, files: list[Path]) -> Iterator[dict[str, Any] | Broken]:
        for file in files:
            yield from question_rows(file, self.skip)


def _named_split(path: Path, names: Collection[str]) -> str:
    """The one split that a file's name, or else its folder's, says; of a folder only its whole name counts. Empty: none."""
    words = [path.name] if path.is_dir() else re.split(r"[_.]|-(?=\d{5}-of)", path.name)
    in_name = [name for name in names if name in words]
    return in_name[0] if len(in_name) == 1 else next((name for name in names if name == path.resolve().parent.name), "")


class _Gathered:
    """What was read so far."""

    def __init__(self, benchmark: Benchmark, split: Split) -> None:
        self._benchmark = benchmark
        self._split = split
        self._questions: list[Question] = []
        self._texts: Counter[str] = Counter()
        self._ids: set[str] = set()
        self._unread: Counter[UnreadWhy] = Counter()
        self._examples: list[Unread] = []
        self._canaries: dict[str, None] = {}
        self._fits = False
        """Whether a row had all that is needed, so that the file is the right one."""

    def take(self, path: Path, line: int, found: dict[str, Any] | Broken, options: Options) -> None:
        """One row of the file. Raises UserError when the first one shows that it is another benchmark's."""
        if isinstance(found, Broken):
            self._leave_out(line, UnreadWhy.BAD_ROW, found.text)
            return
        try:
            row = self._benchmark.row(Fields(line, found, options.columns), options)
            self._keep(row, line)
        except MissingColumnError as error:
            if not self._fits:
                raise UserError(self._other_layout(path, error, found)) from error
            self._leave_out(line, UnreadWhy.BAD_ROW, f"no {error.role}")
        except ValueError as error:
            self._leave_out(line, error.why if isinstance(error, RowError) else UnreadWhy.BAD_ROW, str(error))
        self._fits = True

    def _keep(self, row: Row, line: int) -> None:
        text = row.text.strip()
        if not text:
            raise RowError(UnreadWhy.NO_QUESTION)
        if looks_encrypted(text):
            raise RowError(UnreadWhy.UNDECODABLE, "it looks encrypted")
        digest = question_id(text)
        before = self._texts[digest]
        native = row.native_id or (f"{digest}~{before + 1}" if before else digest)
        if native in self._ids:
            raise RowError(UnreadWhy.REPEATED_ID, f"the id {native[:60]!r} came before")
        self._ids.add(native)
        self._texts[digest] += 1
        if row.canary:
            self._canaries[row.canary] = None
        self._questions.append(self._question(row, text, native, line))

    def _question(self, row: Row, text: str, native: str, line: int) -> Question:
        meta: dict[str, Any] = {
            "benchmark": self._benchmark.key,
            "split": self._split.name,
            "level": row.level,
            "topics": list(row.topics),
            "line": line,
        }
        if self._benchmark.private:
            meta |= {"private": True, "canary": row.canary} if row.canary else {"private": True}
        return Question(
            id=f"{self._benchmark.key}/{native}",
            text=text,
            answers=row.answers,
            masked_urls=row.masked_urls,
            hops=row.hops,
            meta={**row.extra, **meta},
        )

    def _leave_out(self, line: int, why: UnreadWhy, about: str) -> None:
        self._unread[why] += 1
        if self._unread[why] <= _EXAMPLES:
            self._examples.append(Unread(line, why, about))

    def _other_layout(self, path: Path, error: MissingColumnError, found: dict[str, Any]) -> str:
        columns = ", ".join(repr(name) for name in found) or "none"
        names = " or ".join(repr(name) for name in error.names)
        return (
            f"{path} has no column {names} for the {error.role} (found: {columns[:400]}): is it the file of "
            f"{self._benchmark.title}? If so, say --columns {error.role}=NAME."
        )

    def refuse_empty(self, path: Path, options: Options) -> None:
        """Raise UserError when there is no question."""
        if self._questions:
            return
        if not self._unread:
            raise UserError(f"{path} holds no row: give the file of {self._benchmark.title}.")
        counts = ", ".join(f"{count} {why.told}" for why, count in self._unread.most_common())
        hint = "check that it is the right file."
        if self._unread.most_common(1)[0][0] is UnreadWhy.UNDECODABLE:
            hint = self._hint_to_decrypt(options)
        raise UserError(f"No row of {path} is a question ({counts}): {hint}")

    def _hint_to_decrypt(self, options: Options) -> str:
        if options.canary:
            return "the canary that was given does not open it."
        if self._benchmark.secret is Cipher.FIXED:
            return "give the canary with --canary."
        if self._benchmark.secret is Cipher.NONE:
            return "it is encrypted, so read it as the benchmark that it is (sanderling eval list)."
        return "check its canary column; of a file that is decrypted already, remove that column."

    def loaded(self, path: Path, sha256: str) -> Loaded:
        """All of it."""
        return Loaded(
            benchmark=self._benchmark.key,
            split=self._split.name,
            path_name=path.resolve().name,
            sha256=sha256,
            questions=tuple(self._questions),
            unread=dict(self._unread),
            examples=tuple(self._examples),
            expected=self._split.questions,
            private=self._benchmark.private or any(question.meta.get("private") is True for question in self._questions),
            canaries=tuple(self._canaries),
            repeated_texts=sum(count - 1 for count in self._texts.values()),
        )
