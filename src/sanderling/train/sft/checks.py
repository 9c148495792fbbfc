"""What can be known to go wrong before the first step: rows that the model cannot read, a checkpoint of another model.

Each is one sentence. Reads configurations only, so it takes no time and no torch.
"""

from pathlib import Path

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.policy.model_directory import check_model, positions_of, read_model_config
from sanderling.train.config import Packing
from sanderling.train.row_source import Survey
from sanderling.train.sft.settings import SftConfig
from sanderling.train.shape import read_shape

_SHAPE = (
    "model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "intermediate_size", "vocab_size", "tie_word_embeddings",
)  # fmt: skip
"""What makes one architecture another."""


def check_rows(survey: Survey, model_dir: Path) -> None:
    """Raises UserError when the model in a directory is not whole, or rows cannot be trained on with it."""
    if not survey.rows:
        raise UserError("There are no rows to train on: check the data and the length limit that rows were made with.")
    if not survey.trained_tokens:
        raise UserError(f"None of the {survey.rows:,} rows has a token to train: check the loss masks of the trajectories.")
    check_model(model_dir)
    config = read_model_config(model_dir)
    if survey.tokenizer is not None:
        own = load_tokenizer(model_dir).fingerprint
        if own != survey.tokenizer:
            raise UserError(
                f"The rows are ids of tokenizer {survey.tokenizer}, the model's is {own}: make the rows again from the "
                "trajectories with the model's tokenizer."
            )
    vocabulary = config.get("vocab_size")
    if isinstance(vocabulary, int) and survey.largest_id >= vocabulary:
        raise UserError(
            f"The rows hold token {survey.largest_id:,}, and the model's vocabulary ends at {vocabulary - 1:,}: "
            "make the rows again with the model's tokenizer."
        )
    positions = positions_of(config)
    if positions is not None and survey.longest > positions:
        raise UserError(
            f"Row {survey.longest_row or 'of no name'} has {survey.longest:,} tokens, the model has {positions:,} positions: "
            f"set data.max_tokens={positions} (data.overlong says what becomes of longer ones), or choose another model."
        )


def check_context(config: SftConfig, model_dir: Path) -> None:
    """Raises UserError when processes are to share rows (``parallel.context``) that they cannot share."""
    ranks = config.parallel.context
    if ranks == 1:
        return
    if config.trainer.packing is not Packing.VARLEN:
        raise UserError("Only packed rows are shared by processes: set trainer.packing=varlen, or parallel.context=1.")
    shape = read_shape(model_dir)
    if not shape.shared_by(ranks):
        fitting = [n for n in range(1, shape.heads + 1) if shape.shared_by(n)]
        raise UserError(
            f"{ranks} processes cannot share the model's {shape.heads} heads ({shape.kv_heads} of keys): "
            f"set parallel.context to one of {', '.join(map(str, fitting))}."
        )


def check_same_architecture(checkpoint: Path, model_dir: Path) -> None:
    """Raises UserError when a checkpoint is of another architecture than the model that training began with."""
    ours, theirs = read_model_config(checkpoint), read_model_config(model_dir)
    for key in _SHAPE:
        if key in ours and key in theirs and ours[key] != theirs[key]:
            raise UserError(
                f"The checkpoint {checkpoint} is of another architecture ({key} {ours[key]}; {model_dir} has {theirs[key]}): "
                "give the model that the run began with, or choose another --out."
            )
