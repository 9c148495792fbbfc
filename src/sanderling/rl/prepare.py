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
from typing import TYPE_CHECKING, Any

from sanderling.agent.opening import opened_places, world_directories
from sanderling.core.chat import load_tokenizer
from sanderling.core.config import load_config
from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside
from sanderling.core.profiles import Profile
from sanderling.core.record import Question
from sanderling.data.questions import read_questions, require_distinct
from sanderling.judge.rules import rule_judge
from sanderling.policy.load import check_model as check_judge
from sanderling.policy.load import names_model
from sanderling.policy.model_directory import check_model, check_vocabulary, positions_of, read_model_config
from sanderling.rl.act import check_served, served_spec
from sanderling.rl.config import Placement, RlConfig, RlRecipe, check_run, rollout_profile
from sanderling.runs.stages import RunRecord, content_hash, model_files
from sanderling.train.config import ParallelKind, Precision
from sanderling.train.encoding import Encoding
from sanderling.train.launch import check_parallel
from sanderling.train.metrics import check_watchers
from sanderling.world.disk.store import read_manifest

if TYPE_CHECKING:
    from sanderling.train.fit import Devices

Look = Callable[[], "Devices"]
MODEL = "model"
_PROCESSES = "number of processes"
_FREE = (
    *("title", "model", "questions", "held_out", "worlds", "watch", "sampler.", "parallel."),
    *("rl.health.", "rl.keep", "rl.save_every", "rl.pipeline.placement", "rl.trainer.memory.", "rl.trainer.logit_chunk"),
    *("rl.denoise.outage_", "rl.denoise.judge_patience_s", "rl.denoise.least_scored"),
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
    """What every process has to know in order to run."""

    order: Order
    model: Path
    """What the run begins with."""
    profile: Profile
    """Of rollouts."""
    questions: tuple[Question, ...]
    held_out: tuple[Question, ...]

    @property
    def rl(self) -> RlConfig:
        return self.order.recipe.rl

    @property
    def out(self) -> Path:
        return self.order.out

    @property
    def is_finished(self) -> bool:
        """Whether the run's model is there."""
        return (self.out / MODEL / "config.json").is_file()


def prepare(order: Order, processes: int, look: Look | None = None) -> Job:
    """Read and check everything, and write the record. Raises UserError. ``look``: devices there."""
    if order.recipe.date is None:  # the day that agents see; where nobody names one that of the beginning
        day = _started_with(order).date if order.goes_on else datetime.date.today()
        order = replace(order, recipe=order.recipe.model_copy(update={"date": day}))
    recipe, record, model = order.recipe, order.record, order.recipe.model
    if model is None:
        raise UserError("There is no model to train: give --model, a local Hugging Face directory.")
    profile = check_settings(recipe, processes)
    check_watchers(recipe.watch)
    check_model(model)
    if not order.goes_on:  # whoever goes on could not mend it
        check_positions(profile, model)
    questions = read_all(recipe.questions, "questions to train on")
    held_out = read_all(recipe.held_out, "held-out questions") if recipe.held_out else []
    every = [*questions, *held_out]
    worlds = {} if recipe.web else world_directories(recipe.worlds, every)
    tokenizer = load_tokenizer(model)
    check_vocabulary(tokenizer.vocab_size, read_model_config(model).get("vocab_size"))
    encoding = Encoding(tokenizer, profile)
    _ = encoding.renderer  # which refuses a tokenizer that lacks the marks of turns
    check_run(recipe.rl, questions, held_out, encoding)
    asyncio.run(_check_reached(recipe, profile, every))
    files = _files(recipe)
    inputs = _inputs(model, files, worlds) | {_PROCESSES: processes}
    if order.goes_on:
        more = f"; to train its model further, begin with --model {order.out / MODEL} in another --out"
        record.check_same(recipe, inputs, lambda key: key.startswith(_FREE), _UNORDERED, more)
    else:
        if order.fresh:
            record.check_fresh([model, *(file for named in files.values() for file in named), *worlds.values()])
        else:
            record.check_empty()
        _check_fit(recipe, processes, look)
        if order.fresh:
            record.empty()
    record.write(recipe, inputs)
    return Job(order, model, profile, tuple(questions), tuple(held_out))


def check_settings(recipe: RlRecipe, processes: int) -> Profile:
    """The profile of rollouts. Raises UserError for settings that do not go together, or could not be opened later."""
    profile, sampler = rollout_profile(recipe), recipe.sampler
    check_placement(recipe, processes)
    for spec in recipe.judges:
        if names_model(spec):
            check_judge(spec)
        else:
            rule_judge(spec, models="or http://host:port/v1#model")
    if recipe.judges and recipe.rl.outcome != RlConfig().outcome:
        raise UserError(
            f"The judges ({', '.join(recipe.judges)}) would be asked, and the rule rl.outcome={recipe.rl.outcome} be "
            "ignored: to score by that rule leave --judge out, and where the recipe names judges add --set 'judges=[]'; "
            "else leave rl.outcome alone."
        )
    if recipe.rl.pipeline.placement is Placement.SERVED:
        served_spec(recipe, recipe.model or Path())
    elif named := sampler.endpoint or sampler.served:
        raise UserError(
            f"The server {named} would not be asked: set rl.pipeline.placement=served, or leave sampler.endpoint and "
            "sampler.served out."
        )
    if bool(recipe.rl.selection.every) is not bool(recipe.held_out):
        raise UserError(
            "Held-out questions select the checkpoint after every rl.selection.every steps: give some with --held-out and set "
            "these steps, or do neither (rl.selection.every=0)."
        )
    return profile


def _check_fit(recipe: RlRecipe, processes: int, look: Look | None) -> None:
    """Warn where GPUs are too small by the plan. ``look``: which devices there are; None: those of this machine."""
    import torch

    if look is None and not torch.cuda.is_available():
        return
    from sanderling.rl.fit import plan_rl
    from sanderling.train.fit import devices_here

    devices = (look or devices_here)()
    if devices.gpus and (sentence := plan_rl(recipe, replace(devices, count=processes)).sentence):
        warnings.warn(f"By the plan the devices are too small. {sentence}", stacklevel=2)


def check_placement(recipe: RlRecipe, processes: int) -> None:
    """Raises UserError where the sampler cannot be where the settings want it, or processes cannot share the work so."""
    check_parallel(recipe.parallel, processes)
    served = recipe.rl.pipeline.placement is Placement.SERVED
    if recipe.parallel.kind is ParallelKind.FSDP and not served:
        raise UserError(
            "A model in shards (parallel.kind fsdp) cannot sample in the trainer's processes: set "
            "rl.pipeline.placement=served, or parallel.kind to none or replicate."
        )
    if recipe.sampler.sleeps and not served:
        raise UserError("Only a server can sleep: set rl.pipeline.placement=served, or sampler.sleeps=false.")


def check_positions(profile: Profile, model: Path, longest: int | None = None) -> None:
    """Raises UserError where rollouts may grow longer than the model reads: they would be cut where it ends, without a word."""
    positions, most = positions_of(read_model_config(model)), longest or profile.budgets.max_context_tokens
    setting = "rollout.context_tokens" if longest is None else "--row-tokens"
    if positions is not None and most > positions:
        raise UserError(
            f"Rollouts may have {most:,} tokens, the model has {positions:,} positions: set {setting}={positions}, or choose a "
            "model for longer texts (rope scaling in its config.json counts)."
        )


def read_all(files: Sequence[Path], what: str) -> list[Question]:
    """Questions of several files in order. Raises UserError where two have one id, and for a file that cannot be read whole."""
    questions = [question for file in files for question in read_questions(file, whole=True)]
    if not questions:
        named = " and ".join(map(str, files))
        raise UserError(f"There are no {what}: {f'{named} holds none' if named else 'name a file of questions'}.")
    require_distinct(questions)
    return questions


async def _check_reached(recipe: RlRecipe, profile: Profile, questions: Sequence[Question]) -> None:
    """Raises UserError for a world that cannot be opened, and for a judge's server that has other models."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what there is to warn of was told before
        async with opened_places(recipe, profile, questions):
            pass
    for spec in filter(names_model, recipe.judges):
        if "#" in spec:
            await check_served(spec, spec.partition("#")[2])


# -- what a run was started with -------------------------------------------------------------------------------------------


def _started_with(order: Order) -> RlRecipe:
    return load_config(RlRecipe, order.record.settings(), str(order.out))


def _files(recipe: RlRecipe) -> Mapping[str, Sequence[Path]]:
    """Every file that a run reads beside its model and worlds, by what it is."""
    rl = recipe.rl
    named = [rl.estimator.kind, rl.loss.kind, rl.outcome, *recipe.tools, *recipe.filters]
    code = [name.rpartition(":")[0] for name in dict.fromkeys(named) if is_outside(name)]
    faults = [file for file in [Path(recipe.faults)] if recipe.faults and file.suffix]
    found = {"questions": recipe.questions, "held_out": recipe.held_out, "faults": faults}
    return found | {"code": [Path(place) for place in code if place.endswith(".py")]}


def _inputs(model: Path, files: Mapping[str, Sequence[Path]], worlds: Mapping[str, Path]) -> dict[str, Any]:
    """Hashes of the content of everything that a run reads."""

    def hashed(paths: Iterable[Path]) -> list[list[str]]:
        return [[path.name, content_hash(path)] for path in paths]

    fingerprints = {name: read_manifest(path).fingerprint for name, path in worlds.items()}
    contents = {name: hashed(paths) for name, paths in files.items() if paths}
    return {"model": hashed(model_files(model)), "worlds": fingerprints} | contents
