"""A causal language model from a local Hugging Face directory: the one loader, for sampling and for training alike.

Never from a hub, never with code that came with the weights, and never with random numbers in place of weights that are not
there. Knows no policy and no training.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.utils import logging

from sanderling.core.errors import UserError
from sanderling.policy.model_files import check_model


def load_model(path: Path, dtype: torch.dtype = torch.float32) -> Any:
    """The model in ``path``, on the CPU. Raises UserError saying what is missing; warns of weights that it does not use."""
    check_model(path)
    try:
        with quiet():
            loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
                path, local_files_only=True, trust_remote_code=False, dtype=dtype, output_loading_info=True
            )
    except Exception as error:  # transformers raises many kinds; all of them mean that this directory cannot be loaded
        told = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"The model in {path} cannot be loaded ({told}): check its files.") from error
    model, found = loaded
    lacking = sorted(found["missing_keys"])
    if lacking:
        raise UserError(f"The weights in {path} lack {_some(lacking)}: finish the download, or copy the directory again.")
    if found["unexpected_keys"]:
        warnings.warn(f"{path} holds weights that the model does not use: {_some(found['unexpected_keys'])}", stacklevel=2)
    return model


def load_empty(path: Path, dtype: torch.dtype = torch.float32) -> Any:
    """The modules of the model in ``path``, as :func:`load_model` has them, on the meta device: sizes and no weights.

    Only ``config.json`` is read. Raises UserError when it is no model's.
    """
    try:
        with quiet(), torch.device("meta"):
            config = transformers.AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
            return transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False, dtype=dtype)
    except Exception as error:  # as above
        told = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"The model in {path} cannot be made ({told}): check its config.json.") from error


def stored_dtype(path: Path) -> torch.dtype:
    """What the weights in ``path`` are in by their ``config.json``; float32 where that does not tell."""
    found = transformers.AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False).dtype
    return found if isinstance(found, torch.dtype) else torch.float32


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' bars and reports, which would tear through what the caller prints."""
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


def _some(names: Any) -> str:
    first, *others = sorted(names)
    return f"{first} and {len(others)} more" if others else first
