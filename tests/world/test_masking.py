"""Masks: pages, their near-duplicates and blocked sites are in no list and no page, and neither are links to them."""

import hashlib
import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.core.text import question_tokens
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import NO_OCCASION, Occasion, Page, World, answered
from sanderling.world.disk.duplicates import THRESHOLD, near_duplicates, save_groups, signature
from sanderling.world.disk.store import groups_file, load_groups
from sanderling.world.filters import GuardedWorld, MaskedWorld, filtered, read_blocklist, without_links
from sanderling.world.guard import Blocklist, Found, Guard, GuardKind, GuardLine, Wording, as_words
from sanderling.world.local import LocalWorld

ORLO = "https://w.example/Orlo_(poet)"
COPY = "https://mirror.example/orlo"
TEXT = "Orlo was a poet of the northern coast who wrote forty odes to the tide, and kept a lighthouse there until he died."
PAGES = [
    Page(url=ORLO, title="Orlo", text=TEXT),
    Page(url=COPY, title="Orlo (copy)", text=TEXT + " Copied."),
    Page(url="https://leaks.example/quiz", title="Quiz", text="The answer to the poet quiz is Orlo."),
    Page(
        url="https://w.example/Poets",
        title="Poets",
        text="Read about [Orlo](/wiki/../Orlo_(poet)) or <http://w.example/Orlo_(poet)#life>, see "
        '[a copy](https://mirror.example/orlo "Orlo") and [Bex](https://w.example/Bex).\n\n'
        "Also www.leaks.example/quiz?page=2, he said. ![face](Orlo_%28poet%29)\n\n[1]: https://mirror.example/orlo 'x'\n",
    ),
]
GROUPS = [[ORLO, COPY]]


def world(groups=GROUPS, blocked: str = "") -> MaskedWorld:
    return MaskedWorld(LocalWorld.in_memory(PAGES, name="poets"), groups, Blocklist.parse(blocked))


@pytest.mark.parametrize("mask", [ORLO, COPY, "http://W.example/Orlo_%28poet%29/#life"])
def test_a_mask_reaches_near_duplicates_and_links(mask: str) -> None:
    masked = frozenset({mask})
    found = answered(world().search("Orlo poet copy", occasion=Occasion(masked=masked)))
    assert {hit.url for hit in found.hits} == {"https://leaks.example/quiz", "https://w.example/Poets"}
    for url in (ORLO, COPY):
        assert answered(world().visit(url, occasion=Occasion(masked=masked))).status is ToolStatus.NOT_FOUND
        assert answered(world().visit(url)).status is ToolStatus.OK
    read = answered(world().visit("https://w.example/Poets", occasion=Occasion(masked=masked))).text.rstrip()
    assert read == (
        "Read about Orlo or , see a copy and [Bex](https://w.example/Bex).\n\nAlso www.leaks.example/quiz?page=2, he said. face"
    )
    assert not any(name in hit.snippet for hit in found.hits for name in ("mirror.example", "Orlo_("))


HIDDEN = frozenset(
    {"https://h.example/wiki/Hid", canonical_url("https://zh.example/维基/外星人"), "https://h.example/a_(b_(c))"}
)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[![face](x.png)](/wiki/Hid)", "face"),
        ("[see\n\tit](\n/wiki/Hid)", "see\n\tit"),
        (r"[x\]](/wiki/Hid)", r"x\]"),
        ("at https://h.example/a_(b_(c)), then", "at , then"),
        ("at h.example/wiki/Hid and //h.example/wiki/Hid", "at  and "),
        ("https://zh.example/维基/外星人。", "。"),
        ("https://archive.example/2020/https://h.example/wiki/Hid.", ""),
        ('<a class="r" href="/wiki/Hid">x</a> <a href=Hid>y</a>', '<a class="r">x</a> <a>y</a>'),
        ("https://h.example/wiki/Hidden joe@h.example/wiki/Hid [x](/wiki/Seen)", None),
    ],
)
def test_a_hidden_address_is_found_however_it_is_written(text: str, left: str | None) -> None:
    assert without_links(text, "https://h.example/wiki/Other", HIDDEN.__contains__) == (text if left is None else left)


