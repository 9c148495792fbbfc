"""The models of a merge, looked at before anything is written: whole, of one kind, and made of finite numbers.

One architecture, one set of tensors with the same shapes, positions counted alike, one tokenizer. What differs is refused with
one sentence that names both.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.policy.model_directory import check_model

_WEIGHTS = "model.safetensors"
_MUST_AGREE = (
    "model_type", "architectures", "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "hidden_act", "rms_norm_eps", "tie_word_embeddings",
)  # fmt: skip
"""Settings that say how weights are used: shapes alone do not tell 4 heads of 8 from 8 heads of 4."""
_ROPE_DEFAULTS = {"rope_type": "default", "beta_fast": 32, "beta_slow": 1}
"""What transformers takes where a config says nothing."""


@dataclass(frozen=True)
class Model:
    """A model's directory that can be merged."""

    path: Path
    files: tuple[Path, ...]
    """Those that hold weights."""
    config: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    """By tensor."""
    dtypes: Mapping[str, str]
    """In the words of safetensors: F32, BF16 and so on."""
    tokenizer: str | None
    """Says whose ids the model knows; None: it has no tokenizer."""


def open_models(paths: Sequence[Path]) -> list[Model]:
    """The models, all like the first. Raises UserError for what is missing or damaged, and where two differ."""
    first, *others = [read_model(path) for path in paths]
    for other in others:
        for problem in _differences(first, other):
            raise UserError(problem)
    return [first, *others]


def read_model(path: Path) -> Model:
    """A directory's config and the headers of its weights. Raises UserError where a part is missing or damaged."""
    from safetensors import SafetensorError, safe_open

    check_model(path)
    index = path / f"{_WEIGHTS}.index.json"
    names = set(_json(index)["weight_map"].values()) if index.is_file() else {_WEIGHTS}
    files = tuple(path / name for name in sorted(names))
    if not files[0].is_file():
        pickled = "are pickles (*.bin), which can run code" if any(path.glob("*.bin")) else f"are in no {_WEIGHTS}"
        raise UserError(f"The weights in {path} {pickled}: save the model as safetensors first.")
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118  (not a mapping)
                    part = opened.get_slice(name)
                    shapes[name], dtypes[name] = tuple(part.get_shape()), part.get_dtype()
        except (SafetensorError, OSError) as error:
            raise UserError(f"{file} is damaged or cut short ({error}): finish the download, or copy it again.") from error
    if not shapes:
        raise UserError(f"The weights in {path} are empty: finish the download, or copy the directory again.")
    return Model(path, files, _json(path / "config.json"), shapes, dtypes, _tokenizer_of(path))


def check_finite(model: Model) -> None:
    """Raise UserError naming the first tensor that holds something else than finite numbers, or is none that can be merged."""
    import torch
    from safetensors import SafetensorError, safe_open

    for file in model.files:
        try:
            with safe_open(file, framework="pt") as opened:
                for name in sorted(opened.keys()):
                    tensor = opened.get_tensor(name)
                    if not tensor.is_floating_point() or tensor.element_size() < 2:
                        raise UserError(
                            f"{name} in {model.path} is {tensor.dtype}, which is not merged: save the model as bfloat16 or "
                            "float32 first."
                        )
                    if not bool(torch.isfinite(tensor).all()):
                        kind = "NaN" if bool(torch.isnan(tensor).any()) else "infinity"
                        raise UserError(
                            f"{name} in {model.path} holds {kind}: that training went wrong, so take an earlier checkpoint."
                        )
        except (SafetensorError, OSError) as error:
            raise UserError(f"{file} is damaged or cut short ({error}): finish the download, or copy it again.") from error


def fingerprint(directory: Path) -> str:
    """SHA-256 over the files of weights, in order of their names."""
    total = hashlib.sha256()
    for file in sorted(directory.glob("*.safetensors")):
        with file.open("rb") as opened:
            while block := opened.read(1 << 22):
                total.update(block)
    return total.hexdigest()


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read as JSON: copy it again from the model's source.") from error
    if not isinstance(found, dict):
        raise UserError(f"{file} is not what a model's directory holds: copy it again from the model's source.")
    return found


def _tokenizer_of(path: Path) -> str | None:
    """A hash of what turns text into ids: equal ones mean equal ids, whatever else the files say."""
    if (path / "tokenizer.json").is_file():
        whole = _json(path / "tokenizer.json")
        kept = {key: value for key, value in whole.items() if key not in ("truncation", "padding", "version")}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
    files = [path / name for name in ("vocab.json", "merges.txt", "tokenizer.model") if (path / name).is_file()]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest() if files else None


def _differences(first: Model, other: Model) -> Iterator[str]:
    """Sentences on what keeps two models from being merged."""
    one_base = "merge models that were trained from one base"
    for key in _MUST_AGREE:
        one, two = first.config.get(key), other.config.get(key)
        if one != two and None not in (one, two):
            differ = f"{key} {_plain(two)} and not {_plain(one)}"
            yield f"{other.path} is of another architecture than {first.path} ({differ}): {one_base}."
    one, two = _positions(first.config), _positions(other.config)
    unlike = [key for key in sorted(one.keys() | two.keys()) if one.get(key) != two.get(key)]
    if "rope_theta" in one.keys() ^ two.keys():
        unlike.remove("rope_theta")  # one config leaves it to its architecture, whose default is not known here
    if unlike:
        differ = ", ".join(f"{key} {_plain(two.get(key))} and not {_plain(one.get(key))}" for key in unlike)
        yield f"{other.path} counts positions otherwise than {first.path} ({differ}): {one_base}."
    for name in first.shapes.keys() ^ other.shapes.keys():
        having, lacking = (first, other) if name in first.shapes else (other, first)
        yield f"{lacking.path} has no tensor {name}, which {having.path} has: {one_base}."
    for name, shape in first.shapes.items():
        if other.shapes[name] != shape:
            there, here = ("×".join(map(str, sizes)) or "a number" for sizes in (other.shapes[name], shape))
            yield f"{name} is {there} in {other.path} and {here} in {first.path}: merge models of one size and vocabulary."
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
