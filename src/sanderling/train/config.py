"""How training is set up, as data: importable without torch.

The settings of a step (:class:`TrainerConfig`), of how a model lies over processes, and of a supervised run as the command has
it (:class:`SftConfig`). Every class is frozen and refuses unknown keys.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from sanderling.core.config import Frozen
from sanderling.train.encoding import Limit, Overlong

LOGIT_CHUNK = 64_000_000
"""Of Qwen3's vocabulary 421 positions: 0.8 GB, which every card has. Large ones do better with 400 million."""
GRADIENT_BUCKET = 64 * 2**20
"""Bytes of gradients that are copied to be summed at a time, where every rank has all of them."""
Decay = Annotated[float, Field(ge=0, lt=1)]
"""Of a running mean: what is left of it at each step."""


class Packing(StrEnum):
    """How rows of different lengths share one forward pass. Both are exact: no row ever sees another."""

    VARLEN = "varlen"
    """Rows one behind the other without padding; attention runs row by row, everything else over all tokens at once."""
    PADDED = "padded"
    """Rows of similar length side by side, padded on the right, where causal attention never looks."""


class OptimizerKind(StrEnum):
    """Which rule turns gradients into updates."""

    ADAMW = "adamw"
    MUON = "muon"
    """Muon for the hidden matrices, AdamW for everything else: in pre-training it needs far fewer tokens."""


class Precision(StrEnum):
    """In what matrices are multiplied, the head included. Weights, optimizer and softmax are float32 either way."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    """Automatic mixed precision."""


class SaveDtype(StrEnum):
    """In what a model that was trained whole is written at the end. Checkpoints are float32: they go on bit for bit."""

    BASE = "base"
    """As the model that training began with is stored; released ones mostly in bfloat16."""
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class Schedule(StrEnum):
    """What the learning rate does after warm-up."""

    CONSTANT = "constant"
    LINEAR = "linear"
    COSINE = "cosine"


class Aggregation(StrEnum):
    """How per-token losses become one number, over the whole optimizer batch; but for the last, whatever its micro-batches."""

    TOKEN_MEAN = "token_mean"
    """Every trained token counts the same (times its row's weight)."""
    TRAJECTORY_MEAN = "trajectory_mean"
    """Every trajectory counts the same (times its row's weight), however long it is and however many rows it has."""
    MICRO_BATCH_MEAN = "micro_batch_mean"
    """The mean over micro-batches of each one's mean over its trained tokens, as DR-Venus' released trainer has it. This one
    depends on the cut: on ``micro_batch_tokens`` and the number of ranks. With one trajectory a micro-batch it is the mean over
    trajectories."""


class Recompute(StrEnum):
    """What of a layer's forward pass is computed again for its gradient instead of being kept."""

    NONE = "none"
    SELECTIVE = "selective"
    """Everything but attention, whose cost is quadratic and whose output is not."""
    FULL = "full"
    """Everything but the layer's input."""


class MemoryConfig(Frozen):
    """What is held in memory between a forward pass and its gradient. Nothing here changes a number."""

    recompute: Recompute = Recompute.NONE
    offload: bool = False
    """Whether what layers hand on waits in the host's memory (CUDA only); goes with ``recompute``."""
    mlp_tile: int | None = Field(default=None, ge=1)
    """Tokens that a layer's MLP takes at a time; None: all. Bounds what is alive. Its forward pass runs once more, as it does
    where the layer is recomputed; both together cost no more than one."""

    @model_validator(mode="after")
    def _offload_recomputed(self) -> Self:
        if self.offload and self.recompute is Recompute.NONE:
            raise ValueError("offload needs recompute to be selective or full")
        return self


def _is_a_name(title: str) -> str:
    if not title.strip() or title.startswith(".") or set("/\\") & set(title):
        raise ValueError("a title is also a directory's name in runs/: write one without slashes and without a dot before it")
    return title


Title = Annotated[str, AfterValidator(_is_a_name)]
"""Of a run."""


class TrainerConfig(Frozen):
    """One optimizer and how a step is executed."""

    optimizer: OptimizerKind = OptimizerKind.ADAMW
    lr: float = Field(default=1e-5, gt=0)
    """AdamW's."""
    muon_lr: float = Field(default=0.02, gt=0)
    """Muon's. Both follow the schedule."""
    betas: tuple[Decay, Decay] = (0.9, 0.95)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.01, ge=0)
    """Not applied to norms and biases (tensors of fewer than two dimensions)."""
    grad_clip: float = Field(default=1.0, gt=0)
    """Largest global gradient norm."""
    warmup_steps: int = Field(default=0, ge=0)
    warmup_share: float = Field(default=0.0, ge=0, lt=1)
    """Warm-up as a share of ``total_steps``, in place of ``warmup_steps``."""
    total_steps: int | None = Field(default=None, ge=1)
    """Where a linear or cosine schedule ends; the supervised runs fill it in themselves."""
    schedule: Schedule = Schedule.CONSTANT
    final_lr_share: float = Field(default=0.0, ge=0, le=1)
    """The share of ``lr`` at which a linear or cosine schedule ends."""
    micro_batch_tokens: int = Field(default=2048, ge=1)
    """Most tokens in one forward pass, padding included; a single longer row is still run, alone."""
    packing: Packing = Packing.VARLEN
    precision: Precision = Precision.FLOAT32
    aggregation: Aggregation = Aggregation.TOKEN_MEAN
    temperature: float = Field(default=1.0, gt=0)
    """Logits are divided by it before log-probabilities are taken: the temperature the rollouts were sampled at."""
    entropy: bool = False
    """Whether the policy's entropy at trained positions is measured (never trained)."""
    memory: MemoryConfig = MemoryConfig()
    logit_chunk: int = Field(default=LOGIT_CHUNK, ge=1)
    """Most logits (positions times vocabulary) that exist at once, at 12 bytes each. Each chunk reads the head's weight and,
    where that is trained, adds to its gradient: few positions at a time leave a large device waiting for its memory."""

    @model_validator(mode="after")
    def _one_warmup(self) -> Self:
        if self.warmup_steps and self.warmup_share:
            raise ValueError("warmup_steps and warmup_share are both set: set one of them to 0")
        return self