def groups_of(pages: Iterable[Page], threshold: float = THRESHOLD) -> list[list[str]]:
    """Near-duplicates by address."""
    given = list(pages)
    signed = [(number, found) for number, page in enumerate(given) if (found := signature(page.text)) is not None]
    return [[given[number].url for number in group] for group in near_duplicates(signed, threshold)]


def test_a_worlds_directory_says_what_is_masked(tmp_path) -> None:
    local = LocalWorld.in_memory(PAGES, name="poets")

    def masked_world() -> World:
        groups = load_groups(tmp_path, local.fingerprint)
        return filtered(local, read_blocklist(tmp_path / "blocklist.txt"), groups=groups)

    with pytest.raises(UserError, match="cannot be read"):
        masked_world()
    save_groups(tmp_path, local.fingerprint, [])
    assert masked_world().fingerprint == local.fingerprint
    save_groups(tmp_path, local.fingerprint, groups_of(local.all_pages(), 0.7))
    (tmp_path / "blocklist.txt").write_text("leaks.example\n")
    opened = masked_world()
    assert opened.fingerprint != local.fingerprint and opened.name == "poets" and opened.page_count == 4
    assert [hit.url for hit in answered(opened.search("Orlo", occasion=Occasion(masked=frozenset({ORLO})))).hits] == [
        "https://w.example/Poets"
    ]
    path = tmp_path / groups_file(local.fingerprint)
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"fingerprint": "another"}))
    with pytest.raises(UserError, match="is damaged"):
        load_groups(tmp_path, local.fingerprint)
    path.write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        load_groups(tmp_path, local.fingerprint)
    (tmp_path / "blocklist.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="one host, URL or"):
        read_blocklist(tmp_path / "blocklist.txt")


# -- The guard: what repeats a question is found word for word, and a guarded world does not show it -----------------------


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


WORDY = st.lists(st.sampled_from(["tide", "bell", "coast", "storm", "ode", "keeper"]), min_size=0, max_size=40).map(" ".join)


@given(WORDY, WORDY, WORDY)
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
SHOWN = [
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
def guarded(lines: list[GuardLine]) -> GuardedWorld:
    return GuardedWorld(LocalWorld.in_memory(SHOWN, name="w"), guard(lines))


def on(question: str = "q1", attempt: int = 0) -> Occasion:
    return Occasion(question=question, attempt=attempt)


def test_a_leak_is_missing_as_any_missing_page_is(guarded: GuardedWorld, lines: list[GuardLine]) -> None:
    missing = answered(guarded.visit("https://no.example/", occasion=on()))
    for url in (LEAK, LONG_LEAK, f"{LONG_LEAK}#page=2", f"{LONG_LEAK}#page=99"):
        reply = answered(guarded.visit(url, "odes", max_words=50, occasion=on(attempt=3)))
        assert (reply.title, reply.text, reply.status, reply.part, reply.parts, reply.url) == (
            missing.title, missing.text, missing.status, missing.part, missing.parts, url,
        )  # fmt: skip
    assert {(line.question, line.attempt, line.tool, line.kind) for line in lines} == {("q1", 3, "visit", GuardKind.VERBATIM)}
    text = next(page for page in SHOWN if page.url == LEAK)
    assert lines[0].sha256 == hashlib.sha256(f"{text.title}\n{text.text}".encode()).hexdigest()


def test_a_page_hides_from_its_own_question_alone(guarded: GuardedWorld, lines: list[GuardLine]) -> None:
    assert answered(guarded.visit(LEAK, occasion=on("q2"))).status is ToolStatus.OK
    assert LEAK in {hit.url for hit in answered(guarded.search("odes to the tide lighthouse", occasion=on("q2"))).hits}
    assert answered(guarded.visit(LEAK, occasion=on("unknown"))).status is ToolStatus.OK
    assert answered(guarded.visit(LEAK, occasion=NO_OCCASION)).status is ToolStatus.OK
    assert {line.kind for line in lines} <= {GuardKind.CANARY}
    assert answered(guarded.visit("https://copy.example/set", occasion=on("q2"))).status is ToolStatus.NOT_FOUND, (
        "a canary, from all"
    )
