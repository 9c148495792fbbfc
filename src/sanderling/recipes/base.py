"""The tiny recipe's base model: language modelling on generated worlds, and nothing else.

Run ahead, once, by ``sanderling recipe base``; its result is shipped. The texts are pages of training worlds: walks along links
in which each entity is described several times in other words (so that reading a fact back, and copying a name never seen
before, is what lowers the loss), and lists of titles, addresses and leads. No question, no tool call, no trajectory. Step n's
texts come from world n alone, so a run resumes at any step without a cursor.
"""

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sanderling.protocol.tokens import FastTokenizer, load_tokenizer
from sanderling.synth.questions import chain_questions
from sanderling.synth.teacher import THOUGHTS
from sanderling.train.bootstrap import END_OF_TEXT, ModelShape, train_tokenizer, write_random_model
from sanderling.train.config import Packing, Schedule, TrainerConfig
from sanderling.train.contract import Row
from sanderling.world.encyclopedia import Encyclopedia, EncyclopediaPage, Site, generate_encyclopedia, render_pages
from sanderling.world.encyclopedia.names import SYLLABLE_LETTERS, SYLLABLES

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
FIRST_WORLD = 1_000_000
"""Seed of the first training world; the recipe's worlds have seeds below it."""


class BaseConfig(BaseModel):
    """How the base model is made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    shape: ModelShape = ModelShape(hidden=128, layers=5, heads=4, kv_heads=2, head_dim=32, intermediate=384)
    vocab_size: int = Field(default=2000, ge=400)
    tokenizer_worlds: int = Field(default=100, ge=1)
    world_size: int = Field(default=80, ge=40)
    """Entities of the world that a step reads."""
    document_tokens: int = Field(default=768, ge=32)
    short_tokens: int = Field(default=256, ge=32)
    """Length of a row in the first ``short_share`` of the run: copying over short distances is learnt first."""
    short_share: float = Field(default=0.4, ge=0, le=1)
    batch_tokens: int = Field(default=2_304, ge=32)
    """Small: batches four times as large needed almost four times as many tokens to the same loss."""
    steps: int = Field(default=6_500, ge=1)
    save_every: int = Field(default=500, ge=1)
    compile: bool = True
    """Compile the model's layers first: about a quarter faster, for a minute or two at the start; needs a C++ compiler."""
    seed: int = 0
    trainer: TrainerConfig = TrainerConfig(
        lr=2e-3,
        betas=(0.9, 0.95),
        weight_decay=0.05,
        warmup_steps=100,
        total_steps=6_500,
        schedule=Schedule.COSINE,
        final_lr_share=0.05,
        micro_batch_tokens=2_304,
        packing=Packing.PADDED,
    )


def page_text(item: EncyclopediaPage, rng: random.Random) -> str:
    """A page as running text, address and title in either order."""
    head = [item.page.url, item.page.title]
    rng.shuffle(head)
    return "\n".join([*head, item.page.text])


def documents(world: Encyclopedia, rng: random.Random) -> Iterator[str]:
    """Endless texts about a world: walks with retellings, and now and then a list of pages."""
    tellings = [world.pages, *(tuple(render_pages(world.facts, world.seed + extra)) for extra in (1, 2))]
    about: dict[int, list[EncyclopediaPage]] = {}
    for pages in tellings:
        for item in pages:
            about.setdefault(item.entity, []).append(item)
    while True:
        chosen = _walk(world, about, rng)
        if rng.random() < 0.15:
            leads = [item.page.text.split(". ")[0] + "." for item in chosen]
            lines = [f"{item.page.title}\n{item.page.url}\n{lead}" for item, lead in zip(chosen, leads, strict=True)]
            yield "\n".join(lines + [page_text(item, rng) for item in chosen[:2]])
        else:
            yield "\n\n".join(page_text(item, rng) for item in chosen)


