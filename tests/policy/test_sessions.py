"""Sessions through the command line, over a server as strict as OpenAI's: kept, shown, asked on in, exported, and run again."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from openai_server import FIELDS, call, openai_server
from test_opening import MINE
from typer.testing import CliRunner

from sanderling.agent.capsule import _sealed, open_capsule
from sanderling.agent.journal import JournalWarning
from sanderling.agent.session import Going, Session, find_session, home, new_session, place_in, sessions
from sanderling.cli.main import build_app
from sanderling.core.errors import UserError
from sanderling.core.profiles import PROFILES
from sanderling.core.record import NodeKind, Trajectory
from sanderling.core.types import Ending, SystemClock
from sanderling.data.importing import open_trajectories
from sanderling.recipes.tiny import SHIPPED_BASE
from sanderling.runs.jsonl import TrajectoryStore

FIRST, SECOND = "Who founded Kent?", "Who built its lighthouse?"
NO_SOCKETS = """
import sys
def hook(event, arguments):
    if event.startswith("socket.") and event not in ("socket.__new__", "socket.gethostname"):
        raise RuntimeError(f"{event} {arguments}")
sys.addaudithook(hook)
from sanderling.cli.main import main
main()
"""


def researcher(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """A search and a page for a first question, of a second one an answer from what was read."""
    asked = max(place for place, message in enumerate(messages) if message["role"] == "user")
    turns = sum(message["role"] == "assistant" for message in messages[asked:])
    if messages[asked]["content"].startswith(SECOND):
        if turns == 0:
            return {"tool_calls": [call("search", {"query": ["Kent lighthouse"]}), call("visit", {"url": EDEN}, "d")]}
        return {"content": "<answer>Tom Vell built it [2]. Eden was founded in 1820 [3].</answer>"}
    if turns == 0:
        return {"content": "Let me look.", "tool_calls": [call("search", {"query": ["Kent founder", "Vell"]})]}
    if turns == 1:
        return {"tool_calls": [call("visit", {"url": [KENT], "goal": "who founded it"})]}
    return {"content": "<answer>Ada Vell founded Kent in 1803 [1]. It has nine mills.</answer>"}


KENT, EDEN = "local://notes/kent.md", "local://notes/eden.md"


def run(*words: object, ends: int | None = 0) -> str:
    """A command's output; ``ends``: with which status, None: any. Raises its UserError."""
    told = list(map(str, words))
    done = CliRunner().invoke(build_app(told[0]), told, env={"COLUMNS": "200"}, catch_exceptions=False)
    assert ends is None or done.exit_code == ends, done.output
    return done.output


