"""Public benchmarks as a table of specifications, and those that a person brings.

`benchmarks.toml` says of each where its file is to be had, under which licence, who judges it, how it is encrypted and which
columns hold what; `files.load_benchmark` reads a file by it. Nothing is downloaded and nothing is shipped. A
benchmark of one's own is a TOML file with the same fields, or a `Benchmark` in a Python file:

    RIVERS = Benchmark(key="rivers", rules=("exact",), columns=Columns(question=("q",), answer=("river",)))

Both go wherever a benchmark's key goes: ``sanderling eval run rivers.toml FILE``, ``sanderling eval run mine.py:RIVERS FILE``.
"""

import re
import tomllib
from collections.abc import Callable
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from sanderling.core.config import Frozen, check_config
from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside, load_outside

Cipher = Literal["", "sxor", "bxor", "fixed"]
"""XOR with the SHA-256 of the canary in each row, with that canary's own bytes, or as the first by one canary for all rows that
does not stand in the file."""
Role = Literal["question", "answer", "topic"]


class Split(Frozen):
    """A part of a benchmark that is measured alone."""

    name: str
    questions: int | None = None
    """How many the publisher names; None: not known, or not one number."""
    about: str = ""
    files: tuple[str, ...] = ()
    """Where it lies in the publisher's folder: patterns of paths below it, the likeliest first."""


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
    obtain: str = "it is the user's own"
    """Where a person gets the file."""
    licence: str = "the user's own"
    """What stands before the first semicolon is the short form, for tables."""
    source: str = "the user"
    """Where these facts were read."""
    splits: tuple[Split, ...] = ()
    """The first is taken unless another is named; empty: any name will do."""
    form: str = ""
    """The prompt of the model that judges (`judge.prompts`); empty: the publisher scores by rule."""
    rules: tuple[str, ...] = ()
    """Rules that a person may choose; where there is no form, the first is the publisher's own."""
    published_judge: str = "not known"
    answer_format: str = ""
    """What the publisher asks the model to write; shown to people, never put into a prompt."""
    cipher: Cipher = ""
    encrypted: tuple[Role, ...] = ()
    """Roles whose texts stand encrypted in the file."""
    gated: bool = False
    """Behind terms that forbid to share it."""
    verbatim: bool = True
    """A page that holds the words of a question is a leak (and not the source from which the question was made)."""
    not_known: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    """Columns of Parquet that are never read: documents, images."""
    reader: str | Callable[..., Any] = "columns"
    """How a row of the file becomes a question: one of `rows.READERS`, or ``file.py:name``."""
    columns: Columns = Columns()
    extra: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """What else is kept with a question: the name in its ``meta``, and the columns."""
    extra_lists: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """The same for lists of texts."""
    topic_separator: str = ""
    literal: str = ""
    """A column that holds a dict in Python's notation."""
    attachment: str = ""
    """The column of a file's name; questions with one are left out unless asked for."""
    image: str = ""
    """The same of an image."""
    sources: tuple[str, ...] = ()
    """How files that hold several benchmarks (by ``data_source``) call this one."""
    outside: str = ""
    """FILE.toml or ``file.py:name``, where it is none of the table's: runs are of the benchmark of that name."""

    @property
    def private(self) -> bool:
        """Whether its texts are not to be shown or written unasked."""
        return bool(self.cipher) or self.gated

    @property
    def own_rule(self) -> str:
        """The rule by which the publisher scores; empty: a model judges."""
        return "" if self.form or not self.rules else self.rules[0]


def _read_table() -> dict[str, Benchmark]:
    text = files("sanderling.evaluate.benchmarks").joinpath("benchmarks.toml").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = {}
    for key, fields in tomllib.loads(text).items():
        found[key] = found.get(fields.pop("like", ""), {}) | fields | {"key": key}
    return {key: Benchmark.model_validate(fields) for key, fields in found.items()}


BENCHMARKS = _read_table()


