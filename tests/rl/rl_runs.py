"""A small world, questions over it and a model of random weights for the tests of RL.

The model writes noise, so no answer is right: format penalties alone give credit, which is all that these tests need.
"""

from pathlib import Path

from rich.console import Console
from sft_runs import SHAPE, WORDS
from tiny_base import PHRASES

from sanderling.core.config import read_config
from sanderling.data.questions import write_questions
from sanderling.rl.config import RlRecipe
from sanderling.runs.progress import Report
from sanderling.synth.chains import chain_questions
from sanderling.train.random_model import train_tokenizer, write_random_model
from sanderling.world.disk.building import build_world
from sanderling.world.encyclopedia import Names, generate_encyclopedia

SETTINGS = """
title = "test"
profile = "tiny"
date = "2026-01-01"

[rollout]
temperature = 0.8
turn_tokens = 8
max_turns = 2

[rl]
steps = 4
questions_per_step = 2
group_size = 2
save_every = 2
seed = 3
estimator = { kind = "grpo" }
trainer = { lr = 1e-2, eps = 1e-3, micro_batch_tokens = 512 }
"""


def write_given(place: Path, seeds: tuple[int, ...] = (1,)) -> Path:
    """A directory with ``base/``, and for each seed a world ``wSEED/`` and questions ``qSEED.jsonl``."""
    texts = [" ".join(WORDS[i:] + WORDS[:i]) for i in range(len(WORDS))]
    write_random_model(place / "base", train_tokenizer(texts, 440, PHRASES), SHAPE, 1)
    for seed in seeds:
        world = generate_encyclopedia(40, seed, Names.TRAIN)
        pages = (item.page for item in world.pages)
        build_world(place / f"w{seed}", pages, name=world.name, source="encyclopedia", seed=seed)
        write_questions(place / f"q{seed}.jsonl", chain_questions(world, 6, seed, {1: 1.0}))
    (place / "settings.toml").write_text(SETTINGS, encoding="utf-8")
    return place


def recipe_of(given: Path, *overrides: str, seed: int = 1, **more: object) -> RlRecipe:
    """The settings of these tests over one world."""
    recipe = read_config(RlRecipe, given / "settings.toml", overrides)
    told = {"model": given / "base", "worlds": (given / f"w{seed}",), "questions": (given / f"q{seed}.jsonl",)}
    return recipe.model_copy(update={**told, **more})


def silent() -> Report:
    return Report(Console(quiet=True))


def arguments(given: Path, out: Path, *more: object, recipe: object = None) -> list[str]:
    """The command's, over the first world."""
    found = ["--model", given / "base", "--questions", given / "q1.jsonl", "--world", given / "w1", "--out", out]
    return [str(one) for one in [*found, "--recipe", recipe or given / "settings.toml", *more]]