class LoraConfig(Frozen):
    """Low-rank adapters beside frozen weights (Hu et al., 2021), made by peft. Without dropout, so that runs repeat."""

    rank: int = Field(default=0, ge=0)
    """Columns of each adapter; 0: no adapters, all weights are trained."""
    alpha: float = Field(default=32.0, gt=0)
    """What adapters add is scaled by ``alpha / rank``."""
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    """Ends of the names of the linear layers that get an adapter."""


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


class SupervisedConfig(Frozen):
    """A supervised run: rows epoch after epoch."""

    trainer: TrainerConfig = TrainerConfig()
    epochs: int = Field(default=1, ge=1)
    batch_tokens: int = Field(default=32_768, ge=1)
    """Tokens of an optimizer batch: it is closed by the trajectory that reaches this many."""
    batch_trajectories: int = Field(default=0, ge=0)
    """Trajectories of an optimizer batch, in place of ``batch_tokens``; 0: tokens count."""
    shuffle: bool = True
    """Whether each epoch has an order of its own, from the seed; otherwise trajectories come as they are given."""
    max_steps: int | None = Field(default=None, ge=1)
    """Stop after this many optimizer steps."""
    save_every: int = Field(default=100, ge=1)
    """Steps between checkpoints."""
    keep: int = Field(default=1, ge=1)
    """Checkpoints that stay."""
    save_dtype: SaveDtype = SaveDtype.BASE
    """Of the model at the end, trained whole or merged."""
    seed: int = Field(default=0, ge=0)
    lora: LoraConfig = LoraConfig()
    watch: tuple[str, ...] = ()
    """Where the run can be watched beside metrics.jsonl: ``tensorboard``, ``trackio``, ``wandb``."""


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