def get_benchmark(name: str) -> Benchmark:
    """The benchmark of a key, of a TOML file, or of ``file.py:name``. Raises UserError, with the nearest keys."""
    found = BENCHMARKS.get(name) or BENCHMARKS.get(name.lower().replace("_", "-"))
    if found is not None:
        return found
    if name.endswith(".toml"):
        return _from_toml(Path(name))
    if is_outside(name):
        made = load_outside(name)
        if not isinstance(made, Benchmark):
            raise UserError(
                f"{name} is a {type(made).__name__} and no Benchmark of sanderling.evaluate.benchmarks.table: make it one."
            )
        return made.model_copy(update={"outside": name})
    near = get_close_matches(name.lower(), BENCHMARKS, n=3)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "sanderling eval list shows them all."
    raise UserError(f"There is no benchmark {name!r}: {hint}")


def _from_toml(path: Path) -> Benchmark:
    """A benchmark's fields; its key is the file's name unless it says another."""
    try:
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} is no TOML file of a benchmark ({error}): give one with the fields of docs/evaluation.md."
        ) from error
    like = fields.pop("like", "")
    base = get_benchmark(like).model_dump(exclude={"key"}) if like else {}
    return check_config(Benchmark, {"key": path.stem, **base, **fields, "outside": str(path)}, str(path))


def leaks() -> str:
    """Sites known to repeat benchmarks, in the form of a blocklist: one a line, each with its source."""
    return files("sanderling.evaluate.benchmarks").joinpath("leaks.txt").read_text(encoding="utf-8")


# Names that somebody else wrote --------------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W_]+")
_LONG = 6
"""A beginning of so many letters means a benchmark wherever it stands; a shorter one only where a word begins."""
_TITLES = frozenset({"lastexam"})
_SHORT = frozenset({"bc", "bcen", "bczh", "bcp", "bcplus"})


def is_private_name(name: str) -> bool:
    """Whether a private benchmark is called so, by its key, its title or a usual spelling ("GAIA_text", "bc-zh", "HLE-500").

    One that only resembles a private benchmark's is taken for it: hiding too much can be mended by a person, publishing too
    much cannot.
    """
    words = _WORD.findall(name.casefold())
    whole = "".join(words)
    beginnings = {one.key.partition("-")[0] for one in BENCHMARKS.values() if one.private} | _TITLES
    return (
        not _SHORT.isdisjoint(words)
        or any(word.startswith(beginning) for word in words for beginning in beginnings)
        or any(beginning in whole for beginning in beginnings if len(beginning) >= _LONG)
    )


# What is known, for people and for machines --------------------------------------------------------------------------------

_CIPHERS: dict[Cipher, str] = {
    "": "no",
    "sxor": "yes, by the canary in each row",
    "bxor": "yes, by the canary in each row",
    "fixed": "yes, by one canary that is given with --canary",
}
_READING = {"encrypted", "reader", "columns", "extra", "extra_lists", "topic_separator", "literal", "attachment", "image"}


def facts(benchmark: Benchmark) -> dict[str, Any]:
    """What is known of a benchmark, as JSON values; how its rows are read is left out."""
    found = benchmark.model_dump(mode="json", exclude=_READING | {"skip", "sources", "outside"})
    return found | {"own_rule": benchmark.own_rule, "private": benchmark.private}


def fact_lines(benchmark: Benchmark) -> list[tuple[str, str]]:
    """The same as names and sentences; what does not apply is left out."""
    splits = [
        f"{one.name}: {f'{one.questions:,}' if one.questions else 'number not known'}{f' ({one.about})' if one.about else ''}"
        for one in benchmark.splits
    ]
    judged = f"a model, form {benchmark.form}" if benchmark.form else f"rule {benchmark.own_rule}"
    others = [rule for rule in benchmark.rules if rule != benchmark.own_rule]
    lines = [
        ("what", benchmark.about),
        ("get it from", benchmark.obtain),
        ("licence", benchmark.licence),
        ("questions", "; ".join(splits) or "as many as the file has"),
        ("publisher's judge", benchmark.published_judge),
        ("judged here by", judged + (f"; on request by {', '.join(others)}" if others else "")),
        ("answers as", benchmark.answer_format),
        ("encrypted", _CIPHERS[benchmark.cipher]),
        ("access", "gated, not to be shared again" if benchmark.gated else ""),
        ("guard", "" if benchmark.verbatim else "a page with a question's words is no leak here: it may be the source"),
        ("not known", "; ".join(benchmark.not_known)),
        ("facts from", benchmark.source),
    ]
    return [(name, text) for name, text in lines if text]
