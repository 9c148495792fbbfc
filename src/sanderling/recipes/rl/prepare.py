"""Everything that can be done and known before the first rollout: questions, worlds, judges, checks, the record of the run.

Torch is imported only to look at the devices.
"""

import asyncio
import datetime
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.policy.model_directory import check_model, check_vocabulary, read_model_config
from sanderling.recipes.rl.acting import check_reader, served_spec
from sanderling.recipes.rl.config import RlRecipe, Stage, stages_of
from sanderling.recipes.rl.judging import check_answers, check_judges, check_rule, check_there
from sanderling.recipes.rl.places import WORLD, Dynamics, Places, directories, fingerprints, read_all, warn_of_others
from sanderling.recipes.rl.plan import check_placement, check_positions, plan_rl
from sanderling.recipes.rl.record import check_same_run, inputs_of, record_of, started_with, write_record
from sanderling.rl.checks import check_run
from sanderling.rl.config import Placement
from sanderling.train.config import Precision
from sanderling.train.encoding import Encoding
from sanderling.train.fit import Devices, devices_here
from sanderling.train.metrics import check_watchers
from sanderling.train.shape import read_shape
from sanderling.world.faults.profiles import PROFILES

Look = Callable[[], Devices]


def look_here() -> Devices:
    """The devices of the machine; how fast they are is not asked."""
    return devices_here()


@dataclass(frozen=True)
class Order:
    """What a person asked for."""

    recipe: RlRecipe
    out: Path
    processes: int = 1
    anyway: bool = False
    """Whether it is tried where the plan says that it does not fit."""
    fresh: bool = False
    """Whether a run that the directory holds gives way to a new one, once everything is checked."""

    @property
    def bfloat16(self) -> bool:
        return self.recipe.rl.trainer.precision is Precision.BFLOAT16


@dataclass(frozen=True)
class Job:
    """What every process has to know in order to run one stage."""

    order: Order
    stage: Stage
    model: Path
    """What the stage begins with."""
    questions: tuple[Question, ...]
    held_out: tuple[Question, ...]

    @property
    def directory(self) -> Path:
        return self.stage.directory(self.order.out)


@dataclass(frozen=True)
class Prepared:
    """A run that may begin, or go on."""

    order: Order
    stages: tuple[Stage, ...]
    questions: dict[str, list[Question]]
    """By stage."""
    held_out: list[Question]


def prepare(order: Order, processes: int, look: Look = look_here) -> Prepared:
    """Read and check everything, and write the record. Raises UserError. ``look`` tells which devices there are."""
    order = _dated(order)
    recipe, out = order.recipe, order.out
    if recipe.model is None:
        raise UserError("There is no model to train: give --model, a local Hugging Face directory.")
    stages = stages_of(recipe)
    check_placement(recipe, processes)
    check_watchers(recipe.watch)
    check_model(recipe.model)
    check_judges(recipe.judges)
    if order.fresh:
        record_of(out).check_fresh([recipe.model])
    begun = record_of(out).is_begun and not order.fresh
    if not begun:  # whoever goes on could not mend these
        check_rule(recipe.judges, recipe.rl.outcome)
        for stage in stages:
            check_positions(stage, recipe.model)
    if recipe.extractor:
        check_reader(recipe.extractor)
    check_sampler(recipe)
    questions = {stage.name: read_all(stage.questions, "questions to train on") for stage in stages}
    held_out = read_all(recipe.held_out, "held-out questions") if recipe.held_out else []
    for stage in stages:
        check_selection(stage, held_out)
        check_copies(questions[stage.name], held_out)
    every = [question for asked in questions.values() for question in asked] + held_out
    worlds = directories(recipe.worlds, every)
    warn_of_others(recipe.worlds, every)
    tokenizer = load_tokenizer(recipe.model)
    check_vocabulary(tokenizer.vocab_size, read_model_config(recipe.model).get("vocab_size"))
    check_answers(recipe.judges, every)
    for stage in stages:
        encoding = Encoding(tokenizer, stage.profile)
        _ = encoding.renderer  # which refuses a tokenizer that lacks the marks of turns
        check_run(stage.rl, questions[stage.name], held_out, encoding)
        Places(worlds, stage.profile, Dynamics(recipe.dynamics, recipe.world_seed), None)
    files = {
        "questions": [file for stage in stages for file in stage.questions],
        "held_out": recipe.held_out,
        "dynamics": [Path(recipe.dynamics)] if recipe.dynamics and recipe.dynamics not in PROFILES else [],
    }
    inputs = inputs_of(recipe, recipe.model, files, fingerprints(worlds))
    asyncio.run(check_there(recipe.judges))
    if begun:
        check_same_run(recipe, inputs, processes, out)
    elif not order.fresh:
        record_of(out).check_empty()
    if not begun:
        _check_fit(order, processes, look())
    if order.fresh:
        files_read = [file for named in files.values() for file in named]
        record_of(out).check_fresh([*files_read, *recipe.worlds, *worlds.values()])
        record_of(out).empty()
    write_record(recipe, inputs, processes, out)
    return Prepared(order, tuple(stages), questions, held_out)


