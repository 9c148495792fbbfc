"""How training is set up, as data: importable without torch.

The settings of a step (:class:`TrainerConfig`), of how a model lies over processes, and of a supervised run as the command has
it (:class:`SftConfig`). Every class is frozen and refuses unknown keys.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from sanderling.core.config import Frozen
from sanderling.train.rows import Overlong

LOGIT_CHUNK = 64_000_000
"""Of Qwen3's vocabulary 421 positions: 0.8 GB, which every card has. Large ones do better with 400 million."""


class OptimizerKind(StrEnum):
    """AdamW, or Muon for the hidden matrices and AdamW for everything else, which needs fewer tokens in pre-training."""

    ADAMW = "adamw"
    MUON = "muon"


class Precision(StrEnum):
    """In what matrices are multiplied, the head included. Weights, optimizer and softmax are float32 either way."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class Schedule(StrEnum):
    """What the learning rate does after warm-up."""

    CONSTANT = "constant"
    COSINE = "cosine"


class Aggregation(StrEnum):
    """How per-token losses become one number, over the whole optimizer batch; but for the last, whatever its micro-batches."""

    TOKEN_MEAN = "token_mean"
    TRAJECTORY_MEAN = "trajectory_mean"
    MICRO_BATCH_MEAN = "micro_batch_mean"
    """Every micro-batch counts the same, as in DR-Venus' released trainer: depends on ``micro_batch_tokens`` and on ranks."""


class Recompute(StrEnum):
    """Whether a layer keeps its input only, and runs again when its gradient is computed."""

    NONE = "none"
    FULL = "full"


class MemoryConfig(Frozen):
    """What is held in memory between a forward pass and its gradient. Nothing here changes a number."""

    recompute: Recompute = Recompute.NONE  # whether layers keep only their input and run again for the gradient
    offload: bool = False  # keep what layers hand on in the host's memory (CUDA)
    mlp_tile: int | None = Field(default=None, ge=1)
    """Tokens that a layer's MLP takes at a time; unset: all. Costs what recomputation does; both together no more than one."""

    @model_validator(mode="after")
    def _offload_recomputed(self) -> Self:
        if self.offload and self.recompute is Recompute.NONE:
            raise ValueError("offload needs recompute to be full")
        return self


def _is_a_name(title: str) -> str:
    if not title.strip() or title.startswith(".") or set("/\\") & set(title):
        raise ValueError("a title is also a directory's name in runs/: write one without slashes and without a dot before it")
    return title


Title = Annotated[str, AfterValidator(_is_a_name)]


