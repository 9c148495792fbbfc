"""The guard: what repeats a question is found word for word, and a guarded world does not show it."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.text import question_tokens
from sanderling.core.types import ToolStatus
from sanderling.world.contract import NO_OCCASION, Occasion, Page, answered
from sanderling.world.filters import GuardedWorld
from sanderling.world.guard import Blocklist, Found, Guard, GuardKind, GuardLine, Wording, as_words
from sanderling.world.local import LocalWorld

# Wording


LONG = (
    "Which keeper of a lighthouse on the northern coast, who once taught music in a town known for its bells, wrote forty odes "
    "to the tide before a storm of the nineteenth century took the library that his sister had founded there?"
)
WORDS = LONG.split()


def found(question: str, text: str) -> Found | None:
    return Wording.of(question).found_in(as_words(text))


def words(count: int, start: int = 0) -> str:
    return " ".join(WORDS[start : start + count])


TEXT = st.lists(st.sampled_from(["tide", "bell", "coast", "storm", "ode", "keeper"]), min_size=0, max_size=40).map(" ".join)


@given(TEXT, TEXT, TEXT)
def test_what_holds_the_question_is_a_leak_and_more_text_changes_nothing(question: str, before: str, after: str) -> None:
    got = found(question, f"{before} {question} {after}")
    assert (got == (GuardKind.VERBATIM, "whole question")) is (len(question_tokens(question)) >= 8)


@given(st.integers(14, len(WORDS)), st.integers(0, 30), st.integers(13, 60))
def test_the_share_of_runs_decides(length: int, start: int, count: int) -> None:
    question, text = words(length), words(count, start)
    runs = {" ".join(WORDS[i : i + 13]) for i in range(length - 12)}
    held = sum(run in text for run in runs)
    got = found(question, text)
    if question in text:
        assert got == (GuardKind.VERBATIM, "whole question")
    else:
        assert (got is not None) is (held > 0)
        assert got is None or (got[0] is GuardKind.VERBATIM) is (held >= 2 and 2 * held >= len(runs))


ASKED = "Which keeper of the northern lighthouse wrote forty odes to the tide before the great storm took his library?"
OTHER = "Which teacher of music in a town known for its bells later kept the northern lighthouse until the great storm?"
QUESTIONS = {"q1": ASKED, "q2": OTHER}
LEAK = "https://quiz.example/1"
LONG_LEAK = "https://quiz.example/long"
FILLER = "The harbour has a quay and a mill. " * 400
PAGES = [
    Page(url="https://w.example/tide", title="Odes to the tide", text="Odes to the tide were written at the lighthouse."),
    Page(url=LEAK, title="Quiz", text=f"{ASKED}\n\nOrlo wrote the odes to the tide."),
    Page(url="https://w.example/keeper", title="Keeper of the lighthouse", text="A keeper lit the lighthouse and wrote odes."),
    Page(
        url=LONG_LEAK, title="Odes and quizzes", text=f"# Odes\n\nOdes to the tide.\n\n{FILLER}\n\n# Answers\n\n{ASKED} Orlo."
    ),
    Page(url="https://w.example/source", title="Orlo", text=" ".join(ASKED.split()[:13]) + " and then slept."),
    Page(url="https://copy.example/set", title="Set", text="tide canary GUID 26b5c67b-86ad odes lighthouse"),
]


@pytest.fixture
def lines() -> list[GuardLine]:
    return []


def guard(lines: list[GuardLine], blocked: str = "") -> Guard:
    return Guard(Blocklist.parse(blocked), QUESTIONS, ["canary GUID 26b5c67b-86ad"], lines.append)


@pytest.fixture
def world(lines: list[GuardLine]) -> GuardedWorld:
    return GuardedWorld(LocalWorld.in_memory(PAGES, name="w"), guard(lines))


def on(question: str = "q1", attempt: int = 0) -> Occasion:
    return Occasion(question=question, attempt=attempt)


def test_a_leak_is_missing_as_any_missing_page_is(world: GuardedWorld, lines: list[GuardLine]) -> None:
    missing = answered(world.visit("https://no.example/", occasion=on()))
    for url in (LEAK, LONG_LEAK, f"{LONG_LEAK}#page=2", f"{LONG_LEAK}#page=99"):
        reply = answered(world.visit(url, "odes", max_words=50, occasion=on(attempt=3)))
        assert (reply.title, reply.text, reply.status, reply.part, reply.parts, reply.url) == (
            missing.title, missing.text, missing.status, missing.part, missing.parts, url,
        )  # fmt: skip
    assert {(line.question, line.attempt, line.tool, line.kind) for line in lines} == {("q1", 3, "visit", GuardKind.VERBATIM)}
    text = next(page for page in PAGES if page.url == LEAK)
    assert lines[0].sha256 == hashlib.sha256(f"{text.title}\n{text.text}".encode()).hexdigest()


def test_a_page_hides_from_its_own_question_alone(world: GuardedWorld, lines: list[GuardLine]) -> None:
    assert answered(world.visit(LEAK, occasion=on("q2"))).status is ToolStatus.OK
    assert LEAK in {hit.url for hit in answered(world.search("odes to the tide lighthouse", occasion=on("q2"))).hits}
    assert answered(world.visit(LEAK, occasion=on("unknown"))).status is ToolStatus.OK
    assert answered(world.visit(LEAK, occasion=NO_OCCASION)).status is ToolStatus.OK
    assert {line.kind for line in lines} <= {GuardKind.CANARY}
    assert answered(world.visit("https://copy.example/set", occasion=on("q2"))).status is ToolStatus.NOT_FOUND, (
        "a canary, from all"
    )
