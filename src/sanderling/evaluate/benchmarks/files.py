"""A benchmark's file read whole: which file of a folder is meant, every row as a question or counted as left out, and a check.

The first row shows whether the file is the right one: when a column that every question needs is not there, a `UserError` names
it and those that are. Of private questions a check tells the first letter and the length, of their answers the length, unless
texts are asked for.

Example: ``load_benchmark(get_benchmark("gaia"), Path("metadata.jsonl")).questions``
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from sanderling.core.errors import UserError
from sanderling.core.record import Question, question_id
from sanderling.data.questions import Fields, MissingColumnError
from sanderling.data.tables import Unread as Broken
from sanderling.data.tables import question_rows
from sanderling.evaluate.benchmarks.rows import Options, RowError, UnreadWhy, looks_encrypted, read_row
from sanderling.evaluate.benchmarks.table import Benchmark, Split

_EXAMPLES = 3


class Unread(NamedTuple):
    """A row that was left out; ``line`` counts the file's rows from 1, without the heading."""

    line: int
    why: UnreadWhy
    about: str = ""


@dataclass(frozen=True)
class Loaded:
    """A benchmark's file, read whole."""

    benchmark: str  # its key, or where one from outside stands: what `table.get_benchmark` finds it by
    split: str
    path_name: str  # the file's or folder's name, without its place
    sha256: str  # of the bytes of the file, or of all its parts one after the other
    questions: tuple[Question, ...]
    unread: Mapping[UnreadWhy, int]
    examples: tuple[Unread, ...]  # the first few of each kind
    expected: int | None  # rows that the publisher names for the split; None: not known
    private: bool
    """Published encrypted, or under terms that forbid to share it: its texts are not to be shown or written unasked."""
    canaries: tuple[str, ...]  # the different ones of the rows
    repeated_texts: int  # questions whose words another one before them has; each stays a question of its own

    @property
    def rows(self) -> int:
        """Rows of this benchmark that the file has, read or not."""
        return len(self.questions) + sum(self.unread.values()) - self.unread.get(UnreadWhy.OTHER_SET, 0)

    @property
    def without_answer(self) -> int:
        """Questions that cannot be scored, since the file has no accepted answer for them."""
        return sum(not question.answers for question in self.questions)


def load_benchmark(benchmark: Benchmark, path: Path, options: Options | None = None) -> Loaded:
    """Read a file, or a folder as it was downloaded. Raises UserError when it is another's or holds no question."""
    options = options or Options()
    split = split_of(benchmark, path, options.split)
    files = find_files(path, split.files)
    questions: dict[str, Question] = {}
    texts, unread, canaries = Counter[str](), Counter[UnreadWhy](), dict[str, None]()
    examples: list[Unread] = []
    fits = False  # whether a row had all that is needed, so that the file is the right one
    for line, found in enumerate((row for file in files for row in question_rows(file, benchmark.skip)), start=1):
        try:
            if isinstance(found, Broken):
                raise RowError(UnreadWhy.BAD_ROW, found.text)
            question = _question(benchmark, split, line, found, options, texts)
            if question.id in questions:
                native = question.id.removeprefix(f"{benchmark.key}/")
                raise RowError(UnreadWhy.REPEATED_ID, f"the id {native[:60]!r} came before")
        except MissingColumnError as error:
            if not fits:
                raise UserError(_other_layout(benchmark, path, error, found)) from error
            left = Unread(line, UnreadWhy.BAD_ROW, f"no {error.role}")
        except ValueError as error:
            left = Unread(line, error.why if isinstance(error, RowError) else UnreadWhy.BAD_ROW, str(error))
        else:
            questions[question.id] = question
            texts[question_id(question.text)] += 1
            canaries |= {question.meta["canary"]: None} if question.meta.get("canary") else {}
            left = None
        fits = fits or not isinstance(found, Broken)
        if left is not None:
            unread[left.why] += 1
            examples += [left] if unread[left.why] <= _EXAMPLES else []
    if not questions:
        raise UserError(_why_empty(benchmark, path, options, unread))
    return Loaded(
        benchmark=benchmark.outside or benchmark.key,
        split=split.name,
        path_name=path.resolve().name,
        sha256=sha256_of(files),
        questions=tuple(questions.values()),
        unread=dict(unread),
        examples=tuple(examples),
        expected=split.questions,
        private=benchmark.private or any(one.meta.get("private") is True for one in questions.values()),
        canaries=tuple(canaries),
        repeated_texts=sum(count - 1 for count in texts.values()),
    )


def _question(
    benchmark: Benchmark, split: Split, line: int, found: dict[str, Any], options: Options, texts: Counter[str]
) -> Question:
    """A row as a question. ``texts``: how often each question's words came before."""
    row = read_row(benchmark, Fields(line, found, options.columns), options)
    text = row.text.strip()
    if not text:
        raise RowError(UnreadWhy.NO_QUESTION)
    if looks_encrypted(text):
        raise RowError(UnreadWhy.UNDECODABLE, "it looks encrypted")
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


