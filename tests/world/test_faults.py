"""A world with faults, drawn from seeds alone, at the rates of its profile; orders in pages."""

import json
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from coast import TIDES, Always, coast
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Role, ToolStatus
from sanderling.evaluate.fidelity import compare, summarise
from sanderling.world.contract import Occasion, Page, answered
from sanderling.world.faults import PROFILES, FaultProfile, FaultyWorld, Latency, PageNoise, VisitFaults, get_faults
from sanderling.world.local import LocalWorld
from sanderling.world.recorded import built_from, place_of, read_built_from, split

COAST = coast()
WEB, HOSTILE = PROFILES["web"], PROFILES["hostile"]
HARSH = HOSTILE.model_copy(update={"pages": PageNoise(stale=0.3, injected=0.3)})
URLS = [page.url for page in TIDES] + ["https://nowhere.example", "", "::"]
SEARCH = st.tuples(st.just("search"), st.sampled_from(["tidal flat", "waders winter", "1998", "", "zzz"]), st.just(""))
VISIT = st.tuples(st.just("visit"), st.sampled_from(URLS), st.sampled_from(["", "waders"]))
CALLS = st.lists(st.tuples(st.one_of(SEARCH, VISIT), st.integers(0, 2)), max_size=12, unique=True)


def reply_of(world, call, episode=0):
    (kind, text, goal), occurrence = call
    if kind == "search":
        return answered(world.search(text, occasion=Occasion(episode_seed=episode, occurrence=occurrence)))
    return answered(world.visit(text, goal, occasion=Occasion(episode_seed=episode, occurrence=occurrence)))


@settings(max_examples=60)
@given(CALLS, st.randoms(use_true_random=False), st.integers(0, 3))
def test_order_company_and_instance_change_no_reply(calls, rng: random.Random, episode: int) -> None:
    world = FaultyWorld(COAST, HARSH, seed=5)
    plain = {call: reply_of(world, call, episode) for call in calls}
    shuffled = rng.sample(calls, len(calls))
    assert {call: reply_of(world, call, episode) for call in shuffled} == plain
    other = FaultyWorld(COAST, HARSH, seed=5)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda call: reply_of(other, call, episode), shuffled)) == [plain[call] for call in shuffled]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 12), st.sampled_from([0.5, 2.0, 5.0]))
def test_a_longer_list_begins_with_the_shorter_one(seed: int, short: int, more: int, spread: float) -> None:
    """Serper's second page goes on where its first ended, also where results are moved, copied and spammed."""
    noise = HOSTILE.results.model_copy(update={"rank_noise": spread})
    world = FaultyWorld(COAST, FaultProfile(results=noise), seed=seed)
    long = answered(world.search("tidal flat waders", limit=short + more)).hits
    assert answered(world.search("tidal flat waders", limit=short)).hits == long[:short]


@pytest.mark.parametrize("profile", [WEB, HOSTILE], ids=lambda profile: profile.name)
def test_failures_come_as_often_as_the_profile_says(profile: FaultProfile) -> None:
    """Each count lies in the central 99.99% of its binomial distribution (fixed seeds)."""
    world, n = FaultyWorld(Always(), profile, seed=3), 4_000
    visits = [answered(world.visit(f"https://p.example/{number}")).status for number in range(n)]
    searches = [answered(world.search(f"query {number}", limit=1)).status for number in range(n)]
    for chances, met in ((profile.visit, visits), (profile.search, searches)):
        for name, chance in chances.model_dump().items():
            low, high = binom.interval(0.9999, n, chance)
            assert low <= met.count(ToolStatus(name)) <= high, name


def test_dead_pages_stay_dead_and_timeouts_pass() -> None:
    lasting, passing = {"not_found": 0.1, "gone": 0.1, "blocked": 0.1, "paywalled": 0.1}, {"timeout": 0.3, "rate_limited": 0.1}
    world = FaultyWorld(Always(), FaultProfile(visit=VisitFaults(**lasting, **passing)), seed=1)
    fates, passed = set(), 0
    for number in range(60):
        occasions = [Occasion(occurrence=n) for n in range(5)]
        tries = [answered(world.visit(f"https://p.example/{number}", occasion=one)).status for one in occasions]
        met = {status for status in tries if status not in passing}
        assert len(met) <= 1
        fates |= met
        passed += tries[0] in passing and bool(met)
    assert fates == {*lasting, "ok"} and passed > 5


def test_a_stale_page_lacks_its_newest_year() -> None:
    world = FaultyWorld(Always(), FaultProfile(pages=PageNoise(stale=1)))
    assert answered(world.visit("https://a.example")).text.strip() == "The hut was built in 1911."


