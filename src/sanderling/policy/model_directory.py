"""A causal language model's local Hugging Face directory: what its files tell, and the one loader, for sampling and training.

Never from a hub, never with code that came with the weights, and never with random numbers in place of weights that are not
there. Importable without torch.
"""

import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanderling.core.errors import UserError

if TYPE_CHECKING:
    import torch

TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "vocab.json", "merges.txt",
    "added_tokens.json",
)  # fmt: skip
"""What belongs to a tokenizer in a model's directory, as far as it is there."""


def check_model(path: Path) -> None:
    """Raises UserError, one sentence, for what is no model, or one whose download was not finished."""
    if not path.is_dir():
        raise UserError(f"There is no model directory at {path}: give a local Hugging Face directory.")
    if not (path / "config.json").is_file():
        if (path / "adapter_config.json").is_file():
            raise UserError(f"{path} is an adapter and no model: give the model that it was trained on, or merge the two.")
        raise UserError(f"{path} has no config.json: give the directory that holds the model's config and weights.")
    index = path / "model.safetensors.index.json"
    listed = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()) if index.exists() else set()
    if missing := [name for name in listed if not (path / name).is_file()]:
        raise UserError(f"The weights in {path} lack the file {some_of(missing)}: finish the download.")
    if not any(path.glob("*.safetensors")) and not any(path.glob("*.bin")):
        raise UserError(f"{path} has no weights (*.safetensors): finish the download or the training that should write them.")


def read_model_config(path: Path) -> dict[str, Any]:
    """What ``config.json`` tells of the language model in a directory. Raises UserError where it cannot be read."""
    try:
        told = json.loads((path / "config.json").read_text(encoding="utf-8"))
        return told.get("text_config", told)
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{path} has no readable config.json: name the directory of a model.") from error


def check_vocabulary(tokens: int, rows: Any) -> None:
    """Raises UserError where ids of a tokenizer of so many ``tokens`` have no row in the model's embedding of so many."""
    if isinstance(rows, int) and tokens > rows:
        raise UserError(f"The tokenizer has {tokens} tokens, and the model knows {rows}: use the model's own tokenizer.json.")


def positions_of(config: dict[str, Any]) -> int | None:
    """How long a text may be, stretched positions included; None where the configuration does not tell."""
    most = config.get("max_position_embeddings")
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    original, factor = scaling.get("original_max_position_embeddings"), scaling.get("factor")
    # Elsewhere (llama3, longrope) the limit that is told counts the stretch already.
    yarn = scaling.get("rope_type", scaling.get("type")) == "yarn"
    if yarn and isinstance(original, int) and isinstance(factor, int | float):
        most = max(most or 0, int(original * factor))
    return most if isinstance(most, int) else None


def load_model(path: Path, dtype: "torch.dtype | None" = None) -> Any:
    """The model in ``path``, on the CPU, in float32 where no ``dtype`` is named. Warns of unused weights; raises UserError."""
    import torch
    import transformers

    check_model(path)
    how: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False, "dtype": dtype or torch.float32}
    try:
        with quiet():
            loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(path, output_loading_info=True, **how)
    except Exception as error:  # transformers raises many kinds; all of them mean that this directory cannot be loaded
        raise UserError(f"The model in {path} cannot be loaded ({_first_line(error)}): check its files.") from error
    model, found = loaded
    if found["missing_keys"]:
        lacking = some_of(found["missing_keys"])
        raise UserError(f"The weights in {path} lack {lacking}: finish the download, or copy the directory again.")
    if found["unexpected_keys"]:
        warnings.warn(f"{path} holds weights that the model does not use: {some_of(found['unexpected_keys'])}", stacklevel=2)
    return model


def load_empty(path: Path, dtype: "torch.dtype | None" = None) -> Any:
    """The modules of the model that ``config.json`` describes, on the meta device: sizes and no weights. Raises UserError."""
    import torch
    import transformers

    try:
        with quiet(), torch.device("meta"):
            config = transformers.AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
            return transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False, dtype=dtype or torch.float32)
    except Exception as error:  # as above
        raise UserError(f"The model in {path} cannot be made ({_first_line(error)}): check its config.json.") from error


def stored_dtype(path: Path) -> "torch.dtype":
    """What the weights in ``path`` are in by their ``config.json``; float32 where that does not tell."""
    import torch
    import transformers

    found = transformers.AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False).dtype
    return found if isinstance(found, torch.dtype) else torch.float32


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' bars and reports, which would tear through what the caller prints."""
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def some_of(names: Iterable[str]) -> str:
    """The first of some names, and how many more there are."""
    first, *others = sorted(names)
    return f"{first} and {len(others)} more" if others else first
