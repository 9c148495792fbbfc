"""The data pipeline: raw files to supervised rows, step by step, resumable, with one report of every step's numbers.

    run = DataRun([Path("raw")], Path("runs/data"), find_data_recipe("dr-venus"))
    run_data(run, Report(Console()), command_line(), write_rows=rows_of_file)

Each step reads a file, writes the next one whole, and returns its figures: ``came_in``, ``went_out``, and ``told``, a sentence
for people. What a step leaves out stands in a file of its own, with the reason. ``data/recipes/*.toml`` hold the settings of
the three systems.
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from sanderling.core.chat import load_tokenizer
from sanderling.core.config import Frozen, load_config, read_config
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.record import encode_record
from sanderling.core.text import visible
from sanderling.data.cleaning import clean_file, get_recipe
from sanderling.data.contamination import check_file
from sanderling.data.dedupe import Shares, dedupe_file, split_file
from sanderling.data.importing import find_places, import_to, open_trajectories
from sanderling.data.questions import read_questions
from sanderling.data.resample import Schedule, resample_file
from sanderling.data.stats import NOT_JUDGED, data_page, figures_table, portray, ruling_of
from sanderling.judge.book import JudgeReport, Keep, VerdictBook, judge_stream
from sanderling.judge.opening import JudgeConfig, check_judges, judging
from sanderling.judge.verdict import Ruling
from sanderling.policy.budget import BudgetConfig, Spending
from sanderling.policy.load import is_endpoint, names_model, weights_of
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import Lines, write_lines
from sanderling.runs.progress import Report, machine
from sanderling.runs.run import Run, beside
from sanderling.runs.stages import Stage, content_hash, run_stages

RECIPES = ("dr-venus", "literesearcher", "agentcpm")
"""The named recipes, each a file in ``data/recipes``."""
PAGE, NUMBERS = "report.html", "data.json"
Figures = dict[str, Any]


class OpenVerdictsError(UserError):
    """Verdicts are missing that the same command may still get."""


class Cleaning(Frozen):
    """How trajectories are cleaned."""

    recipe: str = "dr-venus"
    """A cleaning recipe by name, or a TOML file."""


class Judging(Frozen):
    """Who judges."""

    judges: tuple[str, ...] = ("exact",)
    """Rules and models, asked in order until one finds the answer right. Empty: the verdicts in the
    records count, as `data judge` writes them."""
    keep: Keep = Keep.CORRECT  # which trajectories go on


class Deduping(Frozen):
    """Which questions are the same."""

    keep: int = Field(default=1, ge=0)
    """Most trajectories of one question; 0: all."""


class Splitting(Frozen):
    """The parts."""

    shares: Annotated[str, AfterValidator(lambda shares: Shares.read(shares) and shares)] = "train=0.95,validation=0.05"
    """Names of the parts, with their shares."""
    seed: int = 0  # random seed of the split


class Resampling(Frozen):
    """How often trajectories of the first part are repeated."""

    thresholds: tuple[int, ...] = (50, 100)  # numbers of turns from which a trajectory is repeated more often
    weights: tuple[int, ...] = (1, 2, 5)  # copies below, between and above the thresholds
    shuffle: bool = True  # by ids and seed; without it the copies of each stand in a row, in the order of the file
    seed: int = 0  # random seed of the order


class Rows(Frozen):
    """Rows of tokens."""

    max_tokens: int = Field(default=200_000, ge=1)  # longest row
    overlong: Literal["drop", "split"] = "drop"
    """What happens to longer ones."""
    train_newline: bool = False  # also train the newline after a turn's <|im_end|>


class DataConfig(Frozen):
    """The pipeline's settings."""

    title: str = "Data"  # heading of the report
    profile: str = "dr-venus-4b"  # how messages become tokens
    tokenizer: Path | None = None
    """A directory with tokenizer.json. Without it no rows are made, and lengths are in words."""
    against: tuple[Path, ...] = ()
    """Benchmark files: trajectories on their questions are left out."""
    clean: Cleaning = Cleaning()
    judge: Judging = Judging()
    dedupe: Deduping = Deduping()
    split: Splitting = Splitting()
    resample: Resampling = Resampling()
    rows: Rows = Rows()


