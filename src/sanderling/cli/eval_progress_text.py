"""How a run stands, in words: lines for a terminal of 80 columns, and one line for a log.

Text from outside is never read as markup, and its control characters never reach the terminal.
"""

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sanderling.core.text import visible
from sanderling.evaluate.live_snapshot import Attempt, Doing, Snapshot
from sanderling.report.numbers import compact, duration, percent, roughly, span

_NAME_CHARS = 20
_WARNING_CHARS = 220
"""Of a warning on a terminal: three lines of 80 columns."""
_STILL_S = 60.0
"""An attempt that was heard of within this time is not told as one that stands still."""
_SEPARATOR = " · "


def pane(now: Snapshot, about: str) -> RenderableType:
    """A bar and a few lines; none is longer than the terminal is wide."""
    head = Table.grid(padding=(0, 1), expand=True)
    head.add_column(no_wrap=True, overflow="ellipsis")
    head.add_column(ratio=1, min_width=8)
    head.add_column(no_wrap=True)
    head.add_row(Text(brief(about), style="bold"), ProgressBar(max(now.total, 1), now.done), Text(headline(now)))
    lines: list[RenderableType] = [head, _line(quality(now)), _line(taken(now))]
    if now.is_stopping:
        lines.append(_line("stopping: what is finished is kept; Ctrl-C once more interrupts at once", "yellow"))
    lines += [_line(text, "dim") for text in under_way(now)]
    if now.warning:
        told = warning(now)
        lines.append(Text(told[:_WARNING_CHARS], style="yellow" if now.warning_age_s < _STILL_S else "dim"))
    return Group(*lines)


def plain_line(now: Snapshot, about: str) -> str:
    """Everything in one line."""
    stopping = ["stopping"] if now.is_stopping else []
    warned = [warning(now)] if now.warning else []
    head = f"{brief(about)} {headline(now)}"
    return _SEPARATOR.join([head, *stopping, quality(now), taken(now), *under_way(now), *warned])


def headline(now: Snapshot) -> str:
    """How far it is."""
    if now.done >= now.total:
        left = f"{now.judged:,} looked through by the judges" if now.judged else "all made"
    else:
        left = "time left: too early to tell" if now.left_s is None else f"about {roughly(now.left_s)} left"
    return _SEPARATOR.join((f"{now.done:,}/{now.total:,}", f"{now.running:,} running", duration(now.elapsed_s), left))


def quality(now: Snapshot) -> str:
    """How good it is so far, and what could not be scored."""
    parts = ["pass so far: nothing scored"]
    if now.pass_so_far is not None:
        parts = [
            f"pass so far {percent(now.pass_so_far)} ({span(now.interval)}) over {_many(now.questions, 'question')}",
            f"{now.correct:,} of {now.scored:,} right",
        ]
    return _SEPARATOR.join([*parts, *([f"{now.unscored:,} unscored"] if now.unscored else [])])


def taken(now: Snapshot) -> str:
    """What it took so far, and how fast it goes."""
    parts = [f"{compact(now.turns)} turns ({compact(now.turns_per_s)}/s)"]
    if now.sampled_tokens is not None or now.prompt_tokens is not None:
        least = "at least " if now.some_tokens_untold else ""
        rate = "" if now.tokens_per_s is None else f" ({compact(now.tokens_per_s)}/s)"
        parts.append(f"tokens {least}{compact(now.sampled_tokens)} sampled{rate}, {compact(now.prompt_tokens)} read")
    else:
        parts.append("tokens: the server does not say")
    return _SEPARATOR.join([*parts, f"cost {now.cost:.4g}"])


def under_way(now: Snapshot) -> list[str]:
    """What may be stuck: the attempt that takes longest, and one that nothing was heard of for a while."""
    longest, stillest = now.longest, now.stillest
    if longest is None:
        return []
    lines = [f"longest {_name(longest)}: {duration(longest.seconds)}, turn {longest.turn}, {_waits(longest)}"]
    if stillest is not None and stillest.still_s >= _STILL_S and _name(stillest) != _name(longest):
        lines.append(f"stillest {_name(stillest)}: turn {stillest.turn}, {_waits(stillest)}")
    return lines


def warning(now: Snapshot) -> str:
    """The last thing that went wrong, and whether it goes on."""
    counts = [f"{now.warnings_last_minute:,} in the last minute"] if now.warnings_last_minute > 1 else []
    counts += [f"{_many(now.waiting, 'attempt')} to be tried again"] if now.waiting else []
    told = f" ({', '.join(counts)})" if counts else ""
    return f"warning {roughly(now.warning_age_s)} ago{told}: {brief(now.warning)}"


def brief(text: str) -> str:
    """Text from outside on one line."""
    return visible(" ".join(text.split()))


def _name(one: Attempt) -> str:
    """The id of its trajectory, of which the end tells it from others."""
    name = brief(f"{one.question}-{one.attempt}")
    return name if len(name) <= _NAME_CHARS else "…" + name[1 - _NAME_CHARS :]


def _waits(one: Attempt) -> str:
    if one.doing is Doing.BEGINNING:
        return f"{one.doing.value} for {duration(one.still_s)}"
    what = ", ".join(dict.fromkeys(map(brief, one.calls))) or one.doing.value
    return f"waits {duration(one.still_s)} for {what}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")
