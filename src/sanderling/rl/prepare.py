"""Everything that can be checked and known before the first rollout: questions, worlds, judges, devices, the record of the run.

Each refusal is one sentence. Torch is imported only to look at the devices. What a run was started with stands in its
directory: which settings may differ when it goes on is listed here; how many processes share the work is one of its inputs.
"""

import asyncio
import datetime
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sanderling.agent.agent import WORLD
from sanderling.agent.opening import opened_places, world_directories
from sanderling.core.chat import load_tokenizer
from sanderling.core.config import load_config
from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside
from sanderling.core.record import Question
from sanderling.data.questions import read_questions, require_distinct
from sanderling.judge.rules import answer_tokens, rule_judge
from sanderling.policy.contract import PolicyOutageError
from sanderling.policy.load import check_model as check_endpoint
from sanderling.policy.load import is_endpoint, models_at, names_model, place_of
from sanderling.policy.model_directory import check_model, check_vocabulary, read_model_config
from sanderling.rl.act import place_config, served_spec
from sanderling.rl.config import Placement, RlConfig, RlRecipe, Stage, check_run, stages_of
from sanderling.rl.fit import check_placement, check_positions, plan_rl
from sanderling.runs.run_record import RunRecord, content_hash, flat, model_files, unlike
from sanderling.train.config import Precision
from sanderling.train.encoding import Encoding
from sanderling.train.fit import Devices, devices_here
from sanderling.train.metrics import check_watchers
from sanderling.train.shape import read_shape
from sanderling.world.disk.store import read_manifest

Look = Callable[[], Devices]
_PROCESSES = "processes"
_FREE = (
    *("title", "model", "questions", "held_out", "worlds", "expected.", "watch", "sampler.", "parallel."),
    *("rl.health.", "rl.keep", "rl.save_every", "rl.pipeline.placement", "rl.trainer.memory.", "rl.trainer.logit_chunk"),
    *("rl.denoise.outage_", "rl.denoise.judge_patience_s", "rl.denoise.least_scored", "rl.selection.least_scored"),
)
"""Settings that may differ when a run goes on: paths (their content may not), where and how the work is done, when it is
paused, how long an outage is waited for and how much of one is borne."""
_UNORDERED = ("tools", "pause_on")


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

    @property
    def record(self) -> RunRecord:
        """What the directory was begun with."""
        return RunRecord(self.out, "rl")

    @property
    def goes_on(self) -> bool:
        """Whether a run in the directory is gone on with."""
        return self.record.is_begun and not self.fresh


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


def prepare(order: Order, processes: int, look: Look = devices_here) -> Prepared:
    """Read and check everything, and write the record. Raises UserError. ``look`` tells which devices there are."""
    order = _dated(order)
    recipe, record = order.recipe, order.record
    if recipe.model is None:
        raise UserError("There is no model to train: give --model, a local Hugging Face directory.")
    stages = check_settings(recipe, processes, goes_on=order.goes_on)
    check_watchers(recipe.watch)
    check_model(recipe.model)
    if order.fresh:
        record.check_fresh([recipe.model])
    if not order.goes_on:  # whoever goes on could not mend it
        for stage in stages:
            check_positions(stage, recipe.model)
    questions = {stage.name: read_all(stage.questions, "questions to train on") for stage in stages}
    held_out = read_all(recipe.held_out, "held-out questions") if recipe.held_out else []
    every = [question for asked in questions.values() for question in asked] + held_out
    for stage in stages:
        _check_copies(questions[stage.name], held_out)
    worlds = world_directories(recipe.worlds, every)
    tokenizer = load_tokenizer(recipe.model)
    check_vocabulary(tokenizer.vocab_size, read_model_config(recipe.model).get("vocab_size"))
    _check_answers(recipe.judges, every)
    for stage in stages:
        encoding = Encoding(tokenizer, stage.profile)
        _ = encoding.renderer  # which refuses a tokenizer that lacks the marks of turns
        check_run(stage.rl, questions[stage.name], held_out, encoding)
        asyncio.run(_check_places(recipe, stage, every))
    files = _files(recipe, stages)
    inputs = _inputs(recipe.model, files, worlds)
    asyncio.run(check_there(recipe.judges))
    if order.goes_on:
        _check_same_run(order, inputs, processes)
    elif not order.fresh:
        record.check_empty()
    if not order.goes_on:
        _check_fit(order, processes, look())
    if order.fresh:
        record.check_fresh([*(file for named in files.values() for file in named), *recipe.worlds, *worlds.values()])
        record.empty()
    record.write(recipe, {**inputs, _PROCESSES: processes})
    return Prepared(order, tuple(stages), questions, held_out)


