"""What cleaning does to recorded trajectories, and how fast it is.

Recorded are the trajectories of other systems in a folder (``SANDERLING_RECORDED``, or ``--recorded``); nothing of their text
is written. For the figures of speed, trajectories of exactly 50 turns are put together of recorded rounds (a turn and its
responses), each round once within a trajectory, with a recorded answer at the end; CPU time is measured of cleaning alone, and
of reading, cleaning and writing lines. Whether time grows with length alone is told by trajectories of 200 and 2,000 turns.

Run: ``OMP_NUM_THREADS=1 python benchmarks/data_clean.py``; writes ``benchmarks/results/data_clean.json``, and the tables of
what each step did into ``data_clean.md`` beside it.
"""

import argparse
import datetime
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.record import Trajectory, decode_record, decode_trajectory, encode_record
from sanderling.data.cleaning import RECIPES, Cleaner, CleanReport
from sanderling.data.cleaning_draft import Draft, Message, Round
from sanderling.data.importing import open_trajectories
from sanderling.runs.files import replace_file
from sanderling.runs.progress import command_line, machine

HERE = Path(__file__).parent
OUT = HERE / "results" / "data_clean.json"
TURNS, LONG, COUNT, REPEATS, SEED = 50, (200, 2_000), 40, 5, 7


def main() -> None:
    """Measure, print, write."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--recorded", type=Path, default=Path(os.environ.get("SANDERLING_RECORDED", "")))
    place = options.parse_args().recorded
    if not place.is_dir() or place == Path():
        raise UserError("Give the folder of recorded trajectories with --recorded, or in SANDERLING_RECORDED.")
    recorded = list(open_trajectories(place))
    done = {name: cleaned(recorded, name) for name in RECIPES}
    result = {
        "command": command_line(),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "settings": {"turns": TURNS, "trajectories": COUNT, "repeats": REPEATS, "seed": SEED},
        "recorded": {name: report.as_json() for name, report in done.items()},
        "speed": speed(recorded),
    }
    replace_file(OUT, json.dumps(result, indent=1) + "\n")
    heading = f"`{result['command']}`; {result['machine']}; {result['date']}."
    replace_file(OUT.with_suffix(".md"), "\n\n".join([heading, *(table(name, report) for name, report in done.items())]) + "\n")
    print(json.dumps(result["speed"], indent=1))


def cleaned(found: Sequence[Trajectory], name: str) -> CleanReport:
    """The report of a named recipe on its own profile."""
    recipe = RECIPES[name]
    cleaner = Cleaner(recipe, get_profile(recipe.profile))
    for one in found:
        cleaner.clean(one)
    return cleaner.report


def speed(recorded: Sequence[Trajectory]) -> dict[str, Any]:
    """Trajectories of 50 turns a second on one core, and milliseconds a turn by length."""
    made = longer(recorded, TURNS, COUNT)
    lines = [encode_record(one) for one in made]
    found: dict[str, Any] = {
        "mean_kilobytes": round(statistics.mean(map(len, lines)) / 1e3, 1),
        "reading_and_writing_lines_per_s": round(COUNT / cpu(lambda: copied(lines)), 1),
        "cleaning_per_s": {name: round(COUNT / cpu(lambda name=name: cleaned(made, name)), 1) for name in RECIPES},
    }
    whole = cpu(lambda: (copied(lines), cleaned(made, "dr-venus")))
    found["from_lines_to_lines_per_s"] = round(COUNT / whole, 1)
    by_length = {turns: longer(recorded, turns, 2, again=True) for turns in LONG}
    found["dr_venus_ms_a_turn_by_turns"] = {
        str(turns): round(cpu(lambda made=made: cleaned(made, "dr-venus")) / 2 / turns * 1e3, 3)
        for turns, made in by_length.items()
    }
    return found


def cpu(work: Callable[[], object]) -> float:
    """Median CPU seconds of doing it."""
    taken: list[float] = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def copied(lines: Sequence[bytes]) -> list[bytes]:
    """Lines read and written again."""
    return [encode_record(decode_trajectory(decode_record(line))) for line in lines]


def longer(recorded: Sequence[Trajectory], turns: int, count: int, *, again: bool = False) -> list[Trajectory]:
    """Trajectories of so many turns of recorded rounds; ``again``: a round may come more than once."""
    draw, profile = random.Random(SEED), get_profile("dr-venus-4b")
    rounds = [one for trajectory in recorded for one in Draft(trajectory, profile).rounds[:-1]]
    made: list[Trajectory] = []
    for _ in range(count):
        base = draw.choice(recorded)
        draft = Draft(base, profile)
        chosen = draw.choices(rounds, k=turns - 1) if again else draw.sample(rounds, turns - 1)
        strange = [Round(Message(one.node), [Message(reply.node) for reply in one.replies]) for one in chosen]
        draft.rounds = [*strange, draft.rounds[-1]]
        made.append(draft.finish())
    return made


def table(name: str, report: CleanReport) -> str:
    """A recipe's report as Markdown."""
    lines = [
        f"**`{name}`**, for `{RECIPES[name].profile}`: {report.came_in:,} came in, {report.kept:,} kept, "
        f"{report.dropped:,} dropped.",
        "",
        "| step | in | out | changed | what was done |",
        "|---|---|---|---|---|",
    ]
    for step in report.steps:
        dropped = [f"**dropped {number:,} `{reason}`**" for reason, number in step.dropped.items()]
        notes = [f"{number:,} `{code}` in {step.noted[code]:,}" for code, number in step.notes.items()]
        told = "; ".join((*dropped, *notes)) or "–"
        lines.append(f"| `{step.step}` | {step.came_in:,} | {step.went_out:,} | {step.changed:,} | {told} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
