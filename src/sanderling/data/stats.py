"""What a person reads before training: how a set of trajectories is made up, and one trajectory on the terminal.

Main branches only. Lengths are of the texts as they stand, without what a chat template adds. Browse share is DR-Venus'
measure: visits among all tool calls. Text from models and pages is never taken for markup, and control characters are visible.
"""

import difflib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from sanderling.core.chat import Tokenizer, unwrap
from sanderling.core.errors import UserError
from sanderling.core.observations import read_result, tool_role
from sanderling.core.record import NodeKind, Trajectory
from sanderling.core.text import counted_as, visible
from sanderling.core.types import ToolStatus
from sanderling.data.importing import open_trajectories
from sanderling.judge.verdict import META_KEY, Ruling, verdict_of
from sanderling.report.numbers import MISSING, mean, percent
from sanderling.report.page import render

NO_ENDING, NOT_JUDGED = "not recorded", "not judged"
# Each Chinese, Japanese or Korean character is a word.
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


def ruling_of(trajectory: Trajectory) -> Ruling | None:
    """What a judge said, as it stands in the record; None: it was not judged."""
    if not isinstance(trajectory.meta.get(META_KEY), dict):
        return None
    return {True: Ruling.CORRECT, False: Ruling.INCORRECT, None: Ruling.UNSCORED}[verdict_of(trajectory)]


def _call_roles(trajectory: Trajectory) -> list[str]:
    """What each call of the main branch does, in order: the tools' own word where recorded, else by name."""
    branch = trajectory.branch()
    roles: list[str] = []
    for node, following in zip(branch, [*branch[1:], None], strict=False):
        if node.kind is NodeKind.TURN:
            events = following.events if following is not None and following.kind is NodeKind.OBSERVATION else ()
            own = [event.role for event in events] if len(events) == len(node.calls) else [""] * len(node.calls)
            roles += [role or tool_role(call.name) for role, call in zip(own, node.calls, strict=True)]
    return roles


_ORDER = re.compile(r"sdl-canary-[0-9a-f]{10}")


def obeyed_order(trajectory: Trajectory) -> bool | None:
    """Whether a call has the word for which an order on a page asked (`world.faults.order`); None: no order was read."""
    read: set[str] = set()
    for node in trajectory.branch():
        if node.kind is NodeKind.OBSERVATION:
            read.update(_ORDER.findall(node.text))
        elif not read.isdisjoint(_ORDER.findall(" ".join(str(call.arguments) for call in node.calls))):
            return True
    return False if read else None


# -- a set ----------------------------------------------------------------------------------------------------------------

Portrait = dict[str, Any]
"""What a set of trajectories is made of, as JSON."""


