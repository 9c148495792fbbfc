"""The tiny recipe's base model: language modelling on generated worlds, and nothing else.

    python experiments/tiny_base.py --out runs/base

Run ahead, once; its result is shipped. Compiles the model's layers, which needs a C++ compiler. Step n's texts come from world
n alone, so a run resumes at any step without a cursor.
"""

import random
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field
from rich.console import Console

from sanderling.core.chat import Tokenizer, load_tokenizer
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.profiles import TINY
from sanderling.core.types import Role
from sanderling.recipes.tiny_text import FIRST_WORLD, fact_sheet, page_text, text_rows
from sanderling.runs.files import locked
from sanderling.runs.progress import Report
from sanderling.runs.stages import after_interrupt
from sanderling.synth.chains import THOUGHTS, chain_questions
from sanderling.train.config import OptimizerKind, Precision, Schedule, TrainerConfig
from sanderling.train.random_model import ModelShape, train_tokenizer, write_random_model
from sanderling.train.rows import Row
from sanderling.world.encyclopedia import (
    SYLLABLE_LETTERS,
    SYLLABLES,
    Site,
    generate_encyclopedia,
)

PHRASES = (
    *(site.value for site in Site),
    "\n</think>\n<tool_call>\n",
    "\n</think>\n<answer>",
    '{"name": "search", "arguments": {"query": ["',
    '{"name": "visit", "arguments": {"url": ["',
    '"], "goal": "',
    '"]}}\n</tool_call>',
    '"}}\n</tool_call>',
)
"""Protocol boilerplate that the tiny tokenizer spells in one token."""
FRAME = (TINY.system_prompt, TINY.force_hint, f"{Role.SYSTEM}\n", f"{Role.USER}\n", f"{Role.ASSISTANT}\n", "a town …\n")
"""What else stands around the words of a task: the tokenizer is to know it."""


class Stretch(Frozen):
    """A part of the run, with so many rows of one length in a step."""

    steps: int = Field(ge=1)
    row_tokens: int = Field(ge=32)
    rows: int = Field(ge=1)


class BaseConfig(Frozen):
    """How the base model is made."""

    shape: ModelShape = ModelShape(
        hidden=128, layers=5, heads=4, kv_heads=2, head_dim=64, intermediate=384, rope_theta=1_000_000.0
    )
    """Heads of 64 and a slow RoPE: what matches a token hundreds of positions back are dimensions that hardly turn."""
    vocab_size: int = Field(default=2_600, ge=400)
    tokenizer_worlds: int = Field(default=100, ge=1)
    world_size: int = Field(default=48, ge=40)
    """Entities of the world that a step reads."""
    stretches: tuple[Stretch, ...] = (
        Stretch(steps=1_600, row_tokens=192, rows=6),
        Stretch(steps=6_400, row_tokens=448, rows=3),
        Stretch(steps=4_000, row_tokens=896, rows=2),
    )
    """Short rows in small batches first: copying sets in after 1M tokens, and not after 3M or more as with longer rows."""
    save_every: int = Field(default=500, ge=1)
    compile: bool = True
    """Compile the model's layers first: about a quarter faster, for a minute or two at the start; needs a C++ compiler."""
    seed: int = 0
    trainer: TrainerConfig = TrainerConfig(
        optimizer=OptimizerKind.MUON,
        lr=4e-3,
        muon_lr=0.02,
        betas=(0.9, 0.95),
        weight_decay=0.05,
        warmup_steps=100,
        schedule=Schedule.COSINE,
        final_lr_share=0.02,
        micro_batch_tokens=2_304,
        precision=Precision.BFLOAT16,
    )

    @property
    def steps(self) -> int:
        return sum(stretch.steps for stretch in self.stretches)

    def stretch_at(self, step: int) -> Stretch:
        """The stretch that a step, counted from 0, belongs to."""
        for stretch in self.stretches:
            if step < stretch.steps:
                return stretch
            step -= stretch.steps
        return self.stretches[-1]


