"""One case of `train_step.py`, in a process of its own so that its peak memory is its own: JSON in, one line of JSON out.

A case is a model, rows of given lengths and a way to train on them: ours with some settings, or TRL's SFTTrainer.
"""

import json
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from sanderling.train.config import TrainerConfig
from sanderling.train.fit import read_shape
from sanderling.train.rows import Row, sft
from sanderling.train.trainer import Trainer

TRAINED = 4
"""One token in so many is trained unless a case says otherwise, in stretches, as an agent's turns are."""


def model_in(directory: Path, shape: dict[str, int]) -> Qwen3ForCausalLM:
    """The same random weights in every case."""
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(**shape, tie_word_embeddings=True, eos_token_id=None, bos_token_id=None, pad_token_id=0)
    )
    if not (directory / "config.json").exists():
        model.save_pretrained(directory)
    return model


def rows_of(lengths: list[int], vocabulary: int, pad_to: int | None = None, trained: int = TRAINED) -> list[Row]:
    """Random ids; ``pad_to`` fills each up with tokens that are not trained, which is what padding computes."""
    rng = np.random.default_rng(0)
    rows = []
    for name, length in enumerate(lengths):
        ids, mask = rng.integers(1, vocabulary, length), np.arange(length) % 64 >= 64 - 64 // trained
        mask[0], mask[-1] = False, True
        if pad_to is not None:
            more = pad_to - length
            ids, mask = np.pad(ids, (0, more)), np.pad(mask, (0, more))
        rows.append(Row(ids=ids, loss_mask=mask, trajectory=f"t{name}"))
    return rows


def memory(device: str) -> int:
    """Most bytes so far: of the device, or of the process."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def ours(case: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Optimizer steps of this project's trainer over all rows."""
    device = case["device"]
    model = model_in(directory, case["shape"]).to(device)
    # What MFU is a share of: a GPU's published peak is that of 16 bits.
    precision = "bfloat16" if device == "cuda" else "float32"
    trainer = Trainer(model, TrainerConfig.model_validate({"precision": precision, **case["trainer"]}))
    rows = rows_of(case["lengths"], case["shape"]["vocab_size"], case.get("pad_to"), case.get("trained", TRAINED))
    before, seconds, losses = memory(device), [], []
    for _ in range(case["steps"] + 1):
        began = time.perf_counter()
        losses.append(trainer.step(rows, sft)["loss"])
        seconds.append(time.perf_counter() - began)
    return {"seconds": statistics.median(seconds[1:]), "bytes": memory(device) - before, "losses": losses}


def trl(case: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The same rows through TRL's SFTTrainer, packed."""
    from datasets import Dataset
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, TrainerCallback
    from trl import SFTConfig, SFTTrainer

    model = model_in(directory, case["shape"])
    rows = rows_of(case["lengths"], case["shape"]["vocab_size"])
    steps, settings = case["steps"] + 1, case["trainer"]
    total = sum(case["lengths"])
    columns = {"input_ids": [r.ids.tolist() for r in rows], "completion_mask": [r.loss_mask.astype(int).tolist() for r in rows]}
    seconds: list[float] = []

    class Clock(TrainerCallback):
        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            seconds.append(-time.perf_counter())

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            seconds[-1] += time.perf_counter()

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1}, unk_token="<pad>")),
        pad_token="<pad>",
        eos_token="<eos>",
    )
    config = SFTConfig(
        output_dir=str(directory / "trl"), max_steps=steps, per_device_train_batch_size=1,
        max_length=settings["micro_batch_tokens"], packing=True, learning_rate=settings["lr"],
        weight_decay=settings["weight_decay"], adam_beta2=0.95, max_grad_norm=1.0, lr_scheduler_type="constant",
        warmup_steps=0, bf16=case["device"] == "cuda", use_cpu=case["device"] == "cpu", seed=0, logging_steps=1, report_to=[],
        gradient_checkpointing=settings.get("memory", {}).get("recompute") == "full", save_strategy="no", disable_tqdm=True,
        dataloader_pin_memory=False, completion_only_loss=True, **case.get("trl", {}),
    )  # fmt: skip

    def built() -> SFTTrainer:
        return SFTTrainer(
            model, args=config, train_dataset=Dataset.from_dict(columns), processing_class=tokenizer, callbacks=[Clock()]
        )

    # A step is all rows: as many lines as its packing makes of them.
    config.gradient_accumulation_steps = len(built().train_dataset)
    trainer = built()
    before = memory(case["device"])
    trainer.train()
    lines = [line for line in trainer.state.log_history if "loss" in line]
    if lines[-1]["num_tokens"] != steps * total:
        raise RuntimeError(f"TRL saw {lines[-1]['num_tokens']} tokens of {steps * total}")
    losses = [line["loss"] for line in lines]
    return {"seconds": statistics.median(seconds[1:]), "bytes": memory(case["device"]) - before, "losses": losses}


def main() -> None:
    """Run the case on standard input."""
    case = json.load(sys.stdin)
    torch.set_num_threads(case["threads"])
    directory = Path(case["directory"])
    directory.mkdir(parents=True, exist_ok=True)
    found = {"ours": ours, "trl": trl}[case["kind"]](case, directory)
    shape, lengths = read_shape(directory), case["lengths"]
    trained = case.get("trained", TRAINED)
    found["flops"] = sum(shape.flops(length, length, length // trained) for length in lengths)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
