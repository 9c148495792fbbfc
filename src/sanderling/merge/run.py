"""One merge from start to finish: look at the models, have mergekit write the merged one, say where it comes from.

    settings = MergeSettings(method=Method.LINEAR, models=(Path("a"), Path("b")), weights=(0.6, 0.4))
    merge(settings, Path("merged"), command_line()).sha256

The model appears whole or not at all: it is written beside its place and renamed. ``merge.json`` in the directory says what
went into it. mergekit is never given anything else than local directories, so it has nothing to download; its arithmetic runs
in float32 whatever the inputs are stored in. Importable without torch.
"""

import json
import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sanderling import __version__
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.evaluate.benchmark_files import sha256_of
from sanderling.merge.settings import MergeSettings, Method
from sanderling.policy.model_directory import TOKENIZER_FILES, check_model, quiet, read_model_config, stored_dtype
from sanderling.runs.files import locked, or_cannot, replace_file

RECORD = "merge.json"
_COPIED = (*TOKENIZER_FILES, "tokenizer.model", "generation_config.json")
_MUST_AGREE = (
    "model_type", "architectures", "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "hidden_act", "rms_norm_eps", "tie_word_embeddings", "rope_theta", "rope_parameters", "rope_scaling", "sliding_window",
)  # fmt: skip
"""Settings that say how weights are used: shapes alone do not tell 4 heads of 8 from 8 heads of 4."""


class MergeRecord(Frozen):
    """Where a merged model comes from."""

    command: str
    settings: MergeSettings
    dtype: str
    inputs: dict[str, str]  # directory to the SHA-256 of its weights
    sha256: str  # of the merged weights
    versions: dict[str, str]
    date: str


