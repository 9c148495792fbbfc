"""``sanderling train bootstrap``: a randomly initialised Qwen3 of any size, its tokenizer trained on a world or copied.

For tests, benchmarks and checks of hardware: such a model knows nothing. Everything that can be known to go wrong is said
before anything is written. Imports torch to write, and to check a ``config.json``.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from sanderling.core.chat import load_tokenizer
from sanderling.core.config import check_config
from sanderling.core.errors import UserError
from sanderling.policy.model_directory import TOKENIZER_FILES
from sanderling.runs.progress import Report
from sanderling.train.bootstrap import (
    CONTROL_TOKENS,
    PARTIAL,
    PROTOCOL_TAGS,
    PUBLISHED_VOCABULARY,
    ModelShape,
    check_settings,
    find_size,
    model_settings,
    train_tokenizer,
    write_model,
    write_tokenizer,
)
from sanderling.train.config import Precision
from sanderling.train.plan import Shape, shape_of
from sanderling.world.disk.store import open_world

SMALL = "tiny"
SMALL_VOCABULARY = 4_096
LEAST_VOCABULARY = 256 + len(CONTROL_TOKENS) + len(PROTOCOL_TAGS)
"""Every byte, control token and tag is a token."""
AddTokenizer = Callable[[Path], object]
"""Writes a tokenizer's files into a directory."""
_FIELDS = {
    "hidden_size": "hidden", "num_hidden_layers": "layers", "num_attention_heads": "heads", "num_key_value_heads": "kv_heads",
    "head_dim": "head_dim", "intermediate_size": "intermediate", "max_position_embeddings": "max_positions",
}  # fmt: skip
"""What a ``config.json`` calls the sizes that are checked."""


@dataclass(frozen=True)
class Wish:
    """What a person asked for."""

    out: Path
    size: str | None = None
    config: Path | None = None
    """A Qwen3's ``config.json``, or the directory that holds it, in place of a size."""
    world: Path | None = None
    tokenizer: Path | None = None
    """The directory of a tokenizer, in place of a world."""
    vocabulary: int | None = None
    seed: int = 0
    dtype: str = Precision.BFLOAT16

    @property
    def as_many_as_tokens(self) -> bool:
        """Whether the embedding has a row for each token and no more; published sizes keep theirs."""
        return self.vocabulary is None and self.config is None and (self.size or SMALL).lower() == SMALL


def bootstrap(wish: Wish, report: Report) -> None:
    """Write the model and say what it is. Raises UserError."""
    dtype = _checked_dtype(wish.dtype)
    _require_free(wish.out)
    settings = _settings(wish)
    _require_room(wish.out, settings, dtype)
    tokens, add = _tokenizer(wish, settings["vocab_size"], report)
    if wish.as_many_as_tokens:
        settings["vocab_size"] = tokens
    elif tokens > settings["vocab_size"]:
        raise UserError(
            f"The tokenizer has {tokens:,} tokens and the model's vocabulary {settings['vocab_size']:,}: give --vocab {tokens} "
            "or more, or a smaller tokenizer."
        )
    _write(wish, settings, dtype, add, report)


def _settings(wish: Wish) -> dict[str, Any]:
    """What the model's ``config.json`` says, but for its tokens."""
    if wish.config is not None and wish.size is not None:
        raise UserError("--size and --config both say how large the model is: give one of them.")
    if wish.config is not None:
        told = _read_config(wish.config)
        return told | {"vocab_size": wish.vocabulary or told["vocab_size"]}
    usual = SMALL_VOCABULARY if wish.as_many_as_tokens else PUBLISHED_VOCABULARY
    return model_settings(find_size(wish.size or SMALL), wish.vocabulary or usual)


def _read_config(path: Path) -> dict[str, Any]:
    file = path / "config.json" if path.is_dir() else path
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read as a config.json: give the one of a Qwen3, or --size.") from error
    kind = told.get("model_type") if isinstance(told, dict) else None
    if kind != "qwen3":
        raise UserError(f"{file} describes a model of type {kind}: only dense Qwen3 models (qwen3) can be made.")
    told = {"head_dim": 128, **told}  # Qwen3's own, where a file leaves it out
    shape_of(told, str(file))
    check_config(ModelShape, {ours: told[theirs] for theirs, ours in _FIELDS.items() if theirs in told}, str(file))
    told.pop("quantization_config", None)  # what is drawn is not quantised
    check_settings(told, file)
    return told