@pytest.fixture
def asked(notes: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A conversation of two questions: the model, and what its server was sent."""
    with openai_server(researcher) as (url, taken, refused):
        run("ask", FIRST, "--docs", notes, "--model", f"{url}#m")
        run("ask", "--continue", SECOND)
        yield f"{url}#m", taken
        assert refused == []


def kept() -> tuple[Session, list[Trajectory]]:
    session = find_session("last")
    return session, session.records()


def test_a_further_question_appends_to_what_was_said(asked: tuple[str, list[dict[str, Any]]]) -> None:
    _, taken = asked
    session, (first, second) = kept()
    branch = first.branch()
    assert list(second.nodes[: len(branch)]) == branch and second.meta["follows"] == {"id": first.id, "nodes": len(branch)}
    ends = [taken[2]["messages"], taken[3]["messages"]]
    assert ends[1][: len(ends[0])] == ends[0]  # to the server, too, the conversation only grows
    assert [message["role"] for message in ends[1][len(ends[0]) :]] == ["assistant", "user"]
    assert ends[1][-1]["content"] == SECOND and taken[3]["tools"] == taken[2]["tools"]
    numbers = [passage.number for node in second.branch() for event in node.events for passage in event.passages]
    assert numbers == [1, 2, 3] and second.own()[0].kind is NodeKind.QUESTION
    assert [(one.text, one.tokens > 0, one.is_open) for one in session.questions()] == [
        (FIRST, True, False),
        (SECOND, True, False),
    ]


def test_what_is_kept_is_listed_and_shown(asked: tuple[str, list[dict[str, Any]]], tmp_path: Path) -> None:
    session, _ = kept()
    listed = run("history")
    assert session.id in listed and FIRST in listed and f"↳ {SECOND}" in listed and "answered" in listed
    shown = run("show", "last")
    assert shown == run("show", session.id) and shown.index(FIRST) < shown.index(SECOND)
    assert "Ada Vell founded Kent in 1803 [1]." in shown and "(not found in what was read)" in shown
    assert "Tom Vell built it [1]. Eden was founded in 1820 [2]." in shown  # by page, for the reader
    assert "turn 1" in run("show", session.id, "--full") and SECOND in run("show", session.id, "--full")
    for to, wanted in (("md", "It has nine mills. *(not found"), ("html", "Tom Vell built it [1]."), ("jsonl", '"answer":"<')):
        run("export", "last", "--to", to, "--out", tmp_path / f"a.{to}")
        assert wanted.replace("<", "Tom") in (tmp_path / f"a.{to}").read_text()
    run("export", "last", "--to", "parquet", "--out", tmp_path / "a.parquet")
    assert list(open_trajectories(tmp_path / "a.parquet")) == list(TrajectoryStore(tmp_path / "a.jsonl")) == kept()[1]
    with pytest.raises(UserError, match="is no name for --to parquet"):
        run("export", "last", "--to", "parquet", "--out", tmp_path / "b.jsonl")
    with pytest.raises(UserError, match="There is no session 'nope'"):
        run("show", "nope")


def test_a_conversation_goes_on_in_a_new_process_as_it_was(notes: Path) -> None:
    """With a server that refuses a setting which is sent to every server first, and gives reasoning in a field of its own."""

    def thinks(messages: list[dict[str, Any]]) -> dict[str, Any]:
        return {"reasoning": f"so {len(messages)}", **researcher(messages)}

    FIELDS["assistant"].add("reasoning")
    try:
        with openai_server(thinks, reasoning_model=True) as (url, taken, _):
            run("ask", FIRST, "--docs", notes, "--model", f"{url}#m")
            before = taken[-1]["messages"]
            run("ask", "--continue", SECOND)
    finally:
        FIELDS["assistant"].discard("reasoning")
    assert taken[3]["messages"][: len(before)] == before and taken[3]["messages"][2]["reasoning"] == "so 2"
    assert kept()[1][1].ending is Ending.ANSWERED


def test_the_last_turn_is_asked_for_in_a_new_process_as_it_was(notes: Path) -> None:
    asked_for: list[list[dict[str, Any]]] = []

    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if PROFILES["general"].force_hint not in messages[-1]["content"]:
            return {"tool_calls": [call("search", {"query": [f"Kent {len(messages)}"]})]}
        asked_for.append(messages)
        return {"content": 7} if len(asked_for) == 1 else {"content": "Perhaps Ada Vell."}

    with openai_server(said) as (url, taken, refused):
        run("ask", FIRST, "--docs", notes, "--model", f"{url}?retries=0#m", "--set", "agent.max_turns=2", ends=1)
        run("resume")
    assert taken[-1] == taken[-2] and taken[-1]["tool_choice"] == "none" and refused == []
    assert kept()[1][0].answer == "Perhaps Ada Vell."


def test_documents_that_change_amid_a_question_are_read_as_they_are_now(notes: Path, tmp_path: Path) -> None:
    """By the question that goes on, and by another model over its evidence."""
    broken: list[bool] = [True]
    with openai_server(lambda messages: {"content": 7} if broken[0] and len(messages) > 4 else researcher(messages)) as (
        url,
        taken,
        _,
    ):
        run("ask", FIRST, "--docs", notes, "--model", f"{url}?retries=0#m", ends=1)
        with (notes / "kent.md").open("a") as file:
            file.write("\nIt has nine mills.\n")
        broken[0] = False
        with pytest.warns(JournalWarning, match="are others: from turn .* on it is done anew"):
            run("resume")
        assert "nine mills" in str(taken[-1]["messages"])
        run("export", "last", "--to", "capsule", "--out", tmp_path / "a.capsule")
        assert "bit for bit" in run("replay", tmp_path / "a.capsule")
        run("replay", tmp_path / "a.capsule", "--model", f"{url}#m")
        assert "nine mills" in str(taken[-1]["messages"])


def test_how_a_server_is_asked_may_change_amid_a_question(notes: Path) -> None:
    broken: list[bool] = [True]
    with openai_server(lambda messages: {"content": 7} if broken[0] and len(messages) > 2 else researcher(messages)) as (
        url,
        taken,
        _,
    ):
        run("ask", FIRST, "--docs", notes, "--model", f"{url}?retries=0#m", ends=1)
        broken[0] = False
        run("resume", "--set", f"agent.model={url}?timeout=9#m")
    assert len(taken) == 4  # nothing is asked again that was answered


def test_a_question_of_any_length_and_a_file_may_follow(asked: tuple[str, list[dict[str, Any]]], tmp_path: Path) -> None:
    run("ask", "--continue", "Is that so? " * 60, "--out", tmp_path / "b.jsonl")
    assert len(list(TrajectoryStore(tmp_path / "b.jsonl"))) == 1 and len(kept()[1]) == 3


def test_a_session_that_cannot_be_read_hides_no_other(asked: tuple[str, list[dict[str, Any]]]) -> None:
    for name, data in (("0101-0000", b"no database"), ("0101-0001", b"")):
        (home() / name).mkdir()
        (home() / name / "run.db").write_bytes(data)
    with pytest.warns(UserWarning, match=r"0101-0000.* It is left out"):
        assert FIRST in run("history")


def test_an_id_names_one_session_and_its_beginning_may_name_several(
    asked: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, _ = kept()
    shutil.copytree(session.directory, home() / f"{session.id}-copy")
    with pytest.raises(UserError, match=rf"begins the ids of 2 sessions \(.*{session.id}.*\): write more"):
        run("show", session.id[:-1])
    drawn = iter(("aaaa", "aaaa", "bbbb"))
    monkeypatch.setattr("sanderling.agent.session.secrets.token_hex", lambda _: next(drawn))
    assert [new_session().id[-4:] for _ in range(2)] == ["aaaa", "bbbb"]


def test_a_further_question_that_cannot_be_asked_leaves_the_session_as_it_was(asked: tuple[str, list[dict[str, Any]]]) -> None:
    with pytest.raises(UserError, match="was asked of a server that takes tools: go on with such a one, or ask anew"):
        run("ask", "--continue", "And where?", "--model", asked[0].replace("#", "?tools=text#"))
    assert [one.text for one in kept()[0].questions()] == [FIRST, SECOND]


def test_a_key_that_is_withdrawn_amid_a_question_leaves_what_was_done(notes: Path) -> None:
    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        return {"status": 401} if withdrawn and len(messages) > 4 else researcher(messages)

    withdrawn = True
    with openai_server(said) as (url, taken, _):
        with pytest.raises(UserError, match=r"refused the API key .* kept: sanderling resume \S+ goes on with it"):
            run("ask", FIRST, "--docs", notes, "--model", f"{url}#m")
        before, withdrawn = len(taken), False
        run("resume")
    assert len(taken) == before + 1 and kept()[1][0].ending is Ending.ANSWERED


def test_what_another_process_asked_meanwhile_is_not_passed_over(
    asked: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-m", "sanderling", "ask", "--continue", "And where?"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def late(session: Session | None) -> Going:
        going = place_in(session)
        subprocess.run(command, env=environment, capture_output=True, timeout=120, check=True)
        return going

    monkeypatch.setattr("sanderling.cli.ask.place_in", late)
    with pytest.raises(UserError, match="has asked on in session"):
        run("ask", "--continue", "And when?")
    assert [one.text for one in kept()[0].questions()] == [FIRST, SECOND, "And where?"]


def test_nothing_is_kept_where_nobody_wants_it(notes: Path) -> None:
    with openai_server(researcher) as (url, _, _):
        run("ask", FIRST, "--docs", notes, "--model", f"{url}#m", "--no-save")
        with pytest.raises(UserError, match=r"without the model|does not know|lacks"):
            run("ask", FIRST, "--docs", notes, "--model", url)
    with openai_server(lambda messages: {"content": "x"}, tools=False) as (url, _, _), pytest.raises(UserError, match="tools"):
        run("ask", FIRST, "--docs", notes, "--model", f"{url}#m")  # it is told what is wrong, and asks anew
    assert sessions() == [] and list(home().glob("*")) == []
    assert "No question is kept yet" in run("history")
    with pytest.raises(UserError, match="No question is kept yet"):
        run("ask", "--continue", SECOND)


def test_an_outage_is_resumed_with_its_settings_and_its_account(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From another folder, to the record of a question that met none; relative paths lead from where it was asked."""
    down: list[bool] = [False]

    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if down[0] and len(messages) > 4:
            return {"content": 7}  # no server says such a thing
        return researcher(messages)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SystemClock, "today", lambda self: date(2026, 3, 1))  # both are asked on one day, also at midnight
    with openai_server(said) as (url, taken, _):
        run("ask", FIRST, "--docs", "notes", "--model", f"{url}?retries=0#m", "--out", "whole.jsonl", "--no-save")
        down[0] = True
        run("ask", FIRST, "--docs", "notes", "--model", f"{url}?retries=0#m", "--out", "a.jsonl", ends=1)
        session, asked = sessions()[0]
        before, spent = len(taken), session.spent().tokens
        assert asked[-1].is_open and "policy outage" in run("history") and spent > 0
        with pytest.raises(UserError, match=f"run sanderling resume {session.id} first"):
            run("ask", "--continue", SECOND)
        with pytest.raises(UserError, match="has not ended: run sanderling resume"):
            run("export", "last")
        down[0] = False
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        run("resume")
        assert len(taken) == before + 1 and session.spent().tokens > spent
        assert len(sessions()) == 1 and not sessions()[0][1][-1].is_open
    (whole,), (broken, done) = TrajectoryStore(tmp_path / "whole.jsonl"), TrajectoryStore(tmp_path / "a.jsonl")
    assert broken.ending != done.ending and timeless(done) == timeless(whole) == timeless(kept()[1][0])
    assert [path.name for path in tmp_path.glob("a.jsonl*")] == ["a.jsonl"]
    with pytest.raises(UserError, match="Every question that is kept has ended"):
        run("resume")


