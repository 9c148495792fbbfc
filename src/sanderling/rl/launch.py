"""``sanderling train rl`` from end to end: questions, checks, the record of the run, training, what a person is told.

Everything that can be known is checked before torch is imported; then one process acts and trains, or several that were started
by torchrun or are started here. An interrupted command resumes; once finished, it says so. A run goes on with
the settings and content it was begun with, or is refused; how many processes share the work is part of that.
"""

import asyncio
import datetime
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from sanderling.agent.places import opened_places, world_directories
from sanderling.core.chat import load_tokenizer
from sanderling.core.config import load_config
from sanderling.core.errors import UserError
from sanderling.core.plugins import code_of
from sanderling.core.profiles import Profile
from sanderling.core.record import Question
from sanderling.data.questions import read_questions
from sanderling.policy.contract import PolicyOutageError
from sanderling.policy.load import names_model
from sanderling.policy.model_directory import check_model, check_vocabulary, positions_of, read_model_config
from sanderling.rl.act import check_served, opened_acting, served_spec
from sanderling.rl.config import Placement, RlConfig, RlRecipe, check_run, rollout_profile
from sanderling.runs.progress import Report
from sanderling.runs.stages import RunRecord, content_hash, model_files
from sanderling.train import launch
from sanderling.train.checkpoint import CHECKPOINTS, last_step
from sanderling.train.config import Precision
from sanderling.train.launch import Launch, check_parallel
from sanderling.train.metrics import METRICS, OnProgress, check_watchers, read_metrics
from sanderling.train.rows import Encoding
from sanderling.world.disk.store import read_manifest

_FREE = (
    *("title", "model", "questions", "held_out", "worlds", "mcp.", "dock", "watch", "sampler.", "parallel."),
    *("rl.health.", "rl.keep", "rl.save_every", "rl.pipeline.placement", "rl.trainer.memory.", "rl.trainer.logit_chunk"),
    *("rl.denoise.outage_", "rl.denoise.judge_patience_s", "rl.denoise.least_scored"),
)
"""Settings that may differ when a run goes on: paths (their content may not), where and how the work is done, when it is
paused, how long an outage is waited for and how much of one is borne."""


@dataclass(frozen=True)
class Order:
    """What a person asked for."""

    recipe: RlRecipe
    out: Path
    processes: int = 1
    fresh: bool = False
    """Whether a run that the directory holds gives way to a new one, once everything is checked."""
    simple: bool = False
    """Train by the loop that fits on a page (`rl_loop`)."""


@dataclass(frozen=True)
class Job:
    """What every process has to know in order to train."""

    order: Order
    model: Path
    questions: tuple[Question, ...]
    held_out: tuple[Question, ...]


def run_rl_command(order: Order, report: Report) -> None:
    """Train, or go on training, until the model lies in its directory. Raises UserError."""
    recipe, out, model = order.recipe, order.out, order.out / "model"

    def begin(processes: int) -> launch.Job[Job] | None:
        job, done = prepare(order, processes), last_step(out / CHECKPOINTS)
        if (model / "config.json").is_file():
            return None
        report.say(
            f"{len(job.questions):,} questions, {recipe.rl.questions_per_step} a step with {recipe.rl.group_size} rollouts "
            f"each, {recipe.rl.steps:,} steps from {job.model}." + (f" Goes on after step {done:,}." if done else "")
        )
        settings = job.order.recipe.model_dump(mode="json")
        return launch.Job(job, recipe.title, recipe.rl.steps, done, recipe.watch, settings)

    bfloat16 = recipe.rl.trainer.precision is Precision.BFLOAT16
    if not Launch(out, recipe.parallel, bfloat16, order.processes).run(begin, _train, _figures, report):
        report.say("This run was finished before: there is nothing left to train.")
    rewards = [line.get("reward", 0.0) for line in read_metrics(out / METRICS)]
    if len(rewards) >= 10:
        first, last = (f"{fmean(some):.2f}" for some in (rewards[:5], rewards[-5:]))
        report.say(f"Mean reward of the first five steps {first}, of the last five {last}; of each step: {out / METRICS}.")
    world = str(recipe.worlds[0]) if len(recipe.worlds) == 1 else "WORLD"
    asking = f"sanderling ask QUESTION --world {world} --model {model} --profile {recipe.profile}"
    report.say(f"The model is in {model}: ask it with {asking}.")