def _dated(order: Order) -> Order:
    """With the day that agents see: where nobody names one that of the beginning, or a group might meet two."""
    recipe, record = order.recipe, record_of(order.out)
    if recipe.date is not None:
        return order
    begun = record.is_begun and not order.fresh
    day = started_with(order.out).date if begun else datetime.date.today()
    return replace(order, recipe=recipe.model_copy(update={"date": day}))


def check_sampler(recipe: RlRecipe) -> None:
    """Raises UserError where a server is wanted and not named, or named and not wanted."""
    if recipe.rl.pipeline.placement is Placement.SERVED:
        served_spec(recipe, recipe.model or Path())
    elif recipe.sampler.endpoint or recipe.sampler.served:
        named = recipe.sampler.endpoint or recipe.sampler.served
        raise UserError(
            f"The server {named} would not be asked: set rl.pipeline.placement=served, or leave sampler.endpoint and "
            "sampler.served out."
        )


def check_selection(stage: Stage, held_out: Sequence[Any]) -> None:
    """Raises UserError where a checkpoint is to be selected and nothing says by what, or the other way round."""
    if bool(stage.rl.selection.every) is bool(held_out):
        return
    if held_out:
        raise UserError(
            "Held-out questions select the checkpoint: say after how many steps each, with --set rl.selection.every=10."
        )
    raise UserError(
        "The settings select the checkpoint by held-out questions: give some with --held-out, or --set rl.selection.every=0 to "
        "keep the last one."
    )


def check_copies(questions: Iterable[Question], held_out: Iterable[Question]) -> None:
    """Raises UserError where a question of the same words about the same world is trained on and held out."""

    def asks(question: Question) -> tuple[str, str]:
        return " ".join(question.text.split()).casefold(), str(question.meta.get(WORLD) or "")

    trained = {asks(question): question for question in questions}
    for question in held_out:
        if (other := trained.get(asks(question))) and other.id != question.id:
            raise UserError(
                f"Question {question.id!r} ({question.text.strip()[:60]}) is held out, and trained on as {other.id!r}: take it "
                "out of one of the files."
            )


def _check_fit(order: Order, processes: int, devices: Devices) -> None:
    """Raises UserError when the plan says that GPUs are too small; ``anyway``: warns of it."""
    recipe = order.recipe
    if not devices.gpus or recipe.model is None:
        return
    try:
        read_shape(recipe.model)
    except UserError:  # one that cannot be planned for may still be trained
        return
    found = plan_rl(recipe, replace(devices, count=processes))
    if not found.sentence:
        return
    if not order.anyway:
        raise UserError(f"{found.sentence.removesuffix('.')}; --anyway tries it, since this is reckoned.")
    warnings.warn(f"{found.sentence.removesuffix('.')}; going on all the same.", stacklevel=2)
