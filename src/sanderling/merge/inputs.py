"""The models of a merge, looked at before anything is written: they must be of one kind. Reads headers, not weights.

One architecture, one set of tensors with the same shapes, one tokenizer, every shard there. What differs is refused with one
sentence that names both. Knows no method of merging.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
    "tokenizer.model", "chat_template.jinja", "generation_config.json",
)  # fmt: skip
"""What is copied from the model that is named for it, where it has them."""
_MUST_AGREE = (
    "model_type", "architectures", "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "hidden_act", "rms_norm_eps", "tie_word_embeddings",
)  # fmt: skip
"""Settings that say how weights are used: shapes alone do not tell 4 heads of 8 from 8 heads of 4."""
_ROPE_DEFAULTS = {"rope_type": "default", "beta_fast": 32, "beta_slow": 1}
"""What transformers takes where a config says nothing."""


@dataclass(frozen=True)
class Stored:
    """A tensor as a file's header tells it."""

    shape: tuple[int, ...]
    dtype: str
    """In the words of safetensors: F32, BF16 and so on."""
    file: str


@dataclass(frozen=True)
class ModelFiles:
    """A model directory that can be merged."""

    path: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, Stored]
    tokenizer: str | None
    """Says whose ids the model knows; None: it has no tokenizer."""

    @property
    def files(self) -> list[Path]:
        """The files that hold weights, in order."""
        return [self.path / name for name in sorted({stored.file for stored in self.tensors.values()})]


def open_models(paths: Sequence[Path]) -> list[ModelFiles]:
    """The models, all like the first. Raises UserError for what is missing, and where two differ."""
    first, *others = [read_model(path) for path in paths]
    for other in others:
        for problem in _differences(first, other):
            raise UserError(problem)
    return [first, *others]


def read_model(path: Path) -> ModelFiles:
    """A directory's config and the headers of its weights. Raises UserError where a part is missing or damaged."""
    if not path.is_dir():
        raise UserError(f"There is no model directory at {path}: give a local Hugging Face directory.")
    if (path / "adapter_config.json").is_file() and not (path / "config.json").is_file():
        raise UserError(f"{path} holds a LoRA adapter and no model: give the model that it was merged into.")
    config = _json(path / "config.json")
    tensors: dict[str, Stored] = {}
    for name in _shards(path):
        tensors |= _header(path / name)
    if not tensors:
        raise UserError(f"The weights in {path} are empty: finish the download, or copy the directory again.")
    return ModelFiles(path, config, tensors, _tokenizer_of(path))


def _shards(path: Path) -> list[str]:
    """The names of the weight files, each of which is there."""
    if (path / INDEX).is_file():
        index = _json(path / INDEX).get("weight_map")
        if not isinstance(index, dict):
            raise UserError(f"{path / INDEX} names no files: finish the download, or copy the directory again.")
        names = sorted({str(name) for name in index.values()})
        missing = [name for name in names if not (path / name).is_file()]
        if missing:
            raise UserError(f"{path} lacks {missing[0]}, a shard that its index names: finish the download.")
        return names
    if (path / WEIGHTS).is_file():
        return [WEIGHTS]
    if any(path.glob("*.bin")):
        raise UserError(f"The weights in {path} are pickles (*.bin), which can run code: save the model as safetensors first.")
    raise UserError(f"{path} has no weights ({WEIGHTS}): finish the download or the training that should write them.")


def _header(file: Path) -> dict[str, Stored]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            found = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118  (not a mapping)
            return {name: Stored(tuple(part.get_shape()), part.get_dtype(), file.name) for name, part in found.items()}
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file} is damaged or cut short ({error}): finish the download, or copy it again.") from error


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"Cannot read {file} ({error.strerror}): give a model's directory with its config and weights."
        ) from error
    except ValueError as error:
        raise UserError(f"{file} is not JSON: copy it again from the model's source.") from error
    if not isinstance(found, dict):
        raise UserError(f"{file} is not what a model's directory holds: copy it again from the model's source.")
    return found


def _tokenizer_of(path: Path) -> str | None:
    """A hash of what turns text into ids: equal ones mean equal ids, whatever else the files say."""
    if (path / "tokenizer.json").is_file():
        whole = _json(path / "tokenizer.json")
        told = {key: value for key, value in whole.items() if key not in ("truncation", "padding", "version")}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    files = [path / name for name in ("vocab.json", "merges.txt", "tokenizer.model") if (path / name).is_file()]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest() if files else None


def _differences(first: ModelFiles, other: ModelFiles) -> Iterator[str]:
    """Sentences on what keeps two models from being merged."""
    for key in _MUST_AGREE:
        one, two = first.config.get(key), other.config.get(key)
        if one != two and None not in (one, two):
            yield (
                f"{other.path} is of another architecture than {first.path} ({key} {_plain(two)} and not {_plain(one)}): merge "
                "models that were trained from one base."
            )
    one, two = _positions(first.config), _positions(other.config)
    unlike = [key for key in sorted(one.keys() | two.keys()) if one.get(key) != two.get(key)]
    if "rope_theta" in one.keys() ^ two.keys():
        unlike.remove("rope_theta")  # one config leaves it to its architecture, whose default is not known here
    if unlike:
        told = ", ".join(f"{key} {_plain(two.get(key))} and not {_plain(one.get(key))}" for key in unlike)
        yield (
            f"{other.path} counts positions otherwise than {first.path} ({told}): merge models that were trained from one base."
        )
    for name in first.tensors.keys() ^ other.tensors.keys():
        having, lacking = (first, other) if name in first.tensors else (other, first)
        yield f"{lacking.path} has no tensor {name}, which {having.path} has: merge models that were trained from one base."
    for name, stored in first.tensors.items():
        shape = other.tensors[name].shape
        if shape != stored.shape:
            yield (
                f"{name} is {_shape(shape)} in {other.path} and {_shape(stored.shape)} in {first.path}: merge models of one "
                "size and vocabulary."
            )
    if None not in (first.tokenizer, other.tokenizer) and first.tokenizer != other.tokenizer:
        yield f"{other.path} has another tokenizer than {first.path}: merge models whose ids mean the same."


def _positions(config: Mapping[str, Any]) -> dict[str, Any]:
    """What says how far a token sees and what turns positions into angles, wherever a version of transformers wrote it.

    Without what is not set, and without defaults, so that equal ones are equal. The longest sequence is not in it where nothing
    is made of it: training on longer rows raises it.
    """
    nested = config.get("rope_parameters") or config.get("rope_scaling")
    rope: dict[str, Any] = {"rope_theta": config.get("rope_theta"), **(nested if isinstance(nested, dict) else {})}
    rope.setdefault("rope_type", rope.pop("type", None))  # its name in older configs
    if rope["rope_type"] not in (None, "default"):
        rope.setdefault("original_max_position_embeddings", config.get("max_position_embeddings"))
    if config.get("use_sliding_window", True) and config.get("sliding_window") is not None:
        rope |= {"sliding_window": config["sliding_window"], "max_window_layers": config.get("max_window_layers")}
    return {key: value for key, value in rope.items() if value is not None and value != _ROPE_DEFAULTS.get(key)}


def _plain(value: Any) -> str:
    return "none" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "a number"
