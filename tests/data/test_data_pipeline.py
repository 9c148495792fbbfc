"""Raw files to rows in one command: every number, resuming, and the tiny recipe's training sets."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from made_files import save
from rich.console import Console, RenderableType
from strategies import trajectories
from test_jsonl import make
from typer.testing import CliRunner

from sanderling.cli.data import app
from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, ToolEvent, Trajectory
from sanderling.core.types import Ending, Role, ToolCall, ToolStatus
from sanderling.data.importing import open_trajectories
from sanderling.data.pipeline import DataConfig, DataRun, find_data_recipe
from sanderling.data.resample import Schedule, resample, resample_file
from sanderling.data.stats import data_page, figures_table, find_trajectory, portray, transcript
from sanderling.recipes.tiny import SHIPPED_BASE, TinyConfig, TinyRun, curate, is_right
from sanderling.runs.jsonl import TrajectoryStore, write_trajectories
from sanderling.runs.progress import Report
from sanderling.runs.run import Run
from sanderling.runs.stages import STAGES
from sanderling.train.row_source import index_rows


def conversation(question: str, gt: str, answer: str, searches: int) -> dict:
    """As DR-Venus publishes them."""
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": question}]
    for number in range(searches):
        call = json.dumps({"name": "search", "arguments": {"query": [f"{question} {number}"]}})
        said = f"<think>\nlook {number}\n</think>\n<tool_call>\n{call}\n</tool_call>"
        shown = json.dumps([{"query": "q", "web_page_info_list": [{"title": "t", "url": "u://x/", "snippet": "s"}]}])
        messages += [
            {"role": "assistant", "content": said},
            {"role": "user", "content": f"<tool_response>\n{shown}\n</tool_response>"},
        ]
    messages.append({"role": "assistant", "content": f"<think>\ndone\n</think>\n<answer>\n{answer}\n</answer>"})
    return {"question": question, "messages": messages, "gt": gt}


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["run", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


SETTINGS = ("--set", "split.shares=train=0.6,validation=0.4", "--set", "resample.thresholds=[2,4]")


def numbers(out: Path) -> dict[str, dict]:
    return {step["name"]: step for step in json.loads((out / "data.json").read_text())["steps"]}


def test_a_done_run_is_not_done_again_and_a_lost_marker_is(lamps: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(lamps, "--out", out, *SETTINGS)
    made = {path: path.stat().st_mtime_ns for path in out.rglob("*.jsonl")}
    before = (out / "6-resampled.jsonl").read_bytes()
    assert "done before" in run(lamps, "--out", out, *SETTINGS)
    assert made == {path: path.stat().st_mtime_ns for path in out.rglob("*.jsonl")}
    with Run(out) as under_way:
        under_way.table(STAGES).remove("judge")
    (out / "6-resampled.jsonl").unlink()
    run(lamps, "--out", out, *SETTINGS)
    assert (out / "6-resampled.jsonl").read_bytes() == before
    assert (out / "1-imported.jsonl").stat().st_mtime_ns == made[out / "1-imported.jsonl"]


def test_other_settings_and_other_files_want_another_place(lamps: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(lamps, "--out", out)
    with pytest.raises(UserError, match="other settings"):
        run(lamps, "--out", out, "--set", "judge.keep=all")
    (lamps / "more.jsonl").write_text(json.dumps(conversation("Who?", "a", "a", 2)) + "\n")
    with pytest.raises(UserError, match="other settings"):
        run(lamps, "--out", out)
    run(lamps, "--out", out, "--fresh")
    assert numbers(out)["import"]["went_out"] == 11


def test_a_directory_of_other_things_is_left_alone(lamps: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "own.txt").write_text("precious")
    for fresh in ([], ["--fresh"]):
        with pytest.raises(UserError, match=r"choose another --out"):
            run(lamps, "--out", tmp_path / "out", *fresh)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["own.txt"]


def test_trajectories_of_two_files_that_share_ids_are_all_kept(tmp_path: Path) -> None:
    """As of two teachers who were asked the same."""
    for name in ("a", "b"):
        own = [make("same").model_copy(update={"model": name}), make(name), make("same~2")]
        write_trajectories(tmp_path / f"{name}.jsonl", own)
    out = tmp_path / "out.jsonl"
    told = CliRunner().invoke(app, ["import", *map(str, (tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--out", out))])
    assert [one.id for one in open_trajectories(out)] == ["same", "a", "same~2", "same~3", "b", "same~2~2"]
    assert "Renamed, since an earlier trajectory has their id: 2 (" in told.output


def test_the_dr_venus_recipe_keeps_every_attempt_in_order_and_holds_none_back(lamps: Path, tmp_path: Path) -> None:
    """As its released script: no choice by question, no split, copies in a row. Ours are options."""
    out = tmp_path / "out"
    run(lamps, "--out", out, "--set", "resample.thresholds=[2,4]")
    kept = [json.loads(line)["id"].rpartition("#")[2] for line in (out / "6-resampled.jsonl").read_text().splitlines()]
    twice = [name for number in range(7) for name in (f"{number}", f"{number}~2")]
    assert kept == [*twice, "9", *(f"9~{copy}" for copy in range(2, 6))]
    assert sorted(path.name for path in (out / "5-parts").iterdir()) == ["train.jsonl"]
    ours = ("dedupe.keep=1", "split.shares=train=0.6,validation=0.4", "resample.shuffle=true")
    run(lamps, "--out", tmp_path / "ours", *(word for one in ours for word in ("--set", one)))
    assert numbers(tmp_path / "ours")["dedupe"]["went_out"] == 7
    assert len(list((tmp_path / "ours" / "5-parts").iterdir())) == 2


def test_a_run_that_leaves_nothing_to_train_on_fails_and_says_where_it_went(lamps: Path, tmp_path: Path) -> None:
    asked = tmp_path / "benchmark.jsonl"
    asked.write_text("".join(json.dumps({"question": numbered(n)["question"], "answer": "a"}) + "\n" for n in (*range(6), 22)))
    rows = ("--tokenizer", SHIPPED_BASE)  # which only the last step needs
    for number, (setting, told, more) in enumerate((
        ("judge.judges=[]", "judge left 0 of", ()),
        ("rows.max_tokens=5", "rows left 0 of", rows),
        ("resample.weights=[0,0,0]", "resample left 0 of", ()),
        ("split.shares=train=0,validation=1", "split left 8 of 8 .train 0, validation 8.", ()),
        (f"against=['{asked}']", "dedupe left 0 of 8", rows),  # though the judge left more out
    )):  # fmt: skip
        out = tmp_path / str(number)
        for _ in range(2 if more else 1):  # what is done says so again
            with pytest.raises(UserError, match=f"Nothing is left to train on: {told}"):
                run(lamps, "--out", out, *more, "--set", setting)
        assert (out / "report.html").exists()


def test_bad_settings_are_refused(lamps: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no data recipe"):
        find_data_recipe("dr-mars")
    with pytest.raises(UserError, match="did you mean"):
        find_data_recipe("dr-venus", ["judge.kep=all"])
    (own := tmp_path / "own.toml").write_text('title = "own"')
    assert find_data_recipe(str(own), ["profile=tiny"]) == DataConfig(title="own", profile="tiny")
    (nothing := tmp_path / "nothing.jsonl").touch()
    for override, told in (
        ("resample.weights=[1]", "one weight for each bucket"),
        ("clean.recipe=none", "no cleaning recipe"),
        ("profile=none", "no profile"),
        ("clean.recipe=none.toml", "none.toml"),
        ('judge.judges=["contain"]', "did you mean 'contains'"),
        ('judge.judges=["http://host/v1"]', "lacks the host or the model"),
        ('judge.judges=["./none"]', "no model at"),
        ("against=['none.jsonl']", "no file or directory none.jsonl"),
        (f"against=['{nothing}']", "holds no question"),
        ("tokenizer='none'", "No tokenizer.json at none"),
    ):
        with pytest.raises(UserError, match=told):
            DataRun((lamps,), tmp_path / "out", find_data_recipe("dr-venus", [override])).check()


def taught(id: str, answer: str | None, ending: Ending = Ending.ANSWERED) -> Trajectory:
    nodes = (
        Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text="q", token_ids=(1,)),
        Node(parent=0, role=Role.ASSISTANT, kind=NodeKind.TURN, text="t", token_ids=(2, 3), answer=answer),
    )
    return Trajectory(
        id=id, question=Question(id=id, text="q", answers=("Oslo",)), nodes=nodes, leaf=1, ending=ending, answer=answer
    )


def test_the_tiny_recipes_arms_are_what_is_whole_and_what_is_right(tmp_path: Path) -> None:
    run = TinyRun(tmp_path, TinyConfig())
    store = TrajectoryStore(run.teacher_store)
    answers = {"c": "oslo", "a": "Bergen", "b": None, "e": "Oslo.", "d": "Oslo"}
    for id, answer in answers.items():
        store.append(taught(id, answer, Ending.TOOL_OUTAGE if id == "d" else Ending.ANSWERED))
    curate(run, Report(Console(quiet=True)))
    everything, right = run.training_set("sft-all"), run.training_set("sft-correct")
    assert [t.id for t in everything] == ["a", "c", "e"] and [t.id for t in right] == ["c", "e"]
    assert everything == sorted((t for t in store if t.id in "ace"), key=lambda t: t.id), "records are not rewritten"
    assert all(is_right(t) for t in right)


def test_what_is_read_is_never_where_the_run_writes_or_empties(tmp_path):
    run, source = tmp_path / "run", tmp_path / "raw.jsonl"
    run.mkdir()
    for path in (source, run / "mine.jsonl"):
        path.write_text("{}\n")
    config = find_data_recipe("dr-venus", [])
    for sources, root in (((run / "mine.jsonl",), run), ((run,), run), ((tmp_path,), run), ((tmp_path / "none",), run)):
        with pytest.raises(UserError, match=r"own directory|lies in|There is no file"):
            DataRun(sources, root, config).check()
    DataRun((source,), run, config).check()


def numbered(number: int, right: bool = True, searches: int = 2) -> dict:
    """One of many questions, answered right or not."""
    question = f"Who of the {number} families keeps the {number * 7 + 1} lamps of the harbour?"
    return conversation(question, f"Ann {number}", f"Ann {number}" if right else "nobody", searches)


@pytest.fixture
def lamps(tmp_path: Path) -> Path:
    """Six right ones, a second attempt, a wrong one, one without an answer, one that is too long, and a broken line."""
    folder = tmp_path / "raw"
    folder.mkdir()
    open_ended = numbered(20)
    open_ended["messages"].pop()
    found = [numbered(n) for n in range(6)]
    found += [numbered(3, searches=3), numbered(21, right=False), open_ended, numbered(22, searches=30)]
    (folder / "some.jsonl").write_text("\n".join(map(json.dumps, found)) + "\n{broken\n")
    return folder


def test_rows_train_the_newline_after_each_turn_where_the_recipe_has_it(lamps: Path, tmp_path: Path) -> None:
    """By `data run`, whose dr-venus recipe has it, and by `data rows`, told or not."""
    out, trained = tmp_path / "out", {}
    run(lamps, "--out", out, "--tokenizer", SHIPPED_BASE)
    for name, more in (("with", ["--train-newline"]), ("without", [])):
        how = ["--tokenizer", str(SHIPPED_BASE), "--profile", "dr-venus-4b", "--out", str(tmp_path / f"{name}.parquet"), *more]
        done = CliRunner().invoke(app, ["rows", str(out / "6-resampled.jsonl"), *how], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        trained[name] = index_rows([tmp_path / f"{name}.parquet"]).survey.trained_tokens
    turns = sum(line.count('"kind":"turn"') for line in (out / "6-resampled.jsonl").read_text().splitlines())
    assert turns > 20 and trained["with"] == trained["without"] + turns
    assert index_rows([out / "rows" / "train.parquet"]).survey.trained_tokens == trained["with"]


# -- What a person reads before training: a set's figures, its page, and one trajectory on the terminal --------------------


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
