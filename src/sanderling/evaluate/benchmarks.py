"""Public benchmarks as a table of specifications, and those that a person brings.

`benchmarks.toml` says of each where its file is to be had, under which licence, who judges it, how it is encrypted and which
columns hold what; `benchmark_files.load_benchmark` reads a file by it. Nothing is downloaded and nothing is shipped. A
benchmark of one's own is a `Benchmark` in a Python file, and goes wherever a key goes: ``eval run mine.py:RIVERS FILE`` with

    RIVERS = Benchmark(key="rivers", rules=("exact",), columns=Columns(question=("q",), answer=("river",)))
"""

import tomllib
from collections.abc import Callable
from importlib.resources import files
from typing import Any, Literal

from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside, resolve

Cipher = Literal["", "sxor", "bxor", "fixed"]
"""XOR with the SHA-256 of the canary in each row, with that canary's own bytes, or as the first by one canary for all rows that
does not stand in the file."""
Role = Literal["question", "answer", "topic"]


class Split(Frozen):
    """A part of a benchmark that is measured alone."""

    name: str
    questions: int | None = None  # how many the publisher names; None: not known, or not one number
    about: str = ""
    files: tuple[str, ...] = ()  # patterns of paths below the publisher's folder, the likeliest first


class Columns(Frozen):
    """Under which names of columns each role is looked for, the likeliest first."""

    question: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    level: tuple[str, ...] = ()
    topic: tuple[str, ...] = ()


class Benchmark(Frozen):
    """What is known of one benchmark."""

    key: str
    title: str = Field(default_factory=lambda data: data["key"])
    about: str = ""
    obtain: str = "it is the user's own"  # where a person gets the file
    licence: str = "the user's own"  # before the first semicolon stands the short form, for tables
    source: str = "the user"  # where these facts were read
    splits: tuple[Split, ...] = ()  # the first is taken unless another is named; empty: any name will do
    form: str = ""  # the prompt of the model that judges (`judge.prompts`); empty: the publisher scores by rule
    rules: tuple[str, ...] = ()  # that a person may choose; where there is no form, the first is the publisher's own
    published_judge: str = "not known"
    answer_format: str = ""  # what the publisher asks the model to write; shown to people, never put into a prompt
    cipher: Cipher = ""
    encrypted: tuple[Role, ...] = ()  # whose texts stand encrypted in the file
    gated: bool = False  # behind terms that forbid to share it
    verbatim: bool = True  # a page that holds the words of a question is a leak, and not the source of the question
    not_known: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()  # columns of Parquet that are never read: documents, images
    reader: str | Callable[..., Any] = "columns"  # of a row of the file: one of `benchmark_rows.READERS`, or ``file.py:name``
    columns: Columns = Columns()
    topic_separator: str = ""
    attachment: str = ""  # the column of a file's name; questions with one are left out for an agent that opens no file
    image: str = ""  # the same of an image
    outside: str = ""  # ``file.py:name``, where it is none of the table's: what runs are of

    @property
    def private(self) -> bool:
        """Whether its texts are not to be shown or written unasked."""
        return bool(self.cipher) or self.gated

    @property
    def own_rule(self) -> str:
        """The rule by which the publisher scores; empty: a model judges."""
        return "" if self.form or not self.rules else self.rules[0]


def _read_table() -> dict[str, Benchmark]:
    text = files("sanderling.evaluate").joinpath("benchmarks.toml").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = {}
    for key, fields in tomllib.loads(text).items():
        found[key] = found.get(fields.pop("like", ""), {}) | fields | {"key": key}
    return {key: Benchmark.model_validate(fields) for key, fields in found.items()}


BENCHMARKS = _read_table()


def get_benchmark(name: str) -> Benchmark:
    """The benchmark of a key, or of ``file.py:name``. Raises UserError, with the nearest key."""
    key = name if is_outside(name) else name.lower().replace("_", "-")
    found = resolve(key, BENCHMARKS, "benchmark")
    if not isinstance(found, Benchmark):
        raise UserError(f"{name} is a {type(found).__name__} and no Benchmark of sanderling.evaluate.benchmarks: make it one.")
    return found if key in BENCHMARKS else found.model_copy(update={"outside": name})


def leaks() -> str:
    """Sites known to repeat benchmarks, in the form of a blocklist: one a line, each with its source."""
    return files("sanderling.evaluate").joinpath("leaks.txt").read_text(encoding="utf-8")


_READING = {"encrypted", "reader", "columns", "topic_separator", "attachment", "image", "skip", "outside"}


def facts(benchmark: Benchmark) -> dict[str, Any]:
    """What is known of a benchmark, as JSON values; how its rows are read is left out."""
    found = benchmark.model_dump(mode="json", exclude=_READING)
    return found | {"own_rule": benchmark.own_rule, "private": benchmark.private}
