"""A benchmark's file read whole: which file of a folder is meant, every row as a question or counted as left out, and a check.

The first row shows whether the file is the right one: when a column that every question needs is not there, a `UserError` names
it and those that are. Of private questions a check shows the first letter and the length, of their answers the length, unless
texts are asked for.

Example: ``load_benchmark(get_benchmark("gaia"), Path("metadata.jsonl")).questions``
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.plugins import resolve
from sanderling.core.record import Question, question_id
from sanderling.data.questions import Fields, MissingColumnError
from sanderling.data.tables import Unread, question_rows
from sanderling.evaluate.benchmark_rows import READERS, Options, RowError, UnreadWhy, looks_encrypted
from sanderling.evaluate.benchmarks import Benchmark, Split
from sanderling.runs.files import PACKED, or_cannot


@dataclass(frozen=True)
class Loaded:
    """A benchmark's file, read whole."""

    benchmark: str  # its key, or where one from outside stands: what `get_benchmark` finds it by
    split: str
    path_name: str  # the file's or folder's name, without its place
    sha256: str  # of the bytes of the file, or of all its parts one after the other
    questions: tuple[Question, ...]
    expected: int | None  # rows that the publisher names for the split; None: not known
    unread: Mapping[UnreadWhy, Sequence[int]]  # the rows that were left out, counted from 1 without the heading
    private: bool
    """Published encrypted, or under terms that forbid to share it: its texts are not to be shown or written unasked."""
    canaries: tuple[str, ...]  # the different ones of the rows

    @property
    def facts(self) -> dict[str, Any]:
        """What a run's log says of it (`log.About`)."""
        about = {"benchmark": self.benchmark, "split": self.split, "file": self.path_name, "file_sha256": self.sha256}
        return about | {"private": self.private, "canaries": self.canaries}


def load_benchmark(benchmark: Benchmark, path: Path, options: Options | None = None) -> Loaded:
    """Read a file, or a folder as it was downloaded. Raises UserError when it is another's or holds no question."""
    options = options or Options()
    split = split_of(benchmark, path, options.split)
    files = find_files(path, split.files)
    questions: dict[str, Question] = {}
    texts = Counter[str]()
    unread = defaultdict[UnreadWhy, list[int]](list)
    fits = False  # whether a row had all that is needed, so that the file is the right one
    for line, found in enumerate((row for file in files for row in question_rows(file, benchmark.skip)), start=1):
        try:
            if isinstance(found, Unread):
                raise RowError(UnreadWhy.BAD_ROW)
            question = _question(benchmark, split, line, found, options, texts)
            if question.id in questions:
                raise RowError(UnreadWhy.REPEATED_ID)
            questions[question.id] = question
            texts[question_id(question.text)] += 1
        except MissingColumnError as error:
            if not fits:
                raise UserError(_other_layout(benchmark, path, error, found)) from error
            unread[UnreadWhy.BAD_ROW].append(line)
        except ValueError as error:
            unread[error.why if isinstance(error, RowError) else UnreadWhy.BAD_ROW].append(line)
        fits = fits or not isinstance(found, Unread)
    if not questions:
        raise UserError(_why_empty(benchmark, path, options, unread))
    return Loaded(
        benchmark=benchmark.outside or benchmark.key,
        split=split.name,
        path_name=path.resolve().name,
        sha256=sha256_of(files),
        questions=tuple(questions.values()),
        expected=split.questions,
        unread=dict(unread),
        private=benchmark.private or any(one.meta.get("private") is True for one in questions.values()),
        canaries=tuple(dict.fromkeys(one.meta["canary"] for one in questions.values() if one.meta.get("canary"))),
    )


def _question(
    benchmark: Benchmark, split: Split, line: int, found: dict[str, Any], options: Options, texts: Counter[str]
) -> Question:
    """A row as a question. ``texts``: how often each question's words came before. Raises RowError or MissingColumnError."""
    reader = benchmark.reader
    read = resolve(reader, READERS, "reader of rows") if isinstance(reader, str) else reader
    row = read(benchmark, Fields(line, found, options.columns), options)
    text = row.text.strip()
    if not text:
        raise RowError(UnreadWhy.NO_QUESTION)
    if looks_encrypted(text):
        raise RowError(UnreadWhy.UNDECODABLE)
    before = texts[digest := question_id(text)]
    meta: dict[str, Any] = {**row.extra, "benchmark": benchmark.key, "split": split.name, "level": row.level}
    meta |= {"topics": list(row.topics), "line": line}
    if benchmark.private:
        meta |= {"private": True, "canary": row.canary} if row.canary else {"private": True}
    return Question(
        id=f"{benchmark.key}/{row.native_id or (f'{digest}~{before + 1}' if before else digest)}",
        text=text,
        answers=row.answers,
        masked_urls=row.masked_urls,
        hops=row.hops,
        meta=meta,
    )


def _other_layout(benchmark: Benchmark, path: Path, error: MissingColumnError, found: dict[str, Any] | Unread) -> str:
    columns = ", ".join(repr(name) for name in found) if isinstance(found, dict) and found else "none"
    names = " or ".join(repr(name) for name in error.names)
    return (
        f"{path} has no column {names} for the {error.role} (found: {columns[:400]}): is it the file of "
        f"{benchmark.title}? If so, say --columns {error.role}=NAME."
    )