def test_a_command_killed_behind_its_answer_asks_nothing_again(notes: Path, tmp_path: Path) -> None:
    """Its session has the record, its file has not: the same command writes it, and is no further question."""
    out = tmp_path / "a.jsonl"
    with openai_server(researcher) as (url, taken, _):
        command = "ask", FIRST, "--docs", notes, "--model", f"{url}#m", "--out", out
        run(*command)
        session, (record,) = kept()
        out.unlink()
        out.with_name(f"a.jsonl.{record.id}.run").symlink_to(session.directory)
        asked = len(taken)
        run(*command)
        assert len(taken) == asked
    assert list(TrajectoryStore(out)) == [record] == session.records() and len(session.questions()) == 1
    assert [path.name for path in tmp_path.glob("a.jsonl*")] == ["a.jsonl"]


def timeless(record: Trajectory) -> dict[str, Any]:
    """A record without seconds."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items() if key not in ("seconds", "latency_s")}
        return [plain(one) for one in value] if isinstance(value, list) else value

    return plain(record.model_dump(mode="json"))


@pytest.fixture
def capsule(asked: tuple[str, list[dict[str, Any]]], tmp_path: Path) -> Path:
    run("export", "last", "--to", "capsule", "--out", tmp_path / "a.capsule")
    return tmp_path / "a.capsule"


def test_a_capsule_replays_elsewhere_without_a_socket(capsule: Path, notes: Path, tmp_path: Path) -> None:
    """In a process that may open none, in a folder and a home that know nothing of the session, bit for bit."""
    there = tmp_path / "there"
    there.mkdir()
    there.joinpath("b.capsule").write_bytes(capsule.read_bytes())
    for file in (*notes.iterdir(), capsule):
        file.unlink()
    home = {"HOME": str(there), "XDG_DATA_HOME": str(there / "data"), "XDG_CACHE_HOME": str(there / "cache")}
    environment = {**os.environ, **home, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", NO_SOCKETS, "replay", "b.capsule"]
    done = subprocess.run(command, cwd=there, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("the same record, bit for bit") == 2 and "2 calls made again" in done.stdout
    assert [path.name for path in there.iterdir()] == ["b.capsule"]


def test_what_was_changed_in_a_capsule_is_found(capsule: Path, tmp_path: Path) -> None:
    data, changed = capsule.read_bytes(), tmp_path / "changed.capsule"
    for at in [*range(0, len(data), max(1, len(data) // 150)), len(data) - 1, len(data) - 65]:
        changed.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(UserError, match=r"is damaged|was changed|is no capsule"):
            run("replay", changed)
    changed.write_bytes(data[:-900])
    with pytest.raises(UserError, match="is no capsule"):
        run("replay", changed)
    changed.write_text("nothing of the kind")
    with pytest.raises(UserError, match="is no capsule: make one with sanderling export"):
        run("replay", changed)


def resealed(capsule: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """A capsule whose members somebody has changed who knew how to close it again, hashes and all."""
    with ZipFile(BytesIO(capsule.read_bytes())) as archive:
        members = {name: change(name, archive.read(name)) for name in archive.namelist()}
    manifest = json.loads(members["capsule.json"])
    manifest["files"] = {name: hashlib.sha256(data).hexdigest() for name, data in members.items() if name != "capsule.json"}
    made = capsule.with_name("resealed.capsule")
    made.write_bytes(_sealed({**members, "capsule.json": json.dumps(manifest).encode()}))
    return made


def cut_short(members: dict[str, bytes]) -> None:
    """One record of two, with its hash."""
    members["records.jsonl"] = first = members["records.jsonl"].splitlines(keepends=True)[0]
    manifest(lambda told: told["files"].update({"records.jsonl": hashlib.sha256(first).hexdigest()}))(members)


def manifest(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, bytes]], None]:
    def changed(members: dict[str, bytes]) -> None:
        told = json.loads(members["capsule.json"])
        change(told)
        members["capsule.json"] = json.dumps(told).encode()

    return changed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (manifest(lambda told: told.update(files=[])), "was added"),
        (manifest(lambda told: told.pop("files")), "holds no session that can be read"),
        (manifest(lambda told: told.update(pages=[{}])), "holds no session that can be read"),
        (manifest(lambda told: told.update(capsule=2)), r"by sanderling \S+ in another format: replay it with that"),
        (cut_short, r"holds no session that can be read \(records and journal are of different questions\)"),
        (
            lambda members: members.update({"pages/0001.md": b"Eve"}),
            rf"was changed after it was made \(the page {KENT} is another\)",
        ),
        (lambda members: members.update(evil=b"x"), r"was changed after it was made \(evil was added\)"),
        *[(lambda members, name=name: members.pop(name), "cannot be read") for name in ("capsule.json", "replies.jsonl")],
    ],
)
def test_a_capsule_of_another_shape_is_one_sentence(
    capsule: Path, change: Callable[[dict[str, bytes]], Any], said: str
) -> None:
    """Also where it was closed again by somebody who knew how."""
    with ZipFile(BytesIO(capsule.read_bytes())) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    capsule.write_bytes(_sealed(members))
    with pytest.raises(UserError, match=said):
        run("replay", capsule)


def test_a_capsule_that_would_fill_the_disk_is_not_unpacked(capsule: Path) -> None:
    with ZipFile(capsule, "a") as archive:
        archive.writestr("more", b"")
        archive.getinfo("journal.jsonl").file_size = 5 << 30
    with pytest.raises(UserError, match="would take more than 4 GB unpacked, as no session does"):
        run("replay", capsule)


@pytest.mark.parametrize(
    ("member", "was", "now", "said"),
    [
        ("replies.jsonl", b"Ada Vell in 1803", b"Eve Vell in 1803", "reads otherwise"),
        ("journal.jsonl", b"Ada Vell founded", b"Eve Vell founded", "asked of the model otherwise|the record's"),
        ("records.jsonl", b"Ada Vell founded", b"Eve Vell founded", "the record's"),
        ("journal.jsonl", b"You answer questions", b"You guess questions", "asked of the model otherwise|the record's"),
        ("journal.jsonl", b'"means"', b'"meanz"', "it cannot be run again"),
        ("journal.jsonl", b'"finish":"end"', b'"finish":"odd"', "it cannot be run again"),
        ("replies.jsonl", b'"ordinal"', b'"ordinaz"', "it cannot be run again"),
    ],
)
def test_a_forged_capsule_does_not_come_out_the_same(capsule: Path, member: str, was: bytes, now: bytes, said: str) -> None:
    forged = resealed(capsule, lambda name, data: data.replace(was, now) if name == member else data)
    shown = run("replay", forged, ends=1)
    assert re.search(f"differs: .*({said})", shown) and "not the same record" in shown


OWN = """
from loop_fakes import TokenPolicy
from sanderling.core.chat import load_tokenizer

