"""One merge from start to finish: look at the models, write the merged one, say where it comes from.

Everything that can be refused is refused before a byte is written. The model appears whole or not at all: it is written beside
its place and renamed, so that a merge that is killed leaves the previous output as it was. Of two merges into one place at once
the second is refused. ``merge.json`` in the directory says what went into it. Importable without torch.
"""

import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from sanderling import __version__
from sanderling.core.errors import UserError
from sanderling.merge.extra import require_mergekit
from sanderling.merge.inputs import TOKENIZER_FILES, ModelFiles, open_models, read_model
from sanderling.merge.settings import Dtype, MergeSettings
from sanderling.runs.files import replace_file, sync
from sanderling.runs.locks import locked_place

RECORD = "merge.json"
_PARTIAL = ".partial-"
_OLD = ".old-"
_DTYPES = {"F32": Dtype.FLOAT32, "BF16": Dtype.BFLOAT16, "F16": Dtype.FLOAT16}


class Source(BaseModel):
    """A model that went into a merge."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    sha256: str
    """Of its files of weights."""


class MergeRecord(BaseModel):
    """Where a merged model comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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


def merge(settings: MergeSettings, out: Path, command: str) -> MergeRecord:
    """Merge into ``out``, in place of an earlier merge there. Raises UserError before anything is written where it can."""
    version = require_mergekit()
    _check_replaceable(out)
    with locked_place(out):
        return _merge(settings, out, command, version)


def _merge(settings: MergeSettings, out: Path, command: str, mergekit: str) -> MergeRecord:
    started = time.monotonic()
    check_place(settings, out)
    models = open_models(settings.directories)
    giver = _tokenizer_giver(settings, models)
    from sanderling.merge.weights import check_finite, fingerprint

    for model in models:
        check_finite(model)
    dtype = settings.dtype or _stored_dtype(models[0])
    partial = _beside(out, _PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    try:
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
            versions=_versions(mergekit),
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - started, 3),
        )
        replace_file(partial / RECORD, record.model_dump_json(indent=1) + "\n")
        _settle(partial, out)
    except OSError as error:
        raise UserError(f"Cannot write {out} ({error.strerror}): free some space, or choose another place.") from error
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


def _check_replaceable(out: Path) -> None:
    """Raise UserError for the working directory and those above it, up to the root: none can be replaced under one's feet."""
    place, here = out.resolve(), Path.cwd()
    if place in (here, *here.parents):
        raise UserError(
            f"{out} is, or holds, the directory you are in, and a merge takes the place of a whole directory: name a new one."
        )


def check_place(settings: MergeSettings, out: Path) -> None:
    """Raise UserError where the output would harm an input, or something that is no merge of ours."""
    _restore(out)
    place = out.resolve()
    for path in (*settings.directories, *([settings.tokenizer] if settings.tokenizer else [])):
        if place == path.resolve() or place in path.resolve().parents:
            raise UserError(f"{out} is, or holds, the input {path}: choose another place for the merged model.")
    if not out.exists() and not out.is_symlink():
        return
    if not out.is_dir() or out.is_symlink():
        raise UserError(f"{out} is no directory: choose another place for the merged model.")
    if any(out.iterdir()) and not (out / RECORD).is_file():
        raise UserError(f"{out} holds something that is no merged model: choose another place, or empty it.")


def _write(settings: MergeSettings, dtype: Dtype, giver: Path, partial: Path) -> None:
    """Everything but the record, on the disk when this returns."""
    from safetensors import SafetensorError

    from sanderling.merge.kit import write_merged

    partial.mkdir(parents=True)
    try:
        write_merged(settings, dtype, partial)
    except SafetensorError as error:  # a full disk, too
        raise UserError(f"Cannot write {partial} ({error}): free some space, or choose another place.") from error
    for name in TOKENIZER_FILES:
        if (giver / name).is_file():
            shutil.copyfile(giver / name, partial / name)


def _check_whole(model: ModelFiles, merged: ModelFiles) -> None:
    """Raise UserError when mergekit left tensors out: it has a list of each architecture's."""
    tied = {"lm_head.weight"} if model.config.get("tie_word_embeddings") else set()
    lost = sorted(model.tensors.keys() - merged.tensors.keys() - tied)
    if lost:
        raise UserError(f"mergekit left {lost[0]} out: it does not know this architecture whole, so nothing was written.")


def _settle(partial: Path, out: Path) -> None:
    """Put a whole directory in its place."""
    for file in partial.iterdir():
        sync(file)
    sync(partial)
    old = _beside(out, _OLD)
    shutil.rmtree(old, ignore_errors=True)
    if out.exists():
        # A directory cannot be replaced in one step; what a kill leaves between the two renames, `_restore` brings back.
        out.rename(old)
    partial.rename(out)
    sync(out.parent)
    shutil.rmtree(old, ignore_errors=True)


def _restore(out: Path) -> None:
    old = _beside(out, _OLD)
    if old.is_dir() and not out.exists():
        old.rename(out)


def _beside(out: Path, prefix: str) -> Path:
    return out.with_name(prefix + out.name)


def _tokenizer_giver(settings: MergeSettings, models: list[ModelFiles]) -> ModelFiles:
    giver = models[0] if settings.tokenizer is None else read_model(settings.tokenizer)
    if giver.tokenizer is None:
        raise UserError(f"{giver.path} has no tokenizer to copy: name a model that has one with --tokenizer.")
    strange = next((model for model in models if model.tokenizer not in (None, giver.tokenizer)), None)
    if strange is not None:
        raise UserError(f"{giver.path} has another tokenizer than {strange.path}: copy one whose ids mean the same.")
    return giver


def _stored_dtype(model: ModelFiles) -> Dtype:
    """What most of a model's numbers are stored in."""
    sizes: dict[str, int] = {}
    for stored in model.tensors.values():
        count = 1
        for size in stored.shape:
            count *= size
        sizes[stored.dtype] = sizes.get(stored.dtype, 0) + count
    return _DTYPES.get(max(sizes, key=lambda name: sizes[name]), Dtype.FLOAT32)


def _versions(mergekit: str) -> dict[str, str]:
    from importlib.metadata import version

    found = {name: version(name) for name in ("torch", "transformers", "safetensors")}
    return {"sanderling": __version__, "mergekit": mergekit, **found}