def _other_layout(benchmark: Benchmark, path: Path, error: MissingColumnError, found: dict[str, Any] | Broken) -> str:
    columns = ", ".join(repr(name) for name in found) if isinstance(found, dict) and found else "none"
    names = " or ".join(repr(name) for name in error.names)
    return (
        f"{path} has no column {names} for the {error.role} (found: {columns[:400]}): is it the file of "
        f"{benchmark.title}? If so, say --columns {error.role}=NAME."
    )


def _why_empty(benchmark: Benchmark, path: Path, options: Options, unread: Counter[UnreadWhy]) -> str:
    """Why a file holds no question, and what to do."""
    if not unread:
        return f"{path} holds no row: give the file of {benchmark.title}."
    counts = ", ".join(f"{count} {why.words}" for why, count in unread.most_common())
    hint = "check that it is the right file."
    if unread.most_common(1)[0][0] is UnreadWhy.UNDECODABLE:
        hint = "check its canary column, or the canary that is given with --canary; of a decrypted file, remove that column."
        hint = hint if benchmark.cipher else "it is encrypted, so read it as the benchmark that it is (sanderling eval list)."
    return f"No row of {path} is a question ({counts}): {hint}"


# Which split and which files ------------------------------------------------------------------------------------------------

_DATA = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx")
_PACKED = (".gz", ".bz2", ".zst")
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
    in_folder = [name for name in by_name if name == path.resolve().parent.name]
    named = in_name if len(in_name) == 1 else in_folder
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
    if len(files) == 1:
        return list(files.values())
    shards = [_SHARD.fullmatch(name) for name in files]
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
    suffixes = [suffix.lower() for suffix in file.suffixes if suffix.lower() not in _PACKED]
    hidden = any(part.startswith(".") for part in name.split("/"))
    return not hidden and bool(suffixes) and suffixes[-1] in _DATA and file.is_file()


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


def check_figures(loaded: Loaded, *, texts: bool) -> dict[str, Any]:
    """What was read, as JSON values. ``texts``: whether the samples hold their texts."""
    levels = Counter(level for question in loaded.questions if (level := str(question.meta["level"])))
    topics = Counter(topic for question in loaded.questions for topic in question.meta["topics"])
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
        "levels": dict(sorted(levels.items())),
        "topics": dict(topics.most_common()),
        "private": loaded.private,
        "samples": [_sample(one, texts=texts) for one in loaded.questions[:_SAMPLES]],
    }


def _sample(question: Question, *, texts: bool) -> dict[str, Any]:
    """One question: whole, or by lengths and first letters only."""
    if texts:
        return {"id": question.id, "question": question.text, "answers": list(question.answers)}
    hidden = [f"({len(one):,} characters)" for one in question.answers]
    return {"id": question.id, "question": f"{question.text[:1]}… ({len(question.text):,} characters)", "answers": hidden}


def check_lines(benchmark: Benchmark, loaded: Loaded, *, texts: bool) -> list[str]:
    """What was read, in sentences, and the first questions."""
    found = check_figures(loaded, texts=texts)
    size = f"{len(loaded.questions):,} questions in {loaded.path_name} (SHA-256 {loaded.sha256[:16]}…)"
    lines = [f"{benchmark.title}{f', split {loaded.split}' if loaded.split else ''}: {size}.", *remarks(benchmark, loaded)]
    for name in ("levels", "topics"):
        if counts := ", ".join(f"{value} ({count:,})" for value, count in found[name].items()):
            lines.append(f"{name.capitalize()}: {counts}")
    for one in found["samples"]:
        question, answers = (" ".join(text.split())[:300] for text in (one["question"], " | ".join(one["answers"])))
        lines.append(f"{one['id']}: {question} → {answers or '(no accepted answer)'}")
    return lines


def remarks(benchmark: Benchmark, loaded: Loaded) -> list[str]:
    """Which rows are no questions and why, and what else a person should look at before a run."""
    found = []
    for why, count in loaded.unread.items():
        rows = ", ".join(str(one.line) for one in loaded.examples if one.why is why) + (", …" if count > _EXAMPLES else "")
        found.append(f"Left out: {count:,} {why.words} (row {rows}).")
    if loaded.expected is not None and loaded.rows != loaded.expected:
        others = [one.name for one in benchmark.splits if one.questions == loaded.rows]
        hint = f"; so many has the split {others[0]}: say --split {others[0]}" if others else ""
        found.append(f"The file has {loaded.rows:,} rows of the {loaded.expected:,} that are published{hint}.")
    if loaded.without_answer:
        found.append(f"Without an accepted answer in the file: {loaded.without_answer:,} questions, which are never scored.")
    if loaded.repeated_texts:
        found.append(f"With the words of a question before them: {loaded.repeated_texts:,} questions; each counts.")
    return found