def _train(team: Any, device: Any, job: Job, progress: OnProgress | None) -> None:
    asyncio.run(_act_and_train(team, device, job, progress))


async def _act_and_train(team: Any, device: Any, job: Job, progress: OnProgress | None) -> None:
    """The run, in one of its processes."""
    from sanderling.rl.run import run_rl

    recipe, out, given = job.order.recipe, job.order.out, {"progress": progress, "device": device}
    profile = rollout_profile(recipe)
    encoding = Encoding(load_tokenizer(job.model), profile)
    async with opened_acting(recipe, profile, (*job.questions, *job.held_out), job.model, out, team) as connect:
        try:
            if job.order.simple:
                from sanderling.rl.rl_loop import run_simple

                await run_simple(recipe.rl, job.questions, connect, encoding, job.model, out, **given)
            else:
                given |= {"held_out": job.held_out, "team": team}
                await run_rl(recipe.rl, job.questions, connect, encoding, job.model, out, **given)
        except PolicyOutageError as error:  # of a turn it is a rollout's ending; here the sampler took no weights
            gone = f"The sampler could not be handed the weights ({str(error).removesuffix('.')})"
            raise UserError(f"{gone}: see that it runs, then run the same command again to resume.") from error


def _figures(lines: Sequence[Mapping[str, Any]]) -> str:
    """The last step's: reward, groups with signal, age in updates, and alarms."""
    line = lines[-1]
    alarms = ", ".join(name.removeprefix("alarm_") for name, value in line.items() if name.startswith("alarm_") and value)
    held_out = f", held out {line['held_out']:.2f}" if "held_out" in line else ""
    signal = f"signal {line.get('groups_with_signal', 0.0):.0%}, age {line.get('age', 0.0):.1f}"
    return f"reward {line.get('reward', 0.0):.2f}{held_out}, {signal}" + (f"; ALARM: {alarms}" if alarms else "")


# -- before the first rollout ----------------------------------------------------------------------------------------------


def prepare(order: Order, processes: int) -> Job:
    """Read and check everything, and write the record. Raises UserError."""
    record, recipe, model = RunRecord(order.out, "rl"), order.recipe, order.recipe.model
    begun = record.is_begun and not order.fresh
    if recipe.date is None:  # the day that agents see; where nobody names one that of the beginning
        day = load_config(RlRecipe, record.settings(), str(order.out)).date if begun else datetime.date.today()
        recipe = recipe.model_copy(update={"date": day})
    if model is None:
        raise UserError("There is no model to train: give --model, a local Hugging Face directory.")
    profile = check_settings(recipe, processes)
    if order.simple and (processes > 1 or recipe.held_out):
        raise UserError("The simple loop is one process and selects no checkpoint: leave --processes and --held-out out.")
    check_watchers(recipe.watch)
    check_model(model)
    check_positions(profile, model)
    asked = (recipe.questions, recipe.held_out)
    questions, held_out = ([one for file in files for one in read_questions(file, whole=True)] for files in asked)
    every = (*questions, *held_out)
    elsewhere = recipe.web or ((recipe.mcp or recipe.dock) and not recipe.worlds)
    worlds = {} if elsewhere else world_directories(recipe.worlds, every)
    encoding = Encoding(load_tokenizer(model), profile)
    check_vocabulary(encoding.tokenizer.vocab_size, read_model_config(model).get("vocab_size"))
    _ = encoding.renderer  # which refuses a tokenizer that lacks the marks of turns
    check_run(recipe.rl, questions, held_out, encoding)
    places = asyncio.run(_check_reached(recipe, profile, every))
    files = _files(recipe)
    inputs = _inputs(model, files, worlds) | {"number of processes": processes}
    inputs |= {"servers": places} if recipe.mcp or recipe.dock else {}
    if begun:
        record.check_same(recipe, inputs, lambda key: key.startswith(_FREE))
    elif order.fresh:
        record.check_fresh([model, *(file for named in files.values() for file in named), *worlds.values()])
        record.empty()
    else:
        record.check_empty()
    record.write(recipe, inputs)
    return Job(replace(order, recipe=recipe), model, tuple(questions), tuple(held_out))


