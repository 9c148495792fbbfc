"""The settings of supervised fine-tuning as a command runs it: model, data, and how many processes share the work.

Importable without torch. Paths are given on the command line more often than in a file; what trains is
:class:`~sanderling.train.config.SupervisedConfig`.
"""

from enum import StrEnum
from pathlib import Path

from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.train.config import SupervisedConfig, Title
from sanderling.train.encoding import Limit, Overlong


class DataConfig(Frozen):
    """What is trained on."""

    files: tuple[Path, ...] = ()
    """Files of trajectories, or files of rows (``.parquet``, made by ``sanderling data rows``)."""
    profile: str = ""
    """How messages become tokens, such as ``dr-venus-4b``. Rows have been made with one."""
    max_tokens: int = Field(default=0, ge=0)
    """A row's limit; 0: the profile's context."""
    overlong: Overlong = Overlong.DROP
    """What becomes of a branch beyond the limit."""

    def limit(self, context: int) -> Limit:
        """The limit of a row, where the profile's context has so many tokens."""
        return Limit(self.max_tokens or context, self.overlong)


class ParallelKind(StrEnum):
    """What several processes do."""

    NONE = "none"
    """There is one process only."""
    REPLICATE = "replicate"
    """Each holds the whole model and optimizer, and computes a share of every batch."""
    FSDP = "fsdp"
    """Each holds a shard of weights, gradients and optimizer (FSDP2), and computes a share of every batch."""


class ParallelConfig(Frozen):
    """How the model lies over processes. How many there are is said where they are started.

    One alone needs no parallelism; in bfloat16 with ``fsdp`` it is a mesh of one, whose hidden states are 16 bits wide.
    """

    kind: ParallelKind = ParallelKind.FSDP
    context: int = Field(default=1, ge=1)
    """How many processes, one after the other, share each row: each holds a part of its tokens."""


class SftConfig(SupervisedConfig):
    """Everything ``sanderling train sft`` does, resolved."""

    title: Title = "sft"
    """Of the run; its directory in runs/, where none is named."""
    model: Path | None = None
    """The Hugging Face directory that training starts from."""
    data: DataConfig = DataConfig()
    parallel: ParallelConfig = ParallelConfig()
    merge: bool = False
    """After LoRA: also write base and adapter as one plain model."""
