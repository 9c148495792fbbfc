"""Recorded calls repeated in a world: values by hand and by definition, what was added later, and what is refused."""

import json
from collections.abc import Sequence

import pytest
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Role
from sanderling.evaluate.fidelity import compare, summarise
from sanderling.world.contract import Page
from sanderling.world.local import LocalWorld
from sanderling.world.recorded import built_from, place_of, read_built_from, split


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
