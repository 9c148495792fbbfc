"""What a person reads before training: a set's figures, its page, and one trajectory on the terminal."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from import_files import save
from rich.console import Console, RenderableType
from strategies import trajectories
from test_jsonl import make

from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, ToolEvent, Trajectory
from sanderling.core.types import Ending, Role, ToolCall, ToolStatus
from sanderling.data.importing import open_trajectories
from sanderling.data.resample import Schedule, resample, resample_file
from sanderling.data.stats import data_page, figures_table, find_trajectory, portray, transcript
from sanderling.runs.jsonl import TrajectoryStore, write_trajectories


def printed(what: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, width=120, force_terminal=False).print(what)
    return out.getvalue()


def turn(parent: int, text: str = "…", **fields) -> Node:
    return Node(parent=parent, role=Role.ASSISTANT, kind=NodeKind.TURN, text=text, **fields)


HITS = [{"title": f"Title {n}", "url": f"https://x.org/{n}", "snippet": "[bold]words[/bold]"} for n in range(8)]
SEEN = "<tool_response>\n" + json.dumps([{"query": "a", "web_page_info_list": HITS}]) + "\n</tool_response>"


def whole(**fields) -> Trajectory:
    search = ToolCall(name="search", arguments={"query": ["[red]a[/red]"]})
    event = ToolEvent(name="search", role="search", status=ToolStatus.TIMEOUT)
    nodes = (
        Node(parent=None, role=Role.SYSTEM, kind=NodeKind.SYSTEM, text="the system prompt"),
        Node(parent=0, role=Role.USER, kind=NodeKind.QUESTION, text="why?"),
        turn(1, text="garbled attempt", rejected=True, problems=("no_action",)),
        turn(1, think="let me think", calls=(search,), token_ids=(1, 2, 3)),
        Node(parent=3, role=Role.USER, kind=NodeKind.OBSERVATION, text=SEEN, events=(event,)),
        turn(4, text="x" * 700 + "\x1b[2Jend", problems=("stray_text",), answer="42"),
        turn(3, text="reset"),
    )
    question = Question(id="q", text="why?", answers=("42", "forty-two"))
    about = {"id": "t", "leaf": 5, "ending": Ending.ANSWERED, "answer": "42", "model": "m"}
    return Trajectory(question=question, nodes=nodes, **(about | fields))


def test_a_set_in_figures_in_a_table_and_on_a_page() -> None:
    one, empty = portray("a_set", [whole(), whole(meta={"evaluation": {"correct": True}})]), portray("none", [])
    assert one["turns"]["median"] == one["turns"]["most"] == 2 and empty["turns"]["median"] is None
    assert (one["tools"], one["browse_share"]) == ({"search": 2}, 0.0)
    assert one["standings"] == {"not judged": 1, "correct": 1} and one["correct_share"] == 1.0
    table, page = printed(figures_table([one, empty])), data_page("Data", [one, empty], command="sanderling data stats")
    for text in (table, page):
        assert "a_set" in text and "search 2" in text and "–" in text


@pytest.mark.parametrize(
    ("meta", "told"), [({"rl": {"outcome": 2 / 3}}, "0.667"), ({"rl": {"outcome": None}}, "unscored"), ({"held_out": 1.0}, "1")]
)
def test_a_rollout_says_what_it_was_scored(meta: dict, told: str) -> None:
    assert f"outcome: {told}\n" in printed(transcript(whole(meta=meta)))


@given(trajectories())
@settings(max_examples=40, deadline=None)
def test_any_record_can_be_printed(trajectory: Trajectory) -> None:
    for full in (False, True):
        assert printed(transcript(trajectory, full=full)).encode("utf-8").strip()


def test_bad_files_are_one_sentence(tmp_path: Path) -> None:
    store = TrajectoryStore(tmp_path / "s.jsonl")
    store.append(make("first"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "noise.jsonl").write_bytes(bytes(range(256)))
    save(tmp_path / "q.jsonl", '{"question": "Q?", "answer": "A"}\n')
    for path, options, message in (
        (tmp_path / "none.jsonl", {}, "no file"),
        (tmp_path / "folder", {}, "holds no recorded file"),
        (tmp_path / "empty.jsonl", {}, "holds no trajectory yet"),
        (tmp_path / "noise.jsonl", {}, "no recorded trajectory"),
        (tmp_path / "q.jsonl", {}, "questions and no trajectories"),
        (store.path, {"id": "frist"}, "did you mean 'first'"),
        (store.path, {"index": 1}, "holds 1 trajectories"),
    ):
        with pytest.raises(UserError, match=message):
            find_trajectory(path, **options)


# -- Turn-aware resampling: the published counts, and an order that follows from ids and the seed --------------------------


def test_the_published_counts() -> None:
    """Bucket sizes solved for from DR-Venus' counts: 9,365 become 18,745, and the shares of long ones are the paper's."""
    turns = [50] * 3_720 + [100] * 4_400 + [101] * 1_245
    found = resample([f"t{number}" for number in range(len(turns))], turns, Schedule())
    assert len(turns) == 9_365 and len(found.rows) == 18_745
    assert found.before == (3_720, 4_400, 1_245) and found.after == (3_720, 8_800, 6_225)
    assert round(100 * (4_400 + 1_245) / 9_365, 2) == 60.28 and round(100 * (8_800 + 6_225) / 18_745, 2) == 80.15
    assert round(100 * 1_245 / 9_365, 2) == 13.29 and round(100 * 6_225 / 18_745, 2) == 33.21


def test_the_order_follows_from_ids_and_seed_and_not_from_the_file() -> None:
    names, turns = [f"t{number}" for number in range(40)], [number % 7 for number in range(40)]

    def order(rows: list[int], seed: int) -> list[str]:
        done = resample([names[row] for row in rows], [turns[row] for row in rows], Schedule((2, 4), (1, 0, 5)), seed)
        return [names[rows[row]] for row in done.rows]

    straight = list(range(40))
    assert order(straight, 1) == order(straight[::-1], 1) != order(straight, 2)


def episode(id: str, turns: int) -> Trajectory:
    nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text="?")]
    nodes += [Node(parent=n, role=Role.ASSISTANT, kind=NodeKind.TURN, text=f"t{n}") for n in range(turns)]
    return make(id).model_copy(update={"nodes": tuple(nodes), "leaf": turns, "meta": {"x": [1.5]}})


SHORT = Schedule((2, 4), (1, 2, 5))


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_copies_differ_in_their_ids_alone(tmp_path: Path, suffix: str) -> None:
    given = {t.id: t for t in (episode("a", 2), episode("b", 3), episode("c", 5), episode("d", 1), episode("b~2", 1))}
    source, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    write_trajectories(source, given.values())
    done = resample_file(source, out, SHORT, seed=3)
    found = {t.id: t for t in open_trajectories(out)}
    assert done.before == (3, 1, 1) and len(done.rows) == len(found) == 10
    assert sorted(found) == ["a", "b", "b~2", "b~3", "c", "c~2", "c~3", "c~4", "c~5", "d"], "a copy takes no id that is there"
    for id, copy in found.items():
        name = id if id in given else id.partition("~")[0]
        assert copy.model_copy(update={"id": name}) == given[name]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([source.name, out.name]), "nothing is left behind"
    write_trajectories(source, [episode("a", 2), episode("a", 3)])
    with pytest.raises(UserError, match="more than once"):
        resample_file(source, out, SHORT)
    with pytest.raises(UserError, match="Cannot write"):
        resample_file(source, source / out.name, SHORT)