def _why_empty(benchmark: Benchmark, path: Path, options: Options, unread: Mapping[UnreadWhy, Sequence[int]]) -> str:
    """Why a file holds no question, and what to do."""
    if not unread:
        return f"{path} holds no row: give the file of {benchmark.title}."
    counts = ", ".join(f"{len(lines)} {why}" for why, lines in unread.items())
    hint = "check that it is the right file."
    if UnreadWhy.UNDECODABLE in unread:
        hint = "check its canary column, or the canary that is given with --canary; of a decrypted file, remove that column."
        hint = hint if benchmark.cipher else "it is encrypted, so read it as the benchmark that it is (sanderling eval list)."
    return f"No row of {path} is a question ({counts}): {hint}"


# Which split and which files ------------------------------------------------------------------------------------------------

_DATA = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx")
_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\D.*)")


def split_of(benchmark: Benchmark, path: Path, asked: str = "") -> Split:
    """The split that is asked for, that the file's or its folder's name says, or the first. Raises UserError."""
    if not benchmark.splits:
        return Split(name=asked)
    by_name = {split.name: split for split in benchmark.splits}
    if asked and asked not in by_name:
        near = get_close_matches(asked, by_name, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(by_name)}."
        raise UserError(f"{benchmark.key} has no split {asked!r}: {hint}")
    words = [path.name] if path.is_dir() else re.split(r"[_.]|-(?=\d{5}-of)", path.name)
    in_name = [name for name in by_name if name in words]
    named = in_name if len(in_name) == 1 else [name for name in by_name if name == path.resolve().parent.name]
    return by_name[asked or next(iter(named), benchmark.splits[0].name)]


def find_files(path: Path, patterns: Sequence[str] = ()) -> list[Path]:
    """The file itself; of a folder the one file that is meant, or the shards of one in order.

    ``patterns``: of paths below the folder, the likeliest first. Raises UserError when there is none, when there are several
    to choose from, or when a shard is missing.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"There is no file or folder {path}: check the path.")
    below = {name: file for file in sorted(path.rglob("*")) if _is_data(name := file.relative_to(path).as_posix(), file)}
    if not below:
        raise UserError(f"{path} holds no CSV, TSV, JSON, Parquet or xlsx file: give the benchmark's file.")
    matching = ({name: file for name, file in below.items() if fnmatch(name, pattern)} for pattern in patterns)
    files = next(filter(None, matching), below)
    shards = [_SHARD.fullmatch(name) for name in files]
    if len(files) == 1 and shards[0] is None:
        return list(files.values())
    kinds = {(match[1], match[3], match[4]) if match else None for match in shards}
    kind = kinds.pop()
    if kinds or kind is None:
        raise UserError(f"{path} holds several files ({', '.join(list(files)[:6])}): give the one that is meant.")
    stem, count, suffix = kind
    wanted = [f"{stem}-{number:05}-of-{count}{suffix}" for number in range(int(count))]
    if missing := [name for name in wanted if name not in files]:
        raise UserError(f"{path} lacks {missing[0]} ({len(missing)} of {int(count)} parts are missing): download it too.")
    return [files[name] for name in wanted]


def _is_data(name: str, file: Path) -> bool:
    suffixes = [suffix.lower() for suffix in file.suffixes if suffix.lower() not in PACKED]
    hidden = any(part.startswith(".") for part in name.split("/"))
    return not hidden and bool(suffixes) and suffixes[-1] in _DATA and file.is_file()


def sha256_of(files: Sequence[Path]) -> str:
    """Of the bytes of the files, one after the other. Raises UserError when one cannot be read."""
    digest = hashlib.sha256()
    for path in files:
        with or_cannot(f"read {path}", "check the path"), path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()


# A check before a run is paid for -------------------------------------------------------------------------------------------

_SAMPLES = 3


def check_lines(benchmark: Benchmark, loaded: Loaded, *, texts: bool) -> list[str]:
    """What was read, in sentences, and the first questions: whole, or without ``texts`` by lengths and first letters only."""
    size = f"{len(loaded.questions):,} questions in {loaded.path_name} (SHA-256 {loaded.sha256[:16]}…)"
    split = f", split {loaded.split}" if loaded.split else ""
    lines = [f"{benchmark.title}{split}: {size}.", *remarks(benchmark, loaded)]
    levels = Counter(level for question in loaded.questions if (level := str(question.meta["level"])))
    topics = Counter(topic for question in loaded.questions for topic in question.meta["topics"])
    for name, found in (("Levels", sorted(levels.items())), ("Topics", topics.most_common())):
        if found:
            lines.append(f"{name}: " + ", ".join(f"{value} ({count:,})" for value, count in found))
    for one in loaded.questions[:_SAMPLES]:
        asked, answers = " ".join(one.text.split())[:300], " | ".join(one.answers)[:300]
        if not texts:
            asked = f"{one.text[:1]}… ({len(one.text):,} characters)"
            answers = " | ".join(f"({len(answer):,} characters)" for answer in one.answers)
        lines.append(f"{one.id}: {asked} → {answers or '(no accepted answer)'}")
    return lines


def remarks(benchmark: Benchmark, loaded: Loaded) -> list[str]:
    """Which rows are no questions and why, and what else a person should look at before a run."""
    found = []
    for why, lines in loaded.unread.items():
        rows = ", ".join(map(str, lines[:_SAMPLES])) + (", …" if len(lines) > _SAMPLES else "")
        found.append(f"Left out: {len(lines):,} {why} (row {rows}).")
    rows = len(loaded.questions) + sum(map(len, loaded.unread.values()))
    if loaded.expected is not None and rows != loaded.expected:
        others = [one.name for one in benchmark.splits if one.questions == rows]
        hint = f"; so many has the split {others[0]}: say --split {others[0]}" if others else ""
        found.append(f"The file has {rows:,} rows of the {loaded.expected:,} that are published{hint}.")
    if without := sum(not question.answers for question in loaded.questions):
        found.append(f"Without an accepted answer in the file: {without:,} questions, which are left out.")
    return found