def base_tokenizer_texts(config: BaseConfig) -> Iterator[str]:
    """What the tokenizer (not the model) is trained on: pages of training worlds, and the words of tasks over them."""
    for index in range(config.tokenizer_worlds):
        rng = random.Random(f"tokenizer:{config.seed}:{index}")
        world = generate_encyclopedia(400, FIRST_WORLD + config.seed + index)
        yield from (spelled(text) for item in world.pages for text in (page_text(item, rng), fact_sheet(world, item, rng)))
        yield from (spelled(question.text) for question in chain_questions(world, 100, index, {1: 1.0, 2: 1.0}))
        yield from (*THOUGHTS, *FRAME) * 4


def spelled(text: str) -> str:
    """A text whose invented names fall apart into syllables, so that no token learnt from it straddles two of them."""

    def fall_apart(match: re.Match[str]) -> str:
        word = match.group()
        parts = [word[start : start + SYLLABLE_LETTERS] for start in range(0, len(word), SYLLABLE_LETTERS)]
        return "|".join(parts) if all(part.lower() in SYLLABLES for part in parts) else word

    return re.sub(r"[A-Z][a-z]+", fall_apart, text)


def base_rows(config: BaseConfig, tokenizer: Tokenizer, step: int) -> list[Row]:
    """The rows of one optimizer step."""
    stretch = config.stretch_at(step)
    return text_rows(tokenizer, FIRST_WORLD + config.seed + step, config.world_size, stretch.rows, stretch.row_tokens)


def write_untrained(config: BaseConfig, directory: Path) -> None:
    """The tokenizer and the random weights that the run starts from."""
    tokenizer = train_tokenizer(base_tokenizer_texts(config), config.vocab_size, PHRASES)
    write_random_model(directory, tokenizer, config.shape, config.seed)


def train_base(config: BaseConfig, out: Path, on_step: Callable[[int, dict[str, float]], None]) -> Path:
    """Train the base model; returns its directory, ``out/model``. Imports torch.

    Killed and called again, it continues from its last checkpoint; once finished, it does nothing.
    """
    from sanderling.train.checkpoint import checkpoints, load_model, load_state, save_checkpoint, save_model
    from sanderling.train.metrics import MetricsLog
    from sanderling.train.rows import sft
    from sanderling.train.trainer import Trainer

    final, start = out / "model", out / "untrained"
    if (final / "config.json").is_file():
        return final
    if not (start / "config.json").is_file():
        write_untrained(config, start)
    last = next(reversed(checkpoints(out)), None)
    model = load_model(last or start)
    trainer = Trainer(model, config.trainer.model_copy(update={"total_steps": config.steps}))
    if last is not None:
        trainer.load_state(load_state(last))
    if config.compile:
        model.base_model.compile(dynamic=False)  # there are a few shapes of batches, one after the other
    tokenizer = load_tokenizer(start)
    log = MetricsLog(out / "metrics.jsonl", resume_step=trainer.steps)
    while trainer.steps < config.steps:
        metrics = trainer.step(base_rows(config, tokenizer, trainer.steps), sft)
        log.append({"step": trainer.steps, **metrics})
        on_step(trainer.steps, metrics)
        if trainer.steps % config.save_every == 0:
            save_checkpoint(out, trainer.steps, model, trainer.state(), start, keep=1)
    save_model(model, final, start)
    return final


def main(out: Annotated[Path, typer.Option(help="Directory of the run; the model is in its model/.")]) -> None:
    """Train the tiny recipe's base model on generated worlds, with the settings of the shipped one."""
    config, report = BaseConfig(), Report(Console())
    with after_interrupt(), locked(out), report.task("Base model", config.steps) as advance:
        seen = 0

        def on_step(step: int, metrics: dict[str, float]) -> None:
            nonlocal seen
            advance(step - seen, f"loss {metrics['loss']:.3f}")
            seen = step

        directory = train_base(config, out, on_step)
    report.say(f"The base model is in {directory}.")


if __name__ == "__main__":
    try:
        typer.run(main)
    except UserError as error:
        sys.exit(f"error: {error}")
