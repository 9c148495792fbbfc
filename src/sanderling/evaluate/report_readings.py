"""Trajectories on the page, turn by turn: thought, call, observation, answer. All text is escaped by its markup."""

from collections.abc import Sequence

from sanderling.core.record import NodeKind
from sanderling.evaluate.format import duration, ending_words
from sanderling.evaluate.markup import Html, join, tag
from sanderling.evaluate.reading import Outcome, Reading, Step

_LONG = 600
"""Characters of an observation that are shown without a click."""

_TITLES = {
    NodeKind.SYSTEM: "System prompt",
    NodeKind.QUESTION: "Question as asked",
    NodeKind.OBSERVATION: "Observation",
    NodeKind.HINT: "Notice from the loop",
    NodeKind.RAW: "Message",
}
_MARKS = {Outcome.CORRECT: "right", Outcome.WRONG: "wrong", Outcome.UNSCORED: "unscored"}


def readings_html(readings: Sequence[Reading], *, open_first: bool = True) -> Html:
    """Every reading as a collapsible block."""
    return join(*[_episode(reading, open_first and index == 0) for index, reading in enumerate(readings)])


def _episode(reading: Reading, first: bool) -> Html:
    summary = tag(
        "summary",
        tag("span", _MARKS[reading.outcome], class_=f"mark {reading.outcome}"),
        tag("span", reading.title, class_="episode-title"),
        tag("span", reading.question, class_="episode-question"),
    )
    return tag(
        "details", summary, _facts(reading), tag("ol", *map(_step, reading.steps), class_="steps"), class_="episode", open=first
    )


def _facts(reading: Reading) -> Html:
    turns = sum(step.turn is not None for step in reading.steps)
    pairs = {
        "Expected": " / ".join(reading.expected) or "unknown",
        "Answered": reading.answer if reading.answer is not None else "nothing",
        "Ended": ending_words(reading.ending or "unknown") + (f": {reading.detail}" if reading.detail else ""),
        "Turns": str(turns),
        "Hops": "" if reading.hops is None else str(reading.hops),
        "Time": duration(reading.seconds),
        "Model": reading.model,
        "Episode": f"{reading.id} ({reading.seeds})",
    }
    return tag("dl", *[join(tag("dt", k), tag("dd", v)) for k, v in pairs.items() if v], class_="facts")


def _step(step: Step) -> Html:
    title = f"Turn {step.turn}" if step.turn is not None else _TITLES.get(step.kind, "Rejected attempt")
    head = tag(
        "div", tag("span", title), *[tag("span", status, class_="status") for status in step.statuses], class_="step-head"
    )
    problems = tag("p", "Odd: " + ", ".join(step.problems), class_="problems") if step.problems else None
    body = _turn(step) if step.kind is NodeKind.TURN else _message(step)
    return tag("li", head, body, problems, class_=f"step {step.kind}" + (" rejected" if step.rejected else ""))


def _turn(step: Step) -> Html:
    return join(
        tag("p", step.think, class_="think") if step.think else None,
        *[tag("pre", call, class_="call") for call in step.calls],
        tag("pre", step.text, class_="said") if step.text else None,
        tag("p", tag("span", "Answer", class_="tag"), step.answer, class_="answer") if step.answer is not None else None,
    )


def _message(step: Step) -> Html:
    whole = tag("pre", step.text)
    if step.kind in (NodeKind.SYSTEM, NodeKind.QUESTION):
        return tag("details", tag("summary", f"{len(step.text):,} characters"), whole)
    if len(step.text) <= _LONG:
        return whole
    return tag(
        "details",
        tag("summary", tag("span", step.text[:_LONG] + " …", class_="opening"), tag("span", "all of it", class_="more")),
        whole,
    )
