"""mergekit, as a library: it reads and writes tensor by tensor; what it is handed are local directories. Brings torch.

It is never given anything else than directories that are there, so it has nothing to download. Its arithmetic runs in float32
whatever the inputs are stored in. What is random draws from torch's generator, seeded here and given back as it was.
"""

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sanderling.core.errors import UserError
from sanderling.merge.settings import Dtype, MergeSettings, Method
from sanderling.policy.model_directory import quiet

SHARD_BYTES = 10**9


def write_merged(settings: MergeSettings, dtype: Dtype, out: Path, shard_bytes: int = SHARD_BYTES) -> None:
    """Write config and weights of the merged model into ``out``; the models must have been found to go together.

    Raises UserError when mergekit refuses.
    """
    from mergekit.config import MergeConfiguration
    from mergekit.merge import MergeOptions, run_merge

    options = MergeOptions(
        random_seed=settings.seed,
        copy_tokenizer=False,
        write_model_card=False,
        quiet=True,
        lazy_unpickle=True,
        out_shard_size=shard_bytes,
    )
    with _random_state_kept(), _calm():
        try:
            run_merge(MergeConfiguration.model_validate(kit_config(settings, dtype)), str(out), options)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            told = (str(error) or type(error).__name__).splitlines()[0]
            raise UserError(f"mergekit cannot merge these models ({told}): check their directories.") from error


def kit_config(settings: MergeSettings, dtype: Dtype) -> dict[str, Any]:
    """The merge in mergekit's words."""
    traits = settings.traits
    shared: dict[str, Any] = {}
    each: list[dict[str, Any]] = [{} for _ in settings.models]
    first = settings.base
    if settings.method is Method.SLERP:
        first = settings.models[0]
        shared["t"] = settings.t
    else:
        shared["normalize"] = settings.normalized
        each = [{"weight": weight} for weight in settings.shares]
    if traits.base:
        shared["lambda"] = settings.scale
    if traits.density:
        each = [{**parameters, "density": settings.density} for parameters in each]
    if traits.epsilon:
        each = [{**parameters, "epsilon": settings.epsilon} for parameters in each]
    return {
        "merge_method": settings.method.value.replace("-", "_"),
        "models": [{"model": _reference(path), "parameters": own} for path, own in zip(settings.models, each, strict=True)],
        **({"base_model": _reference(first)} if first is not None else {}),
        "parameters": shared,
        "dtype": "float32",
        "out_dtype": dtype.value,
    }


def _reference(path: Path) -> dict[str, Any]:
    """As a table: in a plain string mergekit would read ``@`` as a revision and ``+`` as a LoRA."""
    return {"model": {"path": str(path.resolve())}}


@contextmanager
def _random_state_kept() -> Iterator[None]:
    plain, arrays = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(plain)
            np.random.set_state(arrays)


@contextmanager
def _calm() -> Iterator[None]:
    """Without the progress lines and warnings of libraries, which would tear through what the caller prints."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with quiet():
            yield
    finally:
        logging.disable(before)
