"""A benchmark's file read whole: which file of a folder is meant, every row as a question or counted as left out, and a check.

The first row shows whether the file is the right one: when a column that every question needs is not there, a `UserError` names
it and those that are. Of private questions a check tells the first letter and the length, of their answers the length, unless
texts are asked for.

Example: ``load_benchmark(get_benchmark("gaia"), Path("metadata.jsonl")).questions``
"""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.record import Question, question_id
from sanderling.data.fields import Fields, MissingColumnError
from sanderling.data.tables import Unread as Broken
from sanderling.data.tables import question_rows
from sanderling.evaluate.benchmarks.rows import Options, Row, RowError, UnreadWhy, looks_encrypted, read_row
from sanderling.evaluate.benchmarks.table import Benchmark, Split

_EXAMPLES = 3


@dataclass(frozen=True)
class Unread:
    """A row that was left out."""

    line: int
    """Its number among the file's rows, from 1; a heading is no row."""
    why: UnreadWhy
    about: str = ""


@dataclass(frozen=True)
class Loaded:
    """A benchmark's file, read whole."""

    benchmark: str
    """Its key, or where one from outside stands: what `table.get_benchmark` finds it by."""
    split: str
    path_name: str
    """The file's or folder's name, without its place."""
    sha256: str
    """Of the bytes of the file, or of all its parts one after the other."""
    questions: tuple[Question, ...]
    unread: Mapping[UnreadWhy, int]
    examples: tuple[Unread, ...]
    """The first few of each kind."""
    expected: int | None
    """Rows that the publisher names for the split; None: not known."""
    private: bool = False
    """Published encrypted, or under terms that forbid to share it: its texts are not to be shown or written unasked."""
    canaries: tuple[str, ...] = ()
    """The different ones of the rows."""
    repeated_texts: int = 0
    """Questions whose words another one before them has; each stays a question of its own."""

    @property
    def rows(self) -> int:
        """Rows of this benchmark that the file has, read or not."""
        return len(self.questions) + sum(count for why, count in self.unread.items() if why is not UnreadWhy.OTHER_SET)

    @property
    def without_answer(self) -> int:
        """Questions that cannot be scored, since the file has no accepted answer for them."""
        return sum(not question.answers for question in self.questions)

    @property
    def broken(self) -> int:
        """Rows that ought to have been questions and could not be read; a sound file has none."""
        broken = (UnreadWhy.BAD_ROW, UnreadWhy.NO_QUESTION, UnreadWhy.UNDECODABLE, UnreadWhy.REPEATED_ID)
        return sum(self.unread.get(why, 0) for why in broken)


def load_benchmark(benchmark: Benchmark, path: Path, options: Options | None = None) -> Loaded:
    """Read a file, or a folder as it was downloaded. Raises UserError when it is another's or holds no question."""
    options = options or Options()
    split = split_of(benchmark, path, options.split)
    files = find_files(path, split.files)
    reading = _Reading(benchmark, split, path, options)
    rows = (row for file in files for row in question_rows(file, benchmark.skip))
    for line, found in enumerate(rows, start=1):
        reading.take(line, found)
    if not reading.questions:
        raise UserError(reading.why_empty())
    return reading.loaded(sha256_of(files))