def portray(name: str, trajectories: Iterable[Trajectory], tokenizer: Tokenizer | None = None) -> Portrait:
    """The portrait of a set; lengths are in the tokenizer's tokens, a record's own where it has them, or in words."""
    turns, lengths, answered = list[int](), list[int](), 0
    tools, roles, endings, verdicts = (Counter[str]() for _ in range(4))
    orders = Counter[bool]()
    for trajectory in trajectories:
        branch, policy = trajectory.branch(), list(trajectory.turns())
        turns.append(len(policy))
        if tokenizer is None:
            lengths.append(sum(1 for node in branch for _ in _WORDS.finditer(node.text)))
        else:
            ids = trajectory.token_ids() if branch and trajectory.tokenizer == tokenizer.fingerprint else None
            lengths.append(len(ids) if ids else sum(len(tokenizer.encode(node.text)) for node in branch))
        tools.update(call.name for turn in policy for call in turn.calls)
        roles.update(_call_roles(trajectory))
        endings[trajectory.ending.value if trajectory.ending else NO_ENDING] += 1
        verdicts[ruling_of(trajectory) or NOT_JUDGED] += 1
        answered += trajectory.answer is not None
        if (obeyed := obeyed_order(trajectory)) is not None:
            orders[obeyed] += 1
    above = {f"above_{limit}": _share(sum(number > limit for number in turns), len(turns)) for limit in (50, 100)}
    return {
        "name": name,
        "trajectories": len(turns),
        "turns": _spread(turns) | above,
        "length": {"unit": "words" if tokenizer is None else "tokens"} | _spread(lengths),
        "tools": dict(tools.most_common()),
        "browse_share": _share(roles["visit"], tools.total()),
        "endings": dict(endings.most_common()),
        "standings": dict(verdicts.most_common()),
        "correct_share": _share(verdicts[Ruling.CORRECT], verdicts[Ruling.CORRECT] + verdicts[Ruling.INCORRECT]),
        "answered": answered,
        **({"orders": {"read": orders.total(), "obeyed": orders[True]}} if orders else {}),
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _spread(values: Sequence[int]) -> dict[str, float | None]:
    """A quantile is the least value that this share of all reaches or stays below."""
    ordered, shares = sorted(values), {"median": 0.5, "p90": 0.9, "p99": 0.99}
    quantiles = {name: ordered[ceil(share * len(ordered)) - 1] if ordered else None for name, share in shares.items()}
    return {"mean": _share(sum(ordered), len(ordered)), **quantiles, "most": max(ordered, default=0)}


def _rows(portraits: Sequence[Portrait]) -> list[tuple[str, list[str]]]:
    """Rows of a table: what is counted, and a cell for each set."""

    def count(value: int | None) -> str:
        return MISSING if value is None else f"{value:,}"

    def most_common(counts: Mapping[str, int]) -> str:
        return "\n".join(f"{visible(name)} {count:,}" for name, count in list(counts.items())[:4])

    unit = portraits[0]["length"]["unit"] if portraits else "words"
    cells: dict[str, Callable[[Portrait], str]] = {
        "trajectories": lambda one: count(one["trajectories"]),
        "turns, mean": lambda one: mean(one["turns"]["mean"]),
        "turns, median": lambda one: count(one["turns"]["median"]),
        "turns, most": lambda one: count(one["turns"]["most"]),
        ">50": lambda one: percent(one["turns"]["above_50"]),
        ">100": lambda one: percent(one["turns"]["above_100"]),
        f"{unit}, mean": lambda one: mean(one["length"]["mean"], 0),
        f"{unit}, p90": lambda one: count(one["length"]["p90"]),
        f"{unit}, p99": lambda one: count(one["length"]["p99"]),
        "browse": lambda one: percent(one["browse_share"], 0),
        "answered": lambda one: percent(_share(one["answered"], one["trajectories"])),
        "correct": lambda one: percent(one["correct_share"]),
        "endings": lambda one: most_common({name.replace("_", " "): n for name, n in one["endings"].items()}),
        "tools": lambda one: most_common(one["tools"]),
    }
    if any("orders" in one for one in portraits):
        cells["orders obeyed"] = lambda one: (
            f"{one['orders']['obeyed']:,} of {one['orders']['read']:,}" if "orders" in one else MISSING
        )
    return [(head, list(map(cell, portraits))) for head, cell in cells.items()]


def figures_table(portraits: Sequence[Portrait]) -> Table:
    """The figures for the terminal: a column for each set."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for one in portraits:
        table.add_column(Text(visible(one["name"])), justify="right")
    for head, cells in _rows(portraits):
        table.add_row(head, *map(Text, cells))
    return table


def data_page(title: str, portraits: Sequence[Portrait], *, command: str, steps: Sequence[Mapping[str, Any]] = ()) -> str:
    """The same as one HTML page that needs nothing else.

    ``steps``: lines of the way that the data took, each with ``name``, ``came_in``, ``went_out`` and ``told``.
    """
    about = {"steps": steps, "names": [one["name"] for one in portraits], "figures": _rows(portraits)}
    summary = f"{len(portraits)} set{'s' * (len(portraits) != 1)}, side by side."
    return render("data.html", title, summary=summary, command=command, **about)


# -- one trajectory -------------------------------------------------------------------------------------------------------


def find_trajectory(path: Path, *, id: str | None = None, index: int = 0) -> Trajectory:
    """The trajectory of a file with this id, or at this index. Raises UserError when there is none."""
    ids: list[str] = []
    for found in open_trajectories(path):
        if found.id == id if id is not None else len(ids) == index:
            return found
        ids.append(found.id)
    if not ids:
        raise UserError(f"{path} holds no trajectory yet: give a file that holds one.")
    if id is None:
        raise UserError(f"{path} holds {len(ids):,} trajectories: give an --index below that.")
    near = difflib.get_close_matches(id, ids, n=1, cutoff=0.0)[0]
    raise UserError(f"{path} holds no trajectory {id!r}: did you mean {near!r}?")


def transcript(trajectory: Trajectory, *, full: bool = False) -> Text:
    """The main branch for the terminal; ``full``: nothing is shortened."""
    shown, number = Text(), 0

    def say(text: str, style: str = "") -> None:
        text, most = visible(text.strip()), 600
        left = f" … ({len(text) - most:,} characters more)" if len(text) > most and not full else ""
        shown.append(text[: most if left else None].rstrip() + left + "\n", style=style)

    say(f"── {trajectory.id} ──", "bold")
    say(trajectory.question.text)
    if trajectory.question.answers:
        say("accepted: " + " | ".join(trajectory.question.answers), "green")
    for node in trajectory.branch():
        if node.kind is NodeKind.TURN:
            number += 1
            say(f"── turn {number}" + (f" · odd: {', '.join(node.problems)}" if node.problems else "") + " ──", "dim")
            is_plain = node.problems or not (node.calls or node.answer is not None)
            say(node.text if is_plain else node.think or "", "dim")
            for call in node.calls:
                arguments = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in call.arguments.items())
                say(f"→ {call.name}({arguments})", "cyan")
            if node.answer is not None:
                say(f"answer: {node.answer}", "bold green")
        elif node.kind is NodeKind.OBSERVATION:
            reading = read_result(node.text, node.events)
            hits, pages = [hit for block in reading.blocks for hit in block.hits], len(reading.extracts)
            held = counted_as(pages, "page") if pages else counted_as(len(hits), "result") if reading.blocks else ""
            failed = "".join(f", {event.name}: {event.status}" for event in node.events if event.status is not ToolStatus.OK)
            say(f"← {held}{', ' if held else ''}{len(node.text):,} characters{failed}", "cyan")
            say("\n".join(f"{hit.title}  {hit.url}" for hit in hits[:5]) if hits and not full else unwrap(node.text))
        elif full or number or node.kind not in (NodeKind.SYSTEM, NodeKind.QUESTION):
            say(f"{node.kind.value}: {node.text}", "yellow")
    roles, trained = Counter(_call_roles(trajectory)), trajectory.meta.get("rl")
    outcome = (trained if isinstance(trained, dict) else {"outcome": trajectory.meta.get("held_out", "")}).get("outcome")
    say(f"── {trajectory.ending.value if trajectory.ending else NO_ENDING} ── {trajectory.detail}", "bold")
    say(f"{number} turns, {roles['search']} searches, {roles['visit']} visits, {trajectory.seconds:.1f} s")
    if (ruling := ruling_of(trajectory)) is not None:
        say(f"judged: {ruling.value}")
    if outcome != "":
        told = f"{outcome:.3g}" if isinstance(outcome, float | int) else outcome
        say(f"outcome: {'unscored' if outcome is None else told}")
    say(" · ".join(filter(None, (trajectory.profile, trajectory.model, trajectory.world))))
    return shown
