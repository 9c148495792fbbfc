"""Comparing a world with recorded trajectories that it was not built from, and with those it was if the upper bound is wanted.

Decides what is compared and says what was left out and why; the measures are `world.fidelity`'s, the figures `fidelity`'s.
Opens no file and no socket.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from pydantic import BaseModel, ConfigDict

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.evaluate.fidelity import Part, part
from sanderling.evaluate.report_model import RunFacts
from sanderling.world.contract import World
from sanderling.world.fidelity import (
    RecordedCalls,
    RecordedSearch,
    Settings,
    compare_searches,
    compare_visits,
    recorded_calls,
    weight_of_top,
)
from sanderling.world.recorded import BuiltFrom, Unit, sides, was_asked

UNSEEN = "held out"
BUILT_IN = "built in (upper bound)"
_OF = {
    Unit.QUESTION: "of questions it never saw",
    Unit.TRAJECTORY: "though perhaps from other attempts at their questions",
}
_SEVERAL = " + "
"""Between the names of a world's sources."""
LIMITS = (
    "Nothing here was measured against today's web: the only reference is what was recorded, and no live engine was asked.",
    "The recorded lists come from commercial engines that are not named, at dates that are not known, in several set-ups; two "
    "live engines, or one on two days, would not agree fully either, and how far they would is not known here.",
    "The world ranks by words; a commercial engine ranks by much else. Low agreement of ranks is not low quality for an agent: "
    "relevance was judged by nobody, and whether agents do equally well in both is another measure.",
    "Coverage is bounded by what was recorded. A world of recorded trajectories holds the pages that others met; it does not "
    "know what else the web would have shown.",
    "Recorded extracts were written by a language model that was given a goal; the world cuts passages. Shared words measure "
    "both differences at once. Why a recorded visit failed is mostly not told.",
    "Answering pages and leaks are found by words, and nobody judged them. Answering pages are those that recorded agents "
    "opened, mostly from the recorded lists themselves: the recorded side of these figures is favoured by construction.",
    "Latencies were not recorded in trajectories, so none are compared. A domain is a host name without www.",
)
"""What the figures cannot show, in plain words."""


class FidelityReport(BaseModel):
    """All figures with what made them. Holds neither texts nor addresses."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null")

    run: RunFacts
    world: str
    world_source: str
    fingerprint: str
    pages: int
    settings: dict[str, float]
    weight_of_top_k: float
    """Share of the weight of rank-biased overlap within the first k ranks; the rest is extrapolated."""
    parts: tuple[Part, ...]
    same_question: int
    """Trajectories that were not built in, but whose question was: compared in no part."""
    remarks: tuple[str, ...]
    limits: tuple[str, ...] = LIMITS


@dataclass(frozen=True)
class Asked:
    """What a person asked for."""

    settings: Settings
    built_in: bool
    """Whether the upper bound on built-in trajectories is wanted too."""
    seed: int
    """Of the intervals."""


@dataclass(frozen=True)
class Subject:
    """The world that is compared."""

    world: World
    holds: Callable[[str], bool]
    """Whether it has a page of an address."""
    source: str
    """What it was built from, in words."""
    known: BuiltFrom | None
    """What trajectories; None for a world that remembers none."""


def compare_world(subject: Subject, trajectories: Sequence[Trajectory], asked: Asked) -> tuple[list[Part], int, list[str]]:
    """The parts, how many trajectories were left out for their question, and remarks.

    Raises UserError when no trajectory is left to compare, or when a recorded world does not say what it was built from.
    """
    known = subject.known
    if known is None:
        if subject.source.startswith("recorded"):
            raise UserError("This recorded world does not say which trajectories it was built from: build it again.")
        remark = "The world keeps no list of trajectories that it was built from, so nothing shows that these were held out."
        return [_part("recorded calls", remark, subject, trajectories, asked, None)], 0, [remark]
    found = sides(trajectories, known)
    parts = []
    if found.unseen:
        said = f"Trajectories the world was not built from, {_OF[known.unit]} (share {known.share:g}, seed {known.seed})."
        parts.append(_part(UNSEEN, said, subject, found.unseen, asked, known))
    elif not asked.built_in:
        raise UserError(
            f"All {len(trajectories)} trajectories were built into this world, or share a question with one that was: "
            "build it again with --hold-out 0.2, give others, or ask for the upper bound with --built-in."
        )
    if asked.built_in and found.built_in:
        said = "Trajectories the world was built from: it knows these pages. An upper bound, no measure of fidelity."
        parts.append(_part(BUILT_IN, said, subject, found.built_in, asked, None))
    if not parts:
        raise UserError("None of these trajectories can be compared with this world: give the ones it was built beside.")
    remarks = [] if found.unseen else ["No held-out trajectory was given: there is only the upper bound."]
    if _SEVERAL in subject.source:
        remarks.append("This world has other sources too: nothing shows that none of them holds what these trajectories met.")
    return parts, len(found.same_question), remarks


def report_of(subject: Subject, trajectories: Sequence[Trajectory], asked: Asked, run: RunFacts) -> FidelityReport:
    """The whole report. Raises UserError as `compare_world`."""
    parts, same_question, remarks = compare_world(subject, trajectories, asked)
    return FidelityReport(
        run=run,
        world=subject.world.name,
        world_source=subject.source,
        fingerprint=subject.world.fingerprint,
        pages=subject.world.page_count,
        settings=asdict(asked.settings),
        weight_of_top_k=weight_of_top(asked.settings.k, asked.settings.p),
        parts=tuple(parts),
        same_question=same_question,
        remarks=tuple(remarks),
    )


def _part(
    label: str, remark: str, subject: Subject, trajectories: Sequence[Trajectory], asked: Asked, known: BuiltFrom | None
) -> Part:
    calls = recorded_calls(trajectories)
    searches, asked_before = _new(calls, known)
    return part(
        label,
        remark,
        compare_searches(searches, subject.world, subject.holds, asked.settings),
        compare_visits(calls.visits, subject.world, subject.holds, asked.settings),
        trajectories=len(trajectories),
        distinct_queries=len({search.query for search in searches}),
        asked_before=asked_before,
        seed=asked.seed,
        k=asked.settings.k,
    )


def _new(calls: RecordedCalls, known: BuiltFrom | None) -> tuple[list[RecordedSearch], int]:
    """The searches whose very query was not built in, and how many were."""
    kept = [search for search in calls.searches if known is None or not was_asked(search, known)]
    return kept, len(calls.searches) - len(kept)