def require_mergekit() -> str:
    """The version of mergekit. Raises UserError when the extra ``[merge]`` is not installed."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when mergekit's libraries are first imported
    try:
        import mergekit.merge  # noqa: F401
    except ImportError as error:
        needed = error.name or "mergekit"
        raise UserError(f"Merging needs {needed}: run pip install '.[merge]' in sanderling's own folder.") from error
    return version("mergekit")


def merge(settings: MergeSettings, out: Path, command: str) -> MergeRecord:
    """Merge into ``out``, in place of an earlier merge there. Raises UserError, where it can before anything is written."""
    libraries = {"mergekit": require_mergekit()} | {name: version(name) for name in ("torch", "transformers", "safetensors")}
    with locked(out, beside=True):
        _check_place(settings, out)
        check_models(settings.directories)
        first = settings.directories[0]
        dtype = settings.dtype or str(stored_dtype(first)).removeprefix("torch.")
        partial = out.with_name(f".partial-{out.name}")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            with or_cannot(f"write {out}"):
                _write(settings, dtype, partial)
                _check_merged(first, partial)
                record = MergeRecord(
                    command=command,
                    settings=settings,
                    dtype=dtype,
                    inputs={str(path): fingerprint(path) for path in settings.directories},
                    sha256=fingerprint(partial),
                    versions={"sanderling": __version__, **libraries},
                    date=datetime.now(UTC).isoformat(timespec="seconds"),
                )
                replace_file(partial / RECORD, record.model_dump_json(indent=1) + "\n")
                shutil.rmtree(out, ignore_errors=True)
                partial.rename(out)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return record


def read_merge(directory: Path) -> MergeRecord:
    """Where a merged model comes from. Raises UserError when it is none."""
    try:
        return MergeRecord.model_validate_json((directory / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValidationError, UnicodeDecodeError) as error:
        raise UserError(f"{directory} holds no {RECORD} of this version: give a merged model's directory.") from error


def fingerprint(directory: Path) -> str:
    """SHA-256 over the files of weights, in order of their names."""
    return sha256_of(sorted(directory.glob("*.safetensors")))


def check_models(paths: Sequence[Path]) -> None:
    """Raise UserError for what is missing or damaged, and where two models differ in what weights or ids mean."""
    for path in paths:
        check_model(path)
        if not any(path.glob("*.safetensors")):
            raise UserError(f"The weights in {path} are pickles (*.bin), which can run code: save them as safetensors first.")
    if not (paths[0] / "tokenizer.json").is_file():
        raise UserError(f"{paths[0]} has no tokenizer.json to copy: put the models' own one there.")
    for one, two in pairwise(paths):
        first, other = read_model_config(one), read_model_config(two)
        for key in _MUST_AGREE:
            if first.get(key) != other.get(key) and None not in (first.get(key), other.get(key)):
                differ = f"{key} {other[key]} and not {first[key]}"
                raise UserError(f"{two} is built otherwise than {one} ({differ}): merge models trained from one base.")
        shapes, theirs = _shapes(one), _shapes(two)
        for name in sorted(shapes.keys() | theirs.keys()):
            if shapes.get(name) != theirs.get(name):
                differ = f"{name} is {theirs.get(name, 'not there')} and not {shapes.get(name, 'not there')}"
                raise UserError(f"{two} has other tensors than {one} ({differ}): merge models of one size and vocabulary.")
        if (two / "tokenizer.json").is_file() and _tokens(paths[0]) != _tokens(two):
            raise UserError(f"{two} has another tokenizer than {paths[0]}: merge models whose ids mean the same.")


def _tokens(path: Path) -> list[Any]:
    whole = json.loads((path / "tokenizer.json").read_text(encoding="utf-8"))
    return [whole.get("model"), whole.get("added_tokens")]


def _shapes(path: Path) -> dict[str, list[int]]:
    from safetensors import safe_open

    found: dict[str, list[int]] = {}
    for file in sorted(path.glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            found |= {name: opened.get_slice(name).get_shape() for name in opened.keys()}  # noqa: SIM118  (not a mapping)
    return found


def _check_merged(model: Path, merged: Path) -> None:
    """Raise UserError when mergekit left tensors out, of which it has a list for each architecture, or made no numbers."""
    import torch
    from safetensors import safe_open

    tied = {"lm_head.weight"} if read_model_config(model).get("tie_word_embeddings") else set()
    if lost := sorted(_shapes(model).keys() - _shapes(merged).keys() - tied):
        raise UserError(f"mergekit left {lost[0]} out: it does not know this architecture whole, so nothing was written.")
    for file in sorted(merged.glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118
                if not bool(torch.isfinite(opened.get_tensor(name)).all()):
                    raise UserError(f"{name} comes out as NaN or infinity: take an earlier checkpoint of what went wrong.")


def _check_place(settings: MergeSettings, out: Path) -> None:
    """Raise UserError where the output would harm an input, or something that is no merge of ours."""
    for path in settings.directories:
        if out.resolve() in (path.resolve(), *path.resolve().parents):
            raise UserError(f"{out} is, or holds, the input {path}: choose another place for the merged model.")
    if out.exists() and not (out / RECORD).is_file() and not (out.is_dir() and not any(out.iterdir())):
        raise UserError(f"{out} holds something that is no merged model: choose another place, or empty it.")
    ours = {RECORD, "config.json", "README.md", "mergekit_config.yml", *_COPIED}
    names = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    if strange := [name for name in names if name not in ours and ".safetensors" not in name]:
        raise UserError(f"{out} holds {strange[0]}, which no merge wrote: move it, or choose another place.")


def _write(settings: MergeSettings, dtype: str, partial: Path) -> None:
    """Config, weights and tokenizer of the merged model. Raises UserError when mergekit refuses."""
    from mergekit.config import MergeConfiguration
    from mergekit.merge import MergeOptions, run_merge
    from safetensors import SafetensorError

    partial.mkdir(parents=True)
    how = {"copy_tokenizer": False, "write_model_card": False, "quiet": True, "lazy_unpickle": True, "out_shard_size": 10**9}
    options = MergeOptions(random_seed=settings.seed, **how)
    try:
        with quiet():
            run_merge(MergeConfiguration.model_validate(_kit_config(settings, dtype)), str(partial), options)
    except SafetensorError as error:  # a full disk, too
        raise UserError(f"Cannot write {partial} ({error}): free some space, or choose another place.") from error
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        what = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"mergekit cannot merge these models ({what}): check their directories.") from error
    for name in _COPIED:
        if (settings.directories[0] / name).is_file():
            shutil.copyfile(settings.directories[0] / name, partial / name)


def _kit_config(settings: MergeSettings, dtype: str) -> dict[str, Any]:
    """The merge in mergekit's words."""
    traits, first = settings.traits, settings.base
    shared: dict[str, Any] = {"normalize": traits.normalizes}
    each: list[dict[str, Any]] = [{"weight": weight} for weight in settings.shares]
    if settings.method is Method.SLERP:
        first, shared, each = settings.models[0], {"t": settings.t}, [{} for _ in settings.models]
    if traits.base:
        shared["lambda"] = settings.scale
    if traits.density:
        each = [{**own, "density": settings.density} for own in each]

    def reference(path: Path) -> dict[str, Any]:
        """As a table: in a plain string mergekit would read ``@`` as a revision and ``+`` as a LoRA."""
        return {"model": {"path": str(path.resolve())}}

    return {
        "merge_method": settings.method.value.replace("-", "_"),
        "models": [{"model": reference(path), "parameters": own} for path, own in zip(settings.models, each, strict=True)],
        **({"base_model": reference(first)} if first is not None else {}),
        "parameters": shared,
        "dtype": "float32",
        "out_dtype": dtype,
    }