def _tokenizer(wish: Wish, vocabulary: int, report: Report) -> tuple[int, AddTokenizer]:
    """How many tokens there are, and who writes their files."""
    if wish.tokenizer is not None and wish.world is None:
        source = wish.tokenizer
        return load_tokenizer(source).vocab_size, lambda place: _copy(source, place)
    if wish.world is None or wish.tokenizer is not None:
        raise UserError("A model needs one tokenizer: give --world, whose pages one is trained on, or --tokenizer DIRECTORY.")
    if vocabulary < LEAST_VOCABULARY:
        raise UserError(
            f"A vocabulary of {vocabulary:,} is too small for a tokenizer: give --vocab {LEAST_VOCABULARY} at least, room for "
            "every byte and the protocol's own tokens."
        )
    trained = _trained(wish.world, vocabulary, report)
    return trained.get_vocab_size(with_added_tokens=True), lambda place: write_tokenizer(place, trained)


def _trained(directory: Path, vocabulary: int, report: Report) -> tokenizers.Tokenizer:
    """A tokenizer of at most so many tokens from a world's pages."""
    world = open_world(directory)
    with report.task("Pages read", world.page_count) as advance:

        def texts() -> Iterator[str]:
            for page in world.all_pages():
                yield f"{page.title}\n{page.url}\n{page.text}"
                advance()

        try:
            return train_tokenizer(texts(), vocabulary)
        except OSError as error:
            raise UserError(f"The world {directory} cannot be read ({error}): copy it again, or build it again.") from error


def _copy(source: Path, place: Path) -> None:
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, place / name)


def _write(wish: Wish, settings: dict[str, Any], dtype: Precision, add: AddTokenizer, report: Report) -> None:
    shape = _shape(settings)
    with report.task("Millions of numbers drawn", round(shape.parameters / 1e6)) as advance, _told_when_full(wish.out):
        done, shown = 0, 0

        def drawn(numbers: int) -> None:
            nonlocal done, shown
            done += numbers
            advance(round(done / 1e6) - shown)
            shown = round(done / 1e6)

        write_model(wish.out, add, settings, wish.seed, dtype, drawn)
    told = f"{shape.parameters:,} parameters, {_gigabytes(_bytes(shape, dtype))} in {dtype}, {shape.vocab:,} tokens"
    report.say(f"{wish.out} holds a Qwen3 of {told}, its weights random (seed {wish.seed}).")
    report.say(f"Train it with sanderling train sft DATA --model {wish.out} --profile PROFILE.")


def _shape(settings: dict[str, Any]) -> Shape:
    return shape_of(settings, "the model's config.json")


def _bytes(shape: Shape, dtype: Precision) -> int:
    return shape.parameters * (2 if dtype is Precision.BFLOAT16 else 4)


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.2f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"


def _checked_dtype(name: str) -> Precision:
    try:
        return Precision(name)
    except ValueError as error:
        raise UserError(f"There is no precision {name!r}: choose {' or '.join(Precision)}.") from error


def _require_free(out: Path) -> None:
    """Raises UserError when a directory holds anything but what an interrupted command left."""
    try:
        strange = sorted(path.name for path in out.iterdir() if path.name != PARTIAL) if out.exists() else []
    except NotADirectoryError as error:
        raise UserError(f"{out} is a file: choose another --out.") from error
    if strange:
        raise UserError(f"{out} is not empty (it holds {strange[0]}): choose another --out, or remove it first.")


def _require_room(out: Path, settings: dict[str, Any], dtype: Precision) -> None:
    place = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    shutil.rmtree(out / PARTIAL, ignore_errors=True)
    need, free = _bytes(_shape(settings), dtype), shutil.disk_usage(place).free
    if need > free:
        or_half = " or --dtype bfloat16" if dtype is Precision.FLOAT32 else ""
        raise UserError(
            f"The weights take {_gigabytes(need)} and the disk of {out} has {_gigabytes(free)}: free some space, or choose "
            f"another --out, a smaller --size{or_half}."
        )


@contextmanager
def _told_when_full(out: Path) -> Iterator[None]:
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError) as error:
        told = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"Cannot write the model {out} ({told}): free some space, or choose another --out.") from error