def check_settings(recipe: RlRecipe, processes: int) -> Profile:
    """The profile of rollouts. Raises UserError for settings that do not go together, or could not be opened later."""
    check_parallel(recipe.parallel, processes)
    if recipe.rl.pipeline.placement is Placement.SERVED:
        served_spec(recipe, recipe.model or Path())
    if recipe.judges:
        from sanderling.judge.opening import JudgeConfig, check_judges

        check_judges(JudgeConfig(judges=recipe.judges))
    if recipe.judges and recipe.rl.outcome != RlConfig().outcome:
        raise UserError(
            f"The judges ({', '.join(recipe.judges)}) would be asked, and the rule rl.outcome={recipe.rl.outcome} be "
            "ignored: leave one of them out (--set 'judges=[]' where the recipe names judges)."
        )
    if bool(recipe.rl.selection.every) is not bool(recipe.held_out):
        raise UserError(
            "Held-out questions select the checkpoint after every rl.selection.every steps: give some with --held-out and set "
            "these steps, or do neither (rl.selection.every=0)."
        )
    return rollout_profile(recipe)


def check_positions(profile: Profile, model: Path, longest: int | None = None) -> None:
    """Raises UserError where rollouts may grow longer than the model reads: they would be cut where it ends, without a word."""
    positions, most = positions_of(read_model_config(model)), longest or profile.budgets.max_context_tokens
    if positions is not None and most > positions:
        raise UserError(
            f"Rollouts may have {most:,} tokens, the model has {positions:,} positions: set "
            f"{'--row-tokens' if longest else 'rollout.context_tokens'}={positions}, or choose a model for longer texts "
            "(rope scaling in its config.json counts)."
        )


async def _check_reached(recipe: RlRecipe, profile: Profile, questions: Sequence[Question]) -> dict[str, Any]:
    """What places are. Raises UserError for one that cannot be opened, and for a judge's server that has other models."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what there is to warn of is told when it is opened again
        async with opened_places(recipe, profile, questions) as places:
            found = {place.name: [place.fingerprint, *sorted(place.tools)] for place in places.values()}
    for spec in filter(names_model, recipe.judges):
        if "#" in spec:
            await check_served(spec, spec.partition("#")[2])
    return found


def _files(recipe: RlRecipe) -> Mapping[str, Sequence[Path]]:
    """Every file that a run reads beside its model and worlds, by what it is."""
    faults = [file for file in [Path(recipe.faults)] if file.suffix]
    found = {"questions": recipe.questions, "held_out": recipe.held_out, "faults": faults}
    return found | {"code": list(map(Path, code_of(recipe)))}


def _inputs(model: Path, files: Mapping[str, Sequence[Path]], worlds: Mapping[str, Path]) -> dict[str, Any]:
    """Hashes of the content of everything that a run reads."""

    def hashed(paths: Iterable[Path]) -> list[list[str]]:
        return [[path.name, content_hash(path)] for path in paths]

    fingerprints = {name: read_manifest(path).fingerprint for name, path in worlds.items()}
    contents = {name: hashed(paths) for name, paths in files.items() if paths}
    return {"model": hashed(model_files(model)), "worlds": fingerprints} | contents