CALL = '<think>\\nx</think><tool_call>{"name": "%s", "arguments": %s}</tool_call>'
TURNS = [CALL % ("tides", "{}"), CALL % ("search", '{"query": ["Kent"]}'), "<think>\\nx</think><answer>Ada Vell</answer>"]
model = TokenPolicy(TURNS)
model.tokenizer = load_tokenizer(FILE)
model.tokenizer.end = model.tokenizer.token_id("<|im_end|>")
"""


def test_a_model_and_a_tool_of_ones_own_are_replayed_with_the_models_tokenizer(notes: Path, tmp_path: Path) -> None:
    """What the tool said stands for itself: it is not in the capsule."""
    mine, tokens, made = tmp_path / "mine.py", tmp_path / "tokenizer.json", tmp_path / "a.capsule"
    shutil.copyfile(SHIPPED_BASE / "tokenizer.json", tokens)
    mine.write_text(f"from pathlib import Path\nFILE = Path({str(tokens)!r})\n{MINE}{OWN}")
    how = ("--model", f"{mine}:model", "--profile", "tiny", "--set", f'agent.tools=["{mine}:Tides"]')
    run("ask", FIRST, "--docs", notes, *how)
    run("export", "last", "--out", made)
    tokens.unlink()
    shown = run("replay", made)
    assert "1 calls made again" in shown and "1 calls whose results stand for themselves" in shown and "bit for bit" in shown
    (record,) = kept()[1]
    assert record.token_ids() and open_capsule(made).records == [record]
    with pytest.raises(UserError, match="export the session where its model is"):
        run("export", "last", "--out", tmp_path / "b.capsule")


def test_what_failed_for_the_first_model_fails_for_another_one(notes: Path, tmp_path: Path) -> None:
    """Also where there is no page at all to search instead."""
    gone = "local://notes/gone.md"

    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if messages[-1]["role"] == "user":
            return {"tool_calls": [call("visit", {"url": [gone]}), *searches]}
        return {"content": "<answer>Nobody knows.</answer>"}

    searches: list[dict[str, Any]] = []
    with openai_server(said) as (url, taken, _):
        run("ask", FIRST, "--docs", notes, "--model", f"{url}#m")
        run("export", "last", "--out", tmp_path / "a.capsule")
        searches.append(call("search", {"query": ["mills"]}, "d"))
        shown = run("replay", tmp_path / "a.capsule", "--model", f"{url}#m")
    assert taken[-1]["messages"][-2]["content"] == taken[1]["messages"][-1]["content"]
    assert "mills" in shown and gone not in shown.partition("not in the capsule")[2]


def test_another_model_researches_the_same_evidence(capsule: Path, tmp_path: Path) -> None:
    def other(messages: list[dict[str, Any]]) -> dict[str, Any]:
        turns = sum(message["role"] == "assistant" for message in messages)
        if turns == 0:
            return {"tool_calls": [call("search", {"query": ["kent  FOUNDER", "mills of Kent"]})]}
        if turns == 1:
            return {"tool_calls": [call("visit", {"url": [KENT, "https://w.example/mills"], "goal": "mills"})]}
        return {"content": "<answer>Ada Vell, in 1803 [1].</answer>"}

    with openai_server(other) as (url, taken, refused):
        shown = run("replay", capsule, "--model", f"{url}#other", "--out", tmp_path / "b.jsonl")
    with openai_server(lambda messages: {"content": 7}) as (broken, _, _):
        run("replay", capsule, "--model", f"{broken}?retries=0#other", ends=1)
    assert refused == [] and "answered from the capsule's pages: mills of Kent\n" in shown
    assert "not in the capsule: https://w.example/mills\n" in shown and shown.count("kent  FOUNDER") == 0
    first, second = TrajectoryStore(tmp_path / "b.jsonl")
    assert first.model == "other" and second.meta["follows"]["id"] == first.id
    assert "Ada Vell" in taken[1]["messages"][-1]["content"] and "1803 [1]" in shown


def test_an_export_writes_over_nothing_that_it_reads_and_atif_is_no_layout_that_is_read(capsule: Path, tmp_path: Path) -> None:
    run("export", "last", "--to", "jsonl", "--out", tmp_path / "a.jsonl")
    before = (tmp_path / "a.jsonl").read_bytes()
    database = find_session("last").directory / "run.db"
    for name, place, told in (
        (tmp_path / "a.jsonl", tmp_path / "a.jsonl", "is read and would be written"), ("last", database, "lies in a folder"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=told):
            run("export", name, "--to", "md", "--out", place)
    assert (tmp_path / "a.jsonl").read_bytes() == before
    run("export", "last", "--to", "atif", "--out", tmp_path / "a.atif")
    with pytest.raises(UserError, match=r"a\.atif holds no recorded trajectory"):
        run("show", tmp_path / "a.atif")