def _walk(world: Encyclopedia, about: dict[int, list[EncyclopediaPage]], rng: random.Random) -> list[EncyclopediaPage]:
    """Pages along links, each entity told two or three times, in an order that keeps retellings near but not adjacent."""
    at = rng.choice(world.facts.entities).id
    chosen: list[EncyclopediaPage] = []
    for _ in range(rng.randrange(3, 5)):
        chosen += rng.sample(about[at], k=min(len(about[at]), rng.randrange(2, 4)))
        claimed = [value for value in about[at][0].claims.values() if isinstance(value, int)]
        namesakes = [
            other.id for other in world.facts.entities if other.name == world.facts.entities[at].name and other.id != at
        ]
        at = rng.choice(namesakes if namesakes and rng.random() < 0.3 else claimed)
    keyed = [(index + rng.uniform(-2.5, 2.5), item) for index, item in enumerate(chosen)]
    return [item for _, item in sorted(keyed, key=lambda pair: pair[0])]


def base_tokenizer_texts(config: BaseConfig) -> Iterator[str]:
    """What the tokenizer (not the model) is trained on: pages of training worlds, and the words of tasks over them."""
    for index in range(config.tokenizer_worlds):
        rng = random.Random(f"tokenizer:{config.seed}:{index}")
        world = generate_encyclopedia(400, FIRST_WORLD + config.seed + index)
        yield from (spelled(page_text(item, rng)) for item in world.pages)
        yield from (spelled(question.text) for question in chain_questions(world, 100, index, {1: 1.0, 2: 1.0}))
        yield from THOUGHTS * 4


def spelled(text: str) -> str:
    """A text whose invented names fall apart into syllables, so that no token learnt from it straddles two of them."""

    def fall_apart(match: re.Match[str]) -> str:
        word = match.group()
        parts = [word[start : start + SYLLABLE_LETTERS] for start in range(0, len(word), SYLLABLE_LETTERS)]
        return "|".join(parts) if all(part.lower() in SYLLABLES for part in parts) else word

    return re.sub(r"[A-Z][a-z]+", fall_apart, text)


def base_rows(config: BaseConfig, tokenizer: FastTokenizer, step: int) -> list[Row]:
    """The rows of one optimizer step: every token is trained but the first."""
    seed = FIRST_WORLD + config.seed + step
    rng = random.Random(f"base:{seed}")
    end = tokenizer.token_id(END_OF_TEXT)
    texts = documents(generate_encyclopedia(config.world_size, seed), rng)
    length = config.short_tokens if step < config.short_share * config.steps else config.document_tokens
    rows: list[Row] = []
    while len(rows) * length < config.batch_tokens:
        ids: list[int] = []
        while len(ids) < length:
            ids += [end, *tokenizer.encode(next(texts))]
        array = np.array(ids[:length], dtype=np.int64)
        mask = np.ones(len(array), dtype=np.bool_)
        mask[0] = False
        rows.append(Row(ids=array, loss_mask=mask, trajectory=f"world {seed} text {len(rows)}"))
    return rows


def write_untrained(config: BaseConfig, directory: Path) -> None:
    """The tokenizer and the random weights that the run starts from."""
    tokenizer = train_tokenizer(base_tokenizer_texts(config), config.vocab_size, PHRASES)
    write_random_model(directory, tokenizer, config.shape, config.seed)


def train_base(config: BaseConfig, out: Path, on_step: Callable[[int, dict[str, float]], None]) -> Path:
    """Train the base model; returns its directory, ``out/model``. Imports torch.

    Killed and called again, it continues from its last checkpoint; once finished, it does nothing.
    """
    from sanderling.train.checkpoint import checkpoints, load_model, load_state, save_checkpoint, save_model
    from sanderling.train.losses.sft import sft
    from sanderling.train.metrics import MetricsLog
    from sanderling.train.trainer import Trainer

    final, start = out / "model", out / "untrained"
    if (final / "config.json").is_file():
        return final
    if not (start / "config.json").is_file():
        write_untrained(config, start)
    last = next(reversed(checkpoints(out)), None)
    model = load_model(last or start)
    trainer = Trainer(model, config.trainer)
    if last is not None:
        trainer.load_state(load_state(last))
    if config.compile:
        model.base_model.compile(dynamic=False)  # there are two shapes of batches, one after the other
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