# -- settings --------------------------------------------------------------------------------------------------------------


def check_settings(recipe: RlRecipe, processes: int, *, goes_on: bool = False) -> list[Stage]:
    """The stages. Raises UserError for settings that do not go together, or could not be opened later. Opens nothing."""
    stages, served = stages_of(recipe), recipe.rl.pipeline.placement is Placement.SERVED
    check_placement(recipe, processes)
    for spec in recipe.judges:
        if not names_model(spec):
            rule_judge(spec, models="or http://host:port/v1#model")
        elif is_endpoint(spec):
            check_endpoint(spec)
        else:
            raise UserError(f"{spec!r} is no rule and no address: a judging model is asked at http://host:port/v1#model.")
    if recipe.judges and recipe.rl.outcome != RlConfig().outcome and not goes_on:  # whoever goes on could not mend it
        raise UserError(
            f"The judges ({', '.join(recipe.judges)}) would be asked, and the rule rl.outcome={recipe.rl.outcome} be "
            "ignored: to score by that rule leave --judge out, and where the recipe names judges add --set 'judges=[]'; "
            "else leave rl.outcome alone."
        )
    if recipe.reader and not is_endpoint(recipe.reader) and not is_outside(recipe.reader):
        raise UserError(f"There is no page reader {recipe.reader!r}: write http://host:port/v1#model, or file.py:name.")
    if served:
        served_spec(recipe, recipe.model or Path())
    elif named := recipe.sampler.endpoint or recipe.sampler.served:
        raise UserError(
            f"The server {named} would not be asked: set rl.pipeline.placement=served, or leave sampler.endpoint and "
            "sampler.served out."
        )
    for stage in stages:
        if recipe.held_out and not stage.rl.selection.every:
            raise UserError(
                "Held-out questions select the checkpoint: say after how many steps each, with --set rl.selection.every=10."
            )
        if stage.rl.selection.every and not recipe.held_out:
            raise UserError(
                "The settings select the checkpoint by held-out questions: give some with --held-out, or --set "
                "rl.selection.every=0 to keep the last one."
            )
    return stages


# -- questions -------------------------------------------------------------------------------------------------------------


def read_all(files: Sequence[Path], what: str) -> list[Question]:
    """Questions of several files in order. Raises UserError where two have one id, and for a file that cannot be read whole."""
    if folder := next((file for file in files if file.is_dir()), None):
        raise UserError(f"{folder} is a directory: name its files, as in {folder / '*.jsonl'}.")
    questions = [question for file in files for question in read_questions(file, whole=True)]
    if not questions:
        named = " and ".join(map(str, files))
        raise UserError(f"There are no {what}: {f'{named} holds none' if named else 'name a file of questions'}.")
    require_distinct(questions)
    return questions


def _check_copies(questions: Sequence[Question], held_out: Sequence[Question]) -> None:
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


# -- who judges and samples ------------------------------------------------------------------------------------------------


async def check_there(specs: Sequence[str]) -> None:
    """Raises UserError where a judge's server serves other models; one that does not answer is warned of: it is waited for."""
    for spec in filter(names_model, specs):
        name = spec.partition("#")[2]
        try:
            served = await models_at(spec)
        except PolicyOutageError as error:
            reason = str(error).removesuffix(".")
            warnings.warn(f"The judge {name} does not answer yet ({reason}): finished rollouts will wait for it.", stacklevel=2)
            continue
        if served and name not in served:
            raise UserError(f"{place_of(spec)} serves {', '.join(served)} and no {name!r}: name one of them with --judge.")