class _Reading:
    """What was read of a file so far."""

    def __init__(self, benchmark: Benchmark, split: Split, path: Path, options: Options) -> None:
        self._benchmark, self._split, self._path, self._options = benchmark, split, path, options
        self.questions: list[Question] = []
        self._texts: Counter[str] = Counter()
        self._ids: set[str] = set()
        self._unread: Counter[UnreadWhy] = Counter()
        self._examples: list[Unread] = []
        self._canaries: dict[str, None] = {}
        self._fits = False
        """Whether a row had all that is needed, so that the file is the right one."""

    def take(self, line: int, found: dict[str, Any] | Broken) -> None:
        """One row of the file. Raises UserError when the first one shows that it is another benchmark's."""
        if isinstance(found, Broken):
            self._leave_out(line, UnreadWhy.BAD_ROW, found.text)
            return
        try:
            row = read_row(self._benchmark, Fields(line, found, self._options.columns), self._options)
            self._keep(row, line)
        except MissingColumnError as error:
            if not self._fits:
                raise UserError(self._other_layout(error, found)) from error
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
        meta: dict[str, Any] = {
            **row.extra,
            "benchmark": self._benchmark.key,
            "split": self._split.name,
            "level": row.level,
            "topics": list(row.topics),
            "line": line,
        }
        if row.canary:
            self._canaries[row.canary] = None
        if self._benchmark.private:
            meta |= {"private": True, "canary": row.canary} if row.canary else {"private": True}
        self.questions.append(
            Question(
                id=f"{self._benchmark.key}/{native}",
                text=text,
                answers=row.answers,
                masked_urls=row.masked_urls,
                hops=row.hops,
                meta=meta,
            )
        )

    def _leave_out(self, line: int, why: UnreadWhy, about: str) -> None:
        self._unread[why] += 1
        if self._unread[why] <= _EXAMPLES:
            self._examples.append(Unread(line, why, about))

    def _other_layout(self, error: MissingColumnError, found: dict[str, Any]) -> str:
        columns = ", ".join(repr(name) for name in found) or "none"
        names = " or ".join(repr(name) for name in error.names)
        return (
            f"{self._path} has no column {names} for the {error.role} (found: {columns[:400]}): is it the file of "
            f"{self._benchmark.title}? If so, say --columns {error.role}=NAME."
        )

    def why_empty(self) -> str:
        """Why the file holds no question, and what to do."""
        if not self._unread:
            return f"{self._path} holds no row: give the file of {self._benchmark.title}."
        counts = ", ".join(f"{count} {why.words}" for why, count in self._unread.most_common())
        if self._unread.most_common(1)[0][0] is not UnreadWhy.UNDECODABLE:
            hint = "check that it is the right file."
        elif self._options.canary:
            hint = "the canary that was given does not open it."
        elif self._benchmark.cipher == "fixed":
            hint = "give the canary with --canary."
        elif not self._benchmark.cipher:
            hint = "it is encrypted, so read it as the benchmark that it is (sanderling eval list)."
        else:
            hint = "check its canary column; of a file that is decrypted already, remove that column."
        return f"No row of {self._path} is a question ({counts}): {hint}"

    def loaded(self, sha256: str) -> Loaded:
        """All of it."""
        return Loaded(
            benchmark=self._benchmark.outside or self._benchmark.key,
            split=self._split.name,
            path_name=self._path.resolve().name,
            sha256=sha256,
            questions=tuple(self.questions),
            unread=dict(self._unread),
            examples=tuple(self._examples),
            expected=self._split.questions,
            private=self._benchmark.private or any(one.meta.get("private") is True for one in self.questions),
            canaries=tuple(self._canaries),
            repeated_texts=sum(count - 1 for count in self._texts.values()),
        )


# Which split and which files ------------------------------------------------------------------------------------------------

_DATA = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx")
_PACKED = (".gz", ".bz2", ".zst")
_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\D.*)")
_SHOWN_FILES = 6


def split_of(benchmark: Benchmark, path: Path, asked: str = "") -> Split:
    """The split that is asked for, that the file's or its folder's name says, or the first. Raises UserError."""
    if not benchmark.splits:
        return Split(name=asked)
    by_name = {split.name: split for split in benchmark.splits}
    if asked and asked not in by_name:
        near = get_close_matches(asked, by_name, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(by_name)}."
        raise UserError(f"{benchmark.key} has no split {asked!r}: {hint}")
    return by_name[asked or _named_split(path, by_name) or benchmark.splits[0].name]