def test_profiles_are_data(tmp_path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\n[visit]\nnot_found = 0.5\n[search_latency]\nmedian_s = 1\np95_s = 2\n')
    mine = get_faults(str(file))
    assert (mine.name, mine.visit.not_found, mine.search_latency) == ("mine", 0.5, Latency(median_s=1, p95_s=2))
    assert get_faults("web") is PROFILES["web"]
    assert {profile.pages.injected for profile in PROFILES.values()} == {0}
    for text, word in (("[visit]\nnotfound = 0.5", "not_found"), ("[visit]\ngone = 0.6\nblocked = 0.6", "add up to 1.2")):
        file.write_text(text)
        with pytest.raises(UserError, match=word):
            get_faults(str(file))
    with pytest.raises(UserError, match="calm, web, hostile"):
        get_faults("stormy")
    with pytest.raises(ValueError, match="below"):
        Latency(median_s=2, p95_s=1)


# -- Recorded calls repeated in a world: values by hand and by definition, what was added later, and what is refused -------


def results(query: str, *hits: tuple[str, str]) -> str:
    found = [{"title": url, "url": url, "snippet": text} for url, text in hits]
    return json.dumps([{"query": query, "web_page_info_list": found}])


def extract(url: str, text: str) -> str:
    return f"The useful information in {url} for user goal g as follows: \n\nEvidence in page: \n{text}\n\nSummary: \nshort"


def trajectory(id: str, question: str, *observations: str, answers: Sequence[str] = ()) -> Trajectory:
    nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text=question)]
    for text in observations:
        wrapped = f"<tool_response>\n{text}\n</tool_response>"
        nodes.append(Node(parent=len(nodes) - 1, role=Role.USER, kind=NodeKind.OBSERVATION, text=wrapped))
    asked = Question(id=question, text=question, answers=tuple(answers))
    return Trajectory(id=id, question=asked, nodes=tuple(nodes), leaf=len(nodes) - 1, ending=None)


def test_values_by_hand():
    """Two questions whose answer was read, one of them still can be; a third's never was. Of two results one is listed."""
    tern, gone, bel = "https://b.example/tern", "https://b.example/gone", ["Anna Bel"]
    page = Page(url=tern, title="Tern", text="The tern eats herring, says Anna Bel, and crosses oceans.")
    world = LocalWorld.in_memory([page], name="w")
    asked = [
        trajectory("t", "q0", results("tern", (gone, "x"), (tern, "x")), extract(tern, "One tern, Anna Bel"), answers=bel),
        trajectory("u", "q1", results("tern", (gone, "x")), results("none"), extract(gone, "Ivo"), answers=["Ivo"]),
        trajectory("v", "q2", results("zebra", (gone, "x")), extract(tern, "word"), answers=["oceans"]),
    ]
    rows, counts = compare(world, asked, None, k=2)
    assert counts == {"trajectories": 3, "searches": 4, "visits": 3, "asked_before": 0}
    whole = summarise("l", rows, counts)
    assert {one.name: (one.n, one.value) for one in whole.figures} == {
        "overlap": (3, pytest.approx(0.5 / 3)), "visit_held": (3, pytest.approx(2 / 3)), "answer_read": (2, 0.5),
    }  # fmt: skip
    for one in whole.figures:
        assert one.interval is not None and one.interval.low <= one.value <= one.interval.high
    known = built_from(asked[:1], asked[1:], 0.5, 0)  # it asked q1's query too
    assert compare(world, asked[1:], known, k=2)[1] == {"trajectories": 2, "searches": 2, "visits": 2, "asked_before": 1}


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def recordings(tmp_path):
    """A directory of ten trajectories, and a world that was built from some of them."""
    place = tmp_path / "recorded"
    hits = [[("https://all.example/", "sea"), (f"https://only{n}.example/", "bird")] for n in range(10)]
    made = [trajectory(f"t{n}", f"question {n}", results(f"topic {n}", *found)) for n, found in enumerate(hits)]
    place.mkdir()
    (place / "all.jsonl").write_text("".join(f"{one.model_dump_json()}\n" for one in made))
    run("build", "recorded", "--from", place, "--out", tmp_path / "w", "--hold-out", 0.4, "--seed", 1)
    return place


def test_trajectories_that_are_added_later_are_not_held_out(recordings, tmp_path):
    run("build", "recorded", "--from", recordings, "--out", tmp_path / "other")
    run("add", tmp_path / "w", tmp_path / "other")
    with pytest.raises(UserError, match="All 10 trajectories were built into"):
        run("fidelity", tmp_path / "w", "--against", recordings, "--out", tmp_path / "out")


def test_what_is_refused(recordings, tmp_path):
    (file := tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--out"):
        run("fidelity", tmp_path / "w", "--against", recordings, "--out", file)
    with pytest.raises(UserError, match="cannot be held out"):
        split([], 1.0, 0)
    with pytest.raises(UserError, match="hold out less"):
        split([trajectory("t", "question 0")], 0.9, next(seed for seed in range(100) if place_of("question 0", seed) < 0.9))
    (tmp_path / "built_from.json").write_text('{"share": 1}')
    with pytest.raises(UserError, match="again"):
        read_built_from(tmp_path)