async def _check_places(recipe: RlRecipe, stage: Stage, questions: Sequence[Question]) -> None:
    """Raises UserError for a world that cannot be opened, or lacks what the stage's profile asks for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what there is to warn of was told before
        async with opened_places(place_config(recipe, Path()), stage.profile, questions):
            pass


def _check_answers(judges: Sequence[str], questions: Iterable[Question]) -> None:
    """Raises UserError where rules alone judge, and an accepted answer has nothing that they compare."""
    if any(map(names_model, judges)):
        return
    for question in questions:
        for answer in question.answers:
            if answer.strip() and not answer_tokens(answer):
                raise UserError(
                    f"Question {question.id!r} accepts {answer!r}, in which a rule finds no word, so no answer would be right: "
                    "mend it, leave the question out, or add a --judge that reads."
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


# -- what a run was started with -------------------------------------------------------------------------------------------


def _dated(order: Order) -> Order:
    """With the day that agents see: where nobody names one that of the beginning, or a group might meet two."""
    if order.recipe.date is not None:
        return order
    day = _started_with(order).date if order.goes_on else datetime.date.today()
    return replace(order, recipe=order.recipe.model_copy(update={"date": day}))


def _started_with(order: Order) -> RlRecipe:
    return load_config(RlRecipe, order.record.settings(), str(order.out))


def _check_same_run(order: Order, inputs: Mapping[str, Any], processes: int) -> None:
    """Raises UserError, saying what differs, when a directory holds a run with other settings or of other input."""
    record, out = order.record, order.out
    before, now = flat(_started_with(order), _UNORDERED), flat(order.recipe, _UNORDERED)
    told = [f"{key} {before.get(key)}, now {now.get(key)}" for key in unlike(before, now) if not _is_free(key)]
    earlier = record.inputs()
    longer = any(key.endswith("steps") and key.startswith(("rl.steps", "stages.")) for key in unlike(before, now))
    more = f"; to train its model further, begin with --model {out / 'model'} in another --out" if longer else ""
    record.refuse([*told, *(f"other {name}" for name, content in inputs.items() if earlier.get(name) != content)], more)
    if earlier[_PROCESSES] != processes:
        raise UserError(
            f"{out} holds a run of {earlier[_PROCESSES]} processes, now {processes}, and each has rollouts under way: start as "
            "many as before."
        )


def _files(recipe: RlRecipe, stages: Sequence[Stage]) -> dict[str, Sequence[Path]]:
    """Every file that a run reads beside its model and worlds, by what it is."""
    configs = [recipe.rl, *(stage.rl for stage in stages)]
    named = [name for rl in configs for name in (rl.estimator.kind, rl.loss.kind, rl.outcome) if is_outside(name)]
    code = [Path(place) for place in dict.fromkeys(name.rpartition(":")[0] for name in named) if place.endswith(".py")]
    faults: list[Path] = []
    if recipe.faults:
        from sanderling.world.faults.profiles import PROFILES

        faults = [] if recipe.faults in PROFILES else [Path(recipe.faults)]
    asked = [file for stage in stages for file in stage.questions]
    return {"questions": asked, "held_out": recipe.held_out, "faults": faults, "code": code}


def _inputs(model: Path, files: Mapping[str, Sequence[Path]], worlds: Mapping[str, Path]) -> dict[str, Any]:
    """What stands for the content of everything that a run reads."""

    def hashed(paths: Iterable[Path]) -> list[list[str]]:
        return [[path.name, content_hash(path)] for path in paths]

    fingerprints = {name: read_manifest(path).fingerprint for name, path in worlds.items()}
    return {"model": hashed(model_files(model)), "worlds": fingerprints} | {
        name: hashed(paths) for name, paths in files.items() if paths
    }


def _is_free(key: str) -> bool:
    return key.startswith(_FREE) or (key.startswith("stages.") and key.endswith(".questions"))
