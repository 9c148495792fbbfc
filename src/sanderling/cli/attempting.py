"""What commands share that let an agent attempt questions: the bar, what is told, and how they end."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from sanderling.agent.opening import stop_on_interrupt
from sanderling.cli import INTERRUPTED, UNFINISHED
from sanderling.cli.options import show
from sanderling.core.text import visible
from sanderling.data.questions import read_questions
from sanderling.evaluate.attempts import Made, Watch
from sanderling.evaluate.result import Episode, Key
from sanderling.policy.budget import Spending
from sanderling.report.numbers import ending_words
from sanderling.runs.progress import Advance, Report
from sanderling.runs.run import beside
from sanderling.runs.stages import after_interrupt
from sanderling.synth.generate import GenerateConfig, generate_file

Work = Callable[..., Awaitable[Made]]  # gets what watches it as ``watch``, and what stops it as ``cancel``


def bar(advance: Advance, spending: Spending) -> Watch:
    """A bar of the attempts, and below it how they stand, what they cost, and the last warning."""
    done: dict[Key, bool | None] = {}

    def hear(episodes: Sequence[Episode], note: str) -> None:
        before = len(done)
        done.update({one.key: one.correct for one in episodes})
        correct, failed = Counter(done.values()), [one for one in episodes if one.ending and not one.ending.scored]
        stand = f"{correct[True]:,} correct, {correct[False]:,} incorrect, {correct[None]:,} unscored"
        warning = "".join(f"; {one.question} #{one.attempt}: {ending_words(one.ending or '')}" for one in failed[-1:])
        advance(len(done) - before, visible(note or f"{stand}; cost {spending.ledger.spent.cost:.4g}{warning}"))

    return hear


def live_run(attempts: int, about: str, spending: Spending, work: Work, *, progress: bool = True) -> Made:
    """Let ``work`` make so many attempts under a bar."""

    async def run() -> Made:
        with stop_on_interrupt() as stop:
            if not progress:
                return await work(watch=None, cancel=stop)
            with Report(Console(stderr=True)).task(visible(about), attempts) as advance:
                return await work(watch=bar(advance, spending), cancel=stop)

    with after_interrupt():
        return asyncio.run(run())


def generated(config: GenerateConfig, about: str, *, progress: bool) -> int:
    """Make the attempts of ``data generate`` and say what came of it; the exit status that is then due. Raises UserError."""
    total = len(read_questions(config.questions)) * config.attempts
    spending = Spending(beside(config.out), config.budget)
    made = live_run(total, about, spending, partial(generate_file, config, spending), progress=progress)
    tell_attempts(made, total, config.out, spending)
    if made.stopped:
        return tell_stopped(made)
    if any(one.correct is None for one in made.episodes.values()):
        show("Run the same command again: it tries the unscored attempts once more, and repeats nothing else.")
        return UNFINISHED
    return 0


def tell_attempts(made: Made, total: int, out: Path, spending: Spending) -> None:
    """How many attempts there are, how they ended, and what they took."""
    correct = Counter(one.correct for one in made.episodes.values())
    verdicts = f"{correct[True]:,} correct, {correct[False]:,} incorrect, {correct[None]:,} unscored"
    show(f"{len(made.episodes):,} of {total:,} attempts in {out} ({made.resumed:,} from earlier runs): {verdicts}")
    endings = Counter(one.ending for one in made.episodes.values())
    show(*(f"  {ending.value if ending else 'not recorded'}: {count:,}" for ending, count in endings.most_common()))
    show(str(spending))


def tell_stopped(made: Made) -> int:
    """Why nothing more was begun; the exit status that is then due."""
    show(f"{made.stopped} Run the same command again to resume.")
    return INTERRUPTED if made.cancelled else UNFINISHED
