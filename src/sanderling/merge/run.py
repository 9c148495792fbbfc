"""One merge from start to finish: look at the models, have mergekit write the merged one, say where it comes from.

    settings = MergeSettings(method=Method.LINEAR, models=(Path("a"), Path("b")), weights=(0.6, 0.4))
    merge(settings, Path("merged"), command_line()).sha256

Everything that can be refused is refused before a byte is written. The model appears whole or not at all: it is written beside
its place and renamed, so that a merge that is killed leaves the previous output as it was. Of two merges into one place at once
the second is refused. ``merge.json`` in the directory says what went into it. Importable without torch.

mergekit is never given anything else than local directories, so it has nothing to download. Its arithmetic runs in float32
whatever the inputs are stored in. What is random draws from torch's generator, seeded here and given back as it was.
"""

import logging
import os
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from sanderling import __version__
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.merge.models import Model, check_finite, fingerprint, open_models, read_model
from sanderling.merge.settings import Dtype, MergeSettings, Method
from sanderling.policy.model_directory import TOKENIZER_FILES, quiet
from sanderling.runs.files import or_cannot, replace_file, sync
from sanderling.runs.locks import locked_place

RECORD = "merge.json"
SHARD_BYTES = 10**9
_COPIED = (*TOKENIZER_FILES, "tokenizer.model", "generation_config.json")
_DTYPES = {"F32": Dtype.FLOAT32, "BF16": Dtype.BFLOAT16, "F16": Dtype.FLOAT16}


class Source(Frozen):
    """A model that went into a merge."""

    path: str
    sha256: str
    """Of its files of weights."""


class MergeRecord(Frozen):
    """Where a merged model comes from."""

    command: str
    settings: MergeSettings
    weights: tuple[float, ...]
    """As they were used."""
    normalized: bool
    dtype: Dtype
    base: Source | None
    models: tuple[Source, ...]
    tokenizer: str
    """The model whose tokenizer was copied."""
    sha256: str
    """Of the merged weights."""
    versions: dict[str, str]
    date: str
    seconds: float


def require_mergekit() -> str:
    """The version of mergekit. Raises UserError when the extra ``[merge]`` is not installed."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when mergekit's libraries are first imported
    try:
        import mergekit.merge  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"Merging needs {error.name or 'mergekit'}: run pip install '.[merge]' in sanderling's own folder."
        ) from error
    return version("mergekit")


def merge(settings: MergeSettings, out: Path, command: str) -> MergeRecord:
    """Merge into ``out``, in place of an earlier merge there. Raises UserError before anything is written where it can."""
    mergekit = require_mergekit()
    place, here = out.resolve(), Path.cwd()
    if place in (here, *here.parents):  # a whole directory is replaced, and none can be under one's feet
        raise UserError(
            f"{out} is, or holds, the directory you are in, and a merge takes the place of a whole directory: name a new one."
        )
    with locked_place(out):
        started = time.monotonic()
        _check_place(settings, out)
        models = open_models(settings.directories)
        giver = _tokenizer_giver(settings, models)
        for model in models:
            check_finite(model)
        dtype = settings.dtype or _stored_dtype(models[0])
        partial = _beside(out, "partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            with or_cannot(f"write {out}"):
                _write(settings, dtype, giver.path, partial)
                _check_whole(models[0], read_model(partial))
                sources = [Source(path=str(model.path), sha256=fingerprint(model.path)) for model in models]
                record = MergeRecord(
                    command=command,
                    settings=settings,
                    weights=() if settings.traits.normalizes is None else settings.shares,
                    normalized=settings.normalized,
                    dtype=dtype,
                    base=sources[0] if settings.base is not None else None,
                    models=tuple(sources[-len(settings.models) :]),
                    tokenizer=str(giver.path),
                    sha256=fingerprint(partial),
                    versions={"sanderling": __version__, "mergekit": mergekit}
                    | {name: version(name) for name in ("torch", "transformers", "safetensors")},
                    date=datetime.now(UTC).isoformat(timespec="seconds"),
                    seconds=round(time.monotonic() - started, 3),
                )
                replace_file(partial / RECORD, record.model_dump_json(indent=1) + "\n")
                _settle(partial, out)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return record


def read_merge(directory: Path) -> MergeRecord:
    """Where a merged model comes from. Raises UserError when it is none."""
    try:
        return MergeRecord.model_validate_json((directory / RECORD).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"Cannot read {directory / RECORD} ({error.strerror}): give a merged model's directory.") from error
    except (ValidationError, UnicodeDecodeError) as error:
        raise UserError(f"{directory / RECORD} is not of this version: merge again.") from error


# -- mergekit ------------------------------------------------------------------------------------------------------------


def _write(settings: MergeSettings, dtype: Dtype, giver: Path, partial: Path) -> None:
    """Config, weights and tokenizer of the merged model. Raises UserError when mergekit refuses."""
    from mergekit.config import MergeConfiguration
    from mergekit.merge import MergeOptions, run_merge
    from safetensors import SafetensorError

    partial.mkdir(parents=True)
    options = MergeOptions(
        random_seed=settings.seed,
        copy_tokenizer=False,
        write_model_card=False,
        quiet=True,
        lazy_unpickle=True,
        out_shard_size=SHARD_BYTES,
    )
    with _undisturbed():
        try:
            run_merge(MergeConfiguration.model_validate(_kit_config(settings, dtype)), str(partial), options)
        except SafetensorError as error:  # a full disk, too
            raise UserError(f"Cannot write {partial} ({error}): free some space, or choose another place.") from error
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            what = (str(error) or type(error).__name__).splitlines()[0]
            raise UserError(f"mergekit cannot merge these models ({what}): check their directories.") from error
    for name in _COPIED:
        if (giver / name).is_file():
            shutil.copyfile(giver / name, partial / name)


def _kit_config(settings: MergeSettings, dtype: Dtype) -> dict[str, Any]:
    """The merge in mergekit's words."""
    traits, first = settings.traits, settings.base
    shared: dict[str, Any] = {}
    each: list[dict[str, Any]] = [{} for _ in settings.models]
    if settings.method is Method.SLERP:
        first = settings.models[0]
        shared["t"] = settings.t
    else:
        shared["normalize"] = settings.normalized
        each = [{"weight": weight} for weight in settings.shares]
    if traits.base:
        shared["lambda"] = settings.scale
    for name, is_used in (("density", traits.density), ("epsilon", traits.epsilon)):
        if is_used:
            each = [{**own, name: getattr(settings, name)} for own in each]

    def reference(path: Path) -> dict[str, Any]:
        """As a table: in a plain string mergekit would read ``@`` as a revision and ``+`` as a LoRA."""
        return {"model": {"path": str(path.resolve())}}

    return {
        "merge_method": settings.method.value.replace("-", "_"),
        "models": [{"model": reference(path), "parameters": own} for path, own in zip(settings.models, each, strict=True)],
        **({"base_model": reference(first)} if first is not None else {}),
        "parameters": shared,
        "dtype": "float32",
        "out_dtype": dtype.value,
    }


