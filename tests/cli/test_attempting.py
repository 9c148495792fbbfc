"""What a person sees while attempts are made."""

import io

from rich.console import Console

from sanderling.cli.attempting import bar
from sanderling.core.types import Ending
from sanderling.evaluate.result import Episode
from sanderling.policy.budget import Spending
from sanderling.runs.progress import Report


def test_the_bar_counts_each_attempt_once_and_tells_the_last_warning() -> None:
    def episode(number: int, correct: bool | None, ending: Ending = Ending.ANSWERED) -> Episode:
        return Episode("q", number, ending, correct, "m", "w", 1, 0, 0, 1, 1.0)

    out = io.StringIO()
    with Report(Console(file=out, width=120)).task("Browse[bold]Comp", 4) as advance:
        hear = bar(advance, Spending(None))
        hear([episode(0, True)], "")
        hear((), "the server is\x1b away: q #1 is tried again in 4 s.")
        hear([episode(1, None, Ending.POLICY_OUTAGE)], "")
        hear([episode(1, False)], "")
        hear([episode(2, None, Ending.POLICY_OUTAGE)], "")
    shown = out.getvalue()
    assert "Browse[bold]Comp" in shown and "3/4" in shown and "\x1b" not in shown
    assert "1 correct, 1 incorrect, 1 unscored; cost 0; q #2: policy outage" in shown