def _named_split(path: Path, names: Collection[str]) -> str:
    """The one split that a file's name, or else its folder's, says; of a folder only its whole name counts. Empty: none."""
    words = [path.name] if path.is_dir() else re.split(r"[_.]|-(?=\d{5}-of)", path.name)
    in_name = [name for name in names if name in words]
    return in_name[0] if len(in_name) == 1 else next((name for name in names if name == path.resolve().parent.name), "")


def find_files(path: Path, patterns: Sequence[str] = ()) -> list[Path]:
    """The file itself; of a folder the one file that is meant, or the shards of one in order.

    ``patterns``: of paths below the folder, the likeliest first. Raises UserError when there is none, when there are several
    to choose from, or when a shard is missing.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        if path.exists():
            raise UserError(f"{path} is neither a file nor a folder: copy it to a file first.")
        raise UserError(f"There is no file or folder {path}: check the path.")
    below = {name: file for file in sorted(path.rglob("*")) if _is_data(name := file.relative_to(path).as_posix(), file)}
    if not below:
        raise UserError(f"{path} holds no CSV, TSV, JSON, Parquet or xlsx file: give the benchmark's file.")
    matching = ({name: file for name, file in below.items() if fnmatch(name, pattern)} for pattern in patterns)
    files = next(filter(None, matching), below)
    if len(files) == 1:
        return list(files.values())
    shards = {match[0]: match for name in files if (match := _SHARD.fullmatch(name))}
    kinds = {(match[1], match[3], match[4]) for match in shards.values()}
    if len(kinds) != 1 or len(shards) != len(files):
        shown = ", ".join(list(files)[:_SHOWN_FILES])
        shown += f" and {len(files) - _SHOWN_FILES} more" if len(files) > _SHOWN_FILES else ""
        which = f"no {' or '.join(patterns)}, but other files" if patterns and files is below else "several files"
        raise UserError(f"{path} holds {which} ({shown}): give the one that is meant.")
    stem, count, suffix = next(iter(kinds))
    wanted = [f"{stem}-{number:05}-of-{count}{suffix}" for number in range(int(count))]
    missing = [name for name in wanted if name not in files]
    if missing:
        raise UserError(f"{path} lacks {missing[0]} ({len(missing)} of {int(count)} parts are missing): download it too.")
    return [files[name] for name in wanted]


def _is_data(name: str, file: Path) -> bool:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    last = suffixes[-2:-1] if suffixes and suffixes[-1] in _PACKED else suffixes[-1:]
    hidden = any(part.startswith(".") for part in name.split("/"))
    return not hidden and bool(last) and last[0] in _DATA and file.is_file()


def sha256_of(files: Sequence[Path]) -> str:
    """Of the bytes of the files, one after the other. Raises UserError when one cannot be read."""
    digest = hashlib.sha256()
    for path in files:
        try:
            with path.open("rb") as file:
                while piece := file.read(1 << 20):
                    digest.update(piece)
        except OSError as error:
            raise UserError(f"Cannot read {path} ({error.strerror}): check the path.") from error
    return digest.hexdigest()


# A check before a run is paid for -------------------------------------------------------------------------------------------

_SAMPLES = 3
_MOST_TOPICS = 12
_SHOWN = 300


def check_figures(loaded: Loaded, *, texts: bool) -> dict[str, Any]:
    """What was read, as JSON values. ``texts``: whether the samples hold their texts."""
    return {
        "benchmark": loaded.benchmark,
        "split": loaded.split,
        "file": loaded.path_name,
        "sha256": loaded.sha256,
        "rows": loaded.rows,
        "published": loaded.expected,
        "questions": len(loaded.questions),
        "without_answer": loaded.without_answer,
        "repeated_texts": loaded.repeated_texts,
        "unread": {why.value: count for why, count in loaded.unread.items()},
        "examples": [{"row": one.line, "why": one.why.value, "about": one.about if texts else ""} for one in loaded.examples],
        "levels": dict(sorted(_levels(loaded).items())),
        "topics": dict(_topics(loaded).most_common()),
        "private": loaded.private,
        "samples": [_sample(one, texts=texts) for one in loaded.questions[:_SAMPLES]],
    }


def check_lines(benchmark: Benchmark, loaded: Loaded) -> list[str]:
    """What was read, in sentences."""
    split = f", split {loaded.split}" if loaded.split else ""
    lines = [
        f"{benchmark.title}{split}: {len(loaded.questions):,} questions in {loaded.path_name} (SHA-256 {loaded.sha256[:16]}…).",
        *left_out(loaded),
    ]
    if levels := _levels(loaded):
        lines.append("Levels: " + _counted(sorted(levels.items())))
    if topics := _topics(loaded):
        more = f" and {len(topics) - _MOST_TOPICS} more" if len(topics) > _MOST_TOPICS else ""
        lines.append("Topics: " + _counted(topics.most_common(_MOST_TOPICS)) + more)
    return lines


def left_out(loaded: Loaded) -> list[str]:
    """Which rows are no questions, and why."""
    lines = []
    for why, count in loaded.unread.items():
        rows = [one for one in loaded.examples if one.why is why]
        abouts = dict.fromkeys(one.about for one in rows if one.about and one.about != why.words)
        about = f": {'; '.join(abouts)}" if abouts and not loaded.private else ""
        places = ", ".join(str(one.line) for one in rows) + (", …" if count > len(rows) else "")
        lines.append(f"Left out: {count:,} {why.words} ({'row' if count == 1 else 'rows'} {places}{about}).")
    return lines


def warnings(benchmark: Benchmark, loaded: Loaded) -> list[str]:
    """What a person should look at before a run."""
    found = []
    if loaded.expected is not None and loaded.rows != loaded.expected:
        others = [one.name for one in benchmark.splits if one.questions == loaded.rows]
        hint = f"; so many has the split {others[0]}: say --split {others[0]}" if others else ""
        found.append(f"The file has {loaded.rows:,} rows of the {loaded.expected:,} that are published{hint}.")
    if loaded.broken:
        found.append(f"Of {loaded.rows:,} rows {loaded.broken:,} ought to be questions and could not be read.")
    if loaded.without_answer:
        found.append(
            f"Without an accepted answer in the file: {loaded.without_answer:,} questions, which can run and are never scored."
        )
    if loaded.repeated_texts:
        found.append(f"With the words of a question before them: {loaded.repeated_texts:,} questions; each counts.")
    return found


def sample_lines(loaded: Loaded, *, texts: bool) -> list[str]:
    """The first questions, one under the other."""

    def cut(text: str) -> str:
        line = " ".join(text.split())
        return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"

    found = [_sample(one, texts=texts) for one in loaded.questions[:_SAMPLES]]
    return [
        f"{one['id']}: {cut(one['question'])} → {cut(' | '.join(one['answers'])) or '(no accepted answer)'}" for one in found
    ]


def _sample(question: Question, *, texts: bool) -> dict[str, Any]:
    """One question: whole, or by lengths and first letters only."""
    if texts:
        return {"id": question.id, "question": question.text, "answers": list(question.answers)}
    hidden = [f"({_characters(one)})" for one in question.answers]
    return {"id": question.id, "question": f"{question.text[:1]}… ({_characters(question.text)})", "answers": hidden}


def _characters(text: str) -> str:
    return "1 character" if len(text) == 1 else f"{len(text):,} characters"


def _levels(loaded: Loaded) -> Counter[str]:
    return Counter(level for question in loaded.questions if (level := str(question.meta["level"])))


def _topics(loaded: Loaded) -> Counter[str]:
    return Counter(topic for question in loaded.questions for topic in question.meta["topics"])


def _counted(items: list[tuple[str, int]]) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in items)