def find_data_recipe(name: str, overrides: Sequence[str] = ()) -> DataConfig:
    """The settings of a named recipe or of a TOML file, with overrides laid over them. Raises UserError."""
    if name.endswith(".toml"):
        return read_config(DataConfig, Path(name), overrides)
    if name not in RECIPES:
        raise UserError(f"There is no data recipe {name!r}: choose {', '.join(RECIPES)}, or give a .toml file.")
    text = (Path(__file__).parent / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
    return load_config(DataConfig, text, f"{name}.toml", overrides)


class DataRun:
    """One run's sources, settings and directory, and where each step keeps what."""

    def __init__(self, sources: Sequence[Path], root: Path, config: DataConfig) -> None:
        self.sources, self.root, self.config = tuple(sources), root, config
        self.profile = get_profile(config.profile)
        self.parts = Shares.read(config.split.shares).names  # the first is trained on
        self.imported, self.questions = root / "1-imported.jsonl", root / "1-questions.jsonl"
        self.cleaned = root / "2-cleaned.jsonl"
        self.judged, self.judge_left_out = root / "3-judged.jsonl", root / "3-left-out.jsonl"
        self.one_a_question, self.dedupe_left_out = root / "4-unlike.jsonl", root / "4-left-out.jsonl"
        self.benchmark_free = root / "4-benchmark-free.jsonl"
        self.deduped = self.benchmark_free if config.against else self.one_a_question
        self.parted, self.resampled = root / "5-parts", root / "6-resampled.jsonl"

    def part(self, name: str) -> Path:
        return self.parted / f"{name}.jsonl"

    def check(self) -> None:
        """Raise UserError now, and not after an hour, for what is not there or does not fit."""
        config, root = self.config, self.root.resolve()
        read = [*self.sources, *config.against]
        for path in read:
            if not path.exists():
                raise UserError(f"There is no file or directory {path}: check the path.")
        get_recipe(config.clean.recipe)
        Schedule(config.resample.thresholds, config.resample.weights)
        check_judges(JudgeConfig(judges=config.judge.judges))
        read += [Path(spec) for spec in config.judge.judges if names_model(spec) and not is_endpoint(spec)]
        for path in [*read, *([] if config.tokenizer is None else [config.tokenizer])]:
            place = path.resolve()
            if place == root or root in place.parents:
                raise UserError(f"{path} lies in the run's own directory {self.root}: move it, or name another --out.")
            if place in root.parents:
                raise UserError(f"The run's directory {self.root} lies in {path}, which is read: name another --out.")
        for path in config.against:
            read_questions(path)
        if config.tokenizer is not None:
            load_tokenizer(config.tokenizer)

    def inputs(self) -> dict[str, Any]:
        """Whatever results depend on, as JSON: of files the content, and the name that the ids of trajectories begin with."""

        def contents(*places: Path) -> list[list[str]]:
            return [[place.name, content_hash(place.path)] for place in find_places(places)]

        config = self.config
        return {
            "settings": config.model_dump(mode="json", exclude={"title", "tokenizer", "against", "judge"}),
            "clean": get_recipe(config.clean.recipe).model_dump(mode="json"),
            "keep": config.judge.keep.value,
            "judges": [weights_of(spec) if names_model(spec) else spec for spec in config.judge.judges],
            "tokenizer": None if config.tokenizer is None else load_tokenizer(config.tokenizer).fingerprint,
            "sources": contents(*self.sources),
            "against": [{"name": path.stem, "files": contents(path)} for path in config.against],
        }


def run_data(
    run: DataRun,
    report: Report,
    command: str,
    *,
    write_rows: Callable[..., Any],
    prices: Sequence[str] = (),
    budget: BudgetConfig | None = None,
    concurrency: int = 8,
) -> Path:
    """Run what is not done yet and write the report; returns its page. Raises UserError.

    ``write_rows``: `train`'s ``rows_of_file``, handed in because this room may not import that one; ``prices``: what judging
    models cost; ``concurrency``: verdicts at a time.
    """
    run.check()
    steps: dict[str, tuple[str, Callable[[DataRun, Report], Figures]]] = {
        "import": ("Raw files to records", bring_in),
        "clean": ("What may be imitated", clean),
        "judge": ("Who is right", partial(judge, prices=prices, budget=budget, concurrency=concurrency)),
        "dedupe": ("Equal questions", dedupe),
        "split": ("Parts that share no question", split),
        "resample": ("Long ones more often", resample),
        "rows": ("Rows of tokens", partial(make_rows, write_rows=write_rows)),
    }
    stages = [Stage(name, title, partial(step, run, report)) for name, (title, step) in steps.items()]
    records = run_stages(stages, run.root, run.inputs(), report)
    train = run.parts[0]
    sets = {"imported": run.imported, "cleaned": run.cleaned, "judged": run.judged, "deduped": run.deduped}
    sets |= {train: run.part(train), "resampled": run.resampled}
    tokenizer = run.config.tokenizer and load_tokenizer(run.config.tokenizer)
    portraits = [portray(name, open_trajectories(path), tokenizer) for name, path in sets.items()]
    numbers = {
        "command": command,
        "machine": machine(),
        "settings": run.config.model_dump(mode="json"),
        "steps": [{"name": one.name, "seconds": round(one.seconds, 2), **one.figures} for one in records],
        "sets": portraits,
    }
    replace_file(run.root / NUMBERS, json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")
    title = f"From raw files to rows: {run.config.title}"
    replace_file(run.root / PAGE, data_page(title, portraits, command=command, steps=numbers["steps"]))
    report.console.print(figures_table([portraits[0], portraits[1], portraits[-1]]))
    for step in numbers["steps"]:
        report.say(f"{step['name']:<9} {step['came_in']:>9,} → {step['went_out']:>9,}  {step['told']}")
    report.say(f"The report is {visible(str(run.root / PAGE))}.")
    check_rows(numbers["steps"], train)
    return run.root / PAGE


def check_rows(steps: Sequence[Figures], train: str) -> None:
    """Raise UserError, which names the step that left nothing to train on, where that is so."""
    made = steps[-1].get("parts", {}).get(train, {"rows": None})["rows"]  # None: no tokenizer, no rows
    reached = [*(step["came_in"] for step in steps[1:-1]), steps[-2]["went_out"], made]  # by what came to train on
    if 0 in reached:
        last = steps[reached.index(0)]
        lost = f"{last['name']} left {last['went_out']:,} of {last['came_in']:,} ({last['told']})"
        raise UserError(f"Nothing is left to train on: {lost}. Change what that step demands, or bring other files.")


def bring_in(run: DataRun, report: Report) -> Figures:
    """Raw files to records."""
    written = import_to(run.sources, run.imported, run.questions)
    found = written.report
    odd = f", {found.unread:,} entries unread (1-imported.jsonl.unread.jsonl)" if found.unread else ""
    odd += f", {written.renamed:,} renamed, since others have their ids" if written.renamed else ""
    odd += f", {len(found.left_files):,} files left that are no recordings" if found.left_files else ""
    kept = f"{found.messages:,} messages, {found.raw:,} of them kept raw"
    return {
        "came_in": found.trajectories + found.unread,
        "went_out": written.trajectories,
        "told": f"{kept}{odd}; {found.questions:,} questions without a trajectory",
        "report": found.as_json(),
    }


def clean(run: DataRun, report: Report) -> Figures:
    """Records to what may be imitated."""
    recipe, source = get_recipe(run.config.clean.recipe), open_trajectories(run.imported)
    with report.task("Clean", _count_lines(run.imported)) as advance:
        found = clean_file(source, run.cleaned, recipe, run.profile, origin=run.imported, advance=advance)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.reasons.items())
    told = f"{found.changed:,} of the kept changed; dropped: {reasons or 'none'}"
    return {"came_in": found.came_in, "went_out": found.kept, "told": told, "report": found.as_json()}


def judge(
    run: DataRun, report: Report, prices: Sequence[str] = (), budget: BudgetConfig | None = None, concurrency: int = 8
) -> Figures:
    """Who is right: rules and models say, or the verdicts in the records.

    Verdicts outlive a kill. One that another run may still get (no server, no budget) keeps the step open: its files are not
    written, and OpenVerdictsError is raised.
    """
    settings, found = run.config.judge, dict.fromkeys((*Ruling, NOT_JUDGED), 0)
    counts, trajectories = JudgeReport("the verdicts in the records"), open_trajectories(run.cleaned)
    with ExitStack() as stack:
        kept, others = (stack.enter_context(Lines(path)) for path in (run.judged, run.judge_left_out))
        advance = stack.enter_context(report.task("Judge", _count_lines(run.cleaned)))
        if settings.judges:
            config, place = JudgeConfig(judges=settings.judges, prices=tuple(prices)), beside(run.judged)
            chosen, runner = stack.enter_context(judging(config, Spending(place, budget), concurrency))
            counts.judge = chosen.name
            book = VerdictBook(stack.enter_context(Run(place)).table("verdicts"))
            stream = judge_stream(trajectories, chosen, book, concurrency=concurrency, runner=runner)
            # `add` counts a verdict and returns None, so that the trajectory passes on.
            trajectories = (counts.add(one) or one.trajectory for one in stack.enter_context(closing(stream)))
        for trajectory in trajectories:
            ruling = ruling_of(trajectory)
            found[ruling or NOT_JUDGED] += 1
            (kept if settings.keep.takes(ruling) else others).add(encode_record(trajectory))
            advance(1)
        if counts.open:
            why = ", ".join(f"{counts.codes[code]:,} {code.value} (such as {ids[0]})" for code, ids in counts.examples.items())
            raise OpenVerdictsError(
                f"{counts.open:,} of {counts.trajectories:,} verdicts are still open ({why}): run the same command again, with "
                "a larger limit if that was reached; what was said is remembered."
            )
    told = ", ".join(f"{count:,} {ruling}" for ruling, count in found.items() if count) or "none"
    figures = {"came_in": kept.count + others.count, "went_out": kept.count, "standings": found}
    if settings.judges:
        figures["report"] = counts.as_json()
    return figures | {"told": f"by {counts.judge}: {told}; kept {settings.keep.value}"}


def dedupe(run: DataRun, report: Report) -> Figures:
    """One for each question, and none that a benchmark asks."""
    number = _count_lines(run.judged)
    done = dedupe_file(run.judged, run.one_a_question, keep=run.config.dedupe.keep or max(1, number))
    told, written = f"{done.questions:,} questions, at most {done.largest:,} of one", done.kept
    left_out = [(one["id"], "same_question", f"{one['kept']} stays: {one['kept_question']}", one) for one in done.left_out]
    if run.config.against:
        found = check_file(run.one_a_question, run.config.against, out=run.benchmark_free)
        written = found.rows - len(found.hits)
        told += f"; asked by benchmarks ({found.benchmarks:,} questions): {found.kinds() or 'none'}"
        for hit in found.hits:
            detail = f"{hit.benchmark}: {hit.benchmark_question}"
            left_out.append((hit.id, hit.kind.value, detail, dataclasses.asdict(hit)))
    lines = ({"id": id, "reason": reason, "detail": detail, "found": one} for id, reason, detail, one in left_out)
    write_lines(run.dedupe_left_out, map(encode_record, lines))
    return {"came_in": number, "went_out": written, "told": told}


def split(run: DataRun, report: Report) -> Figures:
    """Parts that share no question."""
    settings = run.config.split
    done = split_file(run.deduped, run.parted, Shares.read(settings.shares), seed=settings.seed)
    parts = {one.name: one.trajectories for one in done}
    told, total = ", ".join(f"{name} {count:,}" for name, count in parts.items()), sum(parts.values())
    return {"came_in": total, "went_out": total, "told": told, "parts": parts}


def resample(run: DataRun, report: Report) -> Figures:
    """Long ones more often, in the first part."""
    name, settings = run.parts[0], run.config.resample
    schedule = Schedule(settings.thresholds, settings.weights)
    done = resample_file(run.part(name), run.resampled, schedule, settings.seed, shuffle=settings.shuffle)
    buckets = zip(schedule.names(), schedule.weights, done.before, strict=True)
    return {
        "came_in": sum(done.before),
        "went_out": len(done.rows),
        "told": f"{name}: " + ", ".join(f"{bucket} turns {before:,} ×{times}" for bucket, times, before in buckets),
        "before": list(done.before),
        "after": list(done.after),
    }


def make_rows(run: DataRun, report: Report, write_rows: Callable[..., Any]) -> Figures:
    """Token rows of every part; the first from its resampled trajectories."""
    config, told, parts = run.config, list[str](), dict[str, Any]()
    if config.tokenizer is None:
        return {"came_in": 0, "went_out": 0, "told": "none made: give --tokenizer DIRECTORY"}
    came_in = went_out = 0
    for place, name in enumerate(run.parts):
        source, to = run.part(name) if place else run.resampled, run.root / "rows" / f"{name}.parquet"
        how = (config.rows.max_tokens, config.rows.overlong, config.rows.train_newline)
        made = write_rows(source, to, config.tokenizer, config.profile, *how)
        parts[name] = vars(made)
        came_in, went_out = came_in + made.trajectories, went_out + made.rows
        missing = [f", {count:,} {reason.replace('_', ' ')}" for reason, count in made.left_out().items() if count]
        tokens = f"{made.tokens:,} tokens ({made.trained_tokens:,} trained)"
        told.append(f"{name} {made.rows:,} rows, {tokens}{''.join(missing)}")
    return {"came_in": came_in, "went_out": went_out, "told": "; ".join(told), "parts": parts}


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())