@contextmanager
def _undisturbed() -> Iterator[None]:
    """The caller's random state and terminal stay as they are: libraries' bars and warnings would tear through its lines."""
    import torch

    plain, arrays, level = random.getstate(), np.random.get_state(), logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with torch.random.fork_rng(devices=[]), quiet():
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(arrays)
        logging.disable(level)


# -- its place -----------------------------------------------------------------------------------------------------------


def _check_place(settings: MergeSettings, out: Path) -> None:
    """Raise UserError where the output would harm an input, or something that is no merge of ours."""
    old, place = _beside(out, "old"), out.resolve()
    if old.is_dir() and not out.exists():  # a kill came between the two renames of `_settle`
        old.rename(out)
    for path in (*settings.directories, *([settings.tokenizer] if settings.tokenizer else [])):
        if place == path.resolve() or place in path.resolve().parents:
            raise UserError(f"{out} is, or holds, the input {path}: choose another place for the merged model.")
    if not out.exists() and not out.is_symlink():
        return
    if not out.is_dir() or out.is_symlink():
        raise UserError(f"{out} is no directory: choose another place for the merged model.")
    if any(out.iterdir()) and not (out / RECORD).is_file():
        raise UserError(f"{out} holds something that is no merged model: choose another place, or empty it.")


def _settle(partial: Path, out: Path) -> None:
    """Put a whole directory in its place: one cannot be replaced in one step, so it takes two renames."""
    for file in partial.iterdir():
        sync(file)
    sync(partial)
    old = _beside(out, "old")
    shutil.rmtree(old, ignore_errors=True)
    if out.exists():
        out.rename(old)
    partial.rename(out)
    sync(out.parent)
    shutil.rmtree(old, ignore_errors=True)


def _beside(out: Path, what: str) -> Path:
    return out.with_name(f".{what}-{out.name}")


def _check_whole(model: Model, merged: Model) -> None:
    """Raise UserError when mergekit left tensors out: it has a list of each architecture's."""
    tied = {"lm_head.weight"} if model.config.get("tie_word_embeddings") else set()
    lost = sorted(model.shapes.keys() - merged.shapes.keys() - tied)
    if lost:
        raise UserError(f"mergekit left {lost[0]} out: it does not know this architecture whole, so nothing was written.")


def _tokenizer_giver(settings: MergeSettings, models: Sequence[Model]) -> Model:
    giver = models[0] if settings.tokenizer is None else read_model(settings.tokenizer)
    if giver.tokenizer is None:
        raise UserError(f"{giver.path} has no tokenizer to copy: name a model that has one with --tokenizer.")
    strange = next((model for model in models if model.tokenizer not in (None, giver.tokenizer)), None)
    if strange is not None:
        raise UserError(f"{giver.path} has another tokenizer than {strange.path}: copy one whose ids mean the same.")
    return giver


def _stored_dtype(model: Model) -> Dtype:
    """What most of a model's numbers are stored in."""
    sizes: dict[str, int] = {}
    for name, shape in model.shapes.items():
        sizes[model.dtypes[name]] = sizes.get(model.dtypes[name], 0) + prod(shape)
    return _DTYPES.get(max(sizes, key=lambda name: sizes[name]), Dtype.FLOAT32)