class TrainerConfig(Frozen):
    """One optimizer and how a step is executed."""

    optimizer: OptimizerKind = OptimizerKind.ADAMW  # AdamW, or Muon for the hidden matrices and AdamW for the rest
    lr: float = Field(default=1e-5, gt=0)  # AdamW's learning rate
    muon_lr: float = Field(default=0.02, gt=0)
    """Muon's learning rate. Both follow the schedule."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)  # AdamW's
    eps: float = Field(default=1e-8, gt=0)  # AdamW's
    weight_decay: float = Field(default=0.01, ge=0)
    """Not applied to norms and biases."""
    grad_clip: float = Field(default=1.0, gt=0)  # largest norm of the gradient
    warmup_steps: int = Field(default=0, ge=0)  # steps of linear warm-up
    warmup_share: float = Field(default=0.0, ge=0, lt=1)  # warm-up as a share of all steps, in place of warmup_steps
    warmup_from_zero: bool = False  # the first step has a rate of 0, as in Hugging Face's schedules
    total_steps: int | None = Field(default=None, ge=1)  # steps that the schedule is laid out for; by default the run's
    schedule: Schedule = Schedule.CONSTANT  # course of the learning rate after warm-up
    final_lr_share: float = Field(default=0.0, ge=0, le=1)
    """The share of ``lr`` at which a cosine schedule ends."""
    micro_batch_tokens: int = Field(default=2048, ge=1)
    """Most tokens in one forward pass; a longer row is run alone."""
    precision: Precision = Precision.FLOAT32  # precision of matrix products; weights and optimizer are float32
    aggregation: Aggregation = Aggregation.TOKEN_MEAN  # how losses of tokens become one number
    temperature: float = Field(default=1.0, gt=0)
    """Logits are divided by it before log-probabilities are taken: the temperature the rollouts were sampled at."""
    entropy: bool = False  # measure the policy's entropy
    memory: MemoryConfig = MemoryConfig()
    logit_chunk: int = Field(default=LOGIT_CHUNK, ge=1)
    """Most logits (positions × vocabulary) at once, at 12 bytes each; large GPUs do better with 400 million."""

    @model_validator(mode="after")
    def _one_warmup(self) -> Self:
        if self.warmup_steps and self.warmup_share:
            raise ValueError("warmup_steps and warmup_share are both set: set one of them to 0")
        return self


class LoraConfig(Frozen):
    """Low-rank adapters beside all linear layers, by peft; rank 0: none. Without dropout, so that runs repeat."""

    rank: int = Field(default=0, ge=0)  # rank of the adapters on all linear layers; 0: train all weights
    alpha: float = Field(default=32.0, gt=0)  # what an adapter adds is multiplied by alpha / rank


class ParallelKind(StrEnum):
    """What several processes do."""

    NONE = "none"
    REPLICATE = "replicate"
    FSDP = "fsdp"


class ParallelConfig(Frozen):
    """How the model lies over processes; one alone in bfloat16 with ``fsdp`` is a mesh of one, hidden states 16 bits wide."""

    kind: ParallelKind = ParallelKind.FSDP  # what several processes hold: one process only, copies, or shards (FSDP2)
    context: int = Field(default=1, ge=1)
    """Processes that share each row (context parallelism)."""


class SupervisedConfig(Frozen):
    """A supervised run: rows epoch after epoch."""

    trainer: TrainerConfig = TrainerConfig()
    epochs: int = Field(default=1, ge=1)  # passes over the data
    batch_tokens: int = Field(default=32_768, ge=1)
    """Tokens of an optimizer batch, closed by the trajectory that reaches this many."""
    batch_trajectories: int = Field(default=0, ge=0)
    """Trajectories of an optimizer batch, in place of ``batch_tokens``; 0: tokens."""
    shuffle: bool = True  # draw a new order for each epoch
    max_steps: int | None = Field(default=None, ge=1)  # stop earlier
    save_every: int = Field(default=100, ge=1)  # steps between checkpoints
    keep: int = Field(default=1, ge=1)  # checkpoints that stay
    seed: int = Field(default=0, ge=0)  # random seed of the order and of new adapters
    lora: LoraConfig = LoraConfig()


class DataConfig(Frozen):
    """What is trained on; a limit of 0 tokens is the profile's context."""

    files: tuple[Path, ...] = ()
    """Trajectories, or rows made by ``sanderling data rows`` (``.parquet``)."""
    profile: str = ""  # how messages become tokens
    max_tokens: int = Field(default=0, ge=0)  # longest row; 0: the profile's context
    overlong: Overlong = Overlong.DROP  # drop longer trajectories, or split them at turns
    train_newline: bool = False  # also train the newline after a turn's <|im_end|>; files of rows keep their mask


class SftConfig(SupervisedConfig):
    """Everything ``sanderling train sft`` does, resolved."""

    title: Title = "sft"  # names the run; its directory is runs/TITLE by default
    model: Path | None = None  # the Hugging Face directory to start from
    data: DataConfig = DataConfig()
    parallel: ParallelConfig = ParallelConfig()
    merge: bool = False
    """After LoRA: also write base and adapter as one model."""
    watch: tuple[str, ...] = ()
    """Where to log besides metrics.jsonl: ``tensorboard``, ``trackio``, ``wandb``."""
