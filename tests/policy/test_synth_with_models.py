"""``sanderling synth`` with models behind a real HTTP server: what comes out, what is paid, what is asked again."""

import json
from pathlib import Path

import pytest
from billing_server import Billing, billing
from typer.testing import CliRunner

from sanderling.cli import UNFINISHED
from sanderling.cli.synth import app
from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.core.types import Ending
from sanderling.data.questions import read_questions
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.synth.facts import JUDGE, POINTS, WRITER
from sanderling.synth.generate import META, BandSettings, DifficultyConfig, sort_attempts
from sanderling.synth.reading import COMPARER, READER, REWRITER
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world
from sanderling.world.disk.store import open_world
from sanderling.world.encyclopedia import generate_encyclopedia

FILLER = "The council met on Monday to speak of nets, salt and the weather, as it had done since the spring. " * 8
NAMES = ["Orlo", "Venn", "Kello", "Tarn"]


def page(name: str, number: int) -> Page:
    next_name = NAMES[(number + 1) % len(NAMES)]
    text = f"# {name}\n\nThe tower of {name} was built by Brandt{number}. {name} lies upstream of {next_name}.\n\n{FILLER}"
    return Page(url=f"https://w.example/{name.lower()}", title=name, text=text)


PAGES = [page(name, number) for number, name in enumerate(NAMES)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    build_world(tmp_path / "world", PAGES, name="towns", source="test")
    return tmp_path / "world"


def say(messages: list[dict[str, str]], before: int) -> str:
    """A careful model."""
    system, material = messages[0]["content"], messages[-1]["content"]
    if system == WRITER.system:
        name, number = _of(material)
        quote = f"The tower of {name} was built by Brandt{number}."
        good = {"question": f"Who built the tower of {name}?", "answer": f"Brandt{number}", "quote": quote}
        return json.dumps({"questions": [good, {**good, "question": "Who built it, according to the page?"}]})
    if system == JUDGE.system:
        return json.dumps({point: {"pass": True, "reason": "fine"} for point in POINTS})
    if system == READER.system:
        name, number = _of(material)
        next_name = NAMES[(number + 1) % len(NAMES)]
        entities = [{"name": n, "kind": k} for n, k in ((name, "town"), (f"Brandt{number}", "mason"), (next_name, "town"))]
        told = [("builder", f"Brandt{number}", f"The tower of {name} was built by Brandt{number}."),
                ("downstream neighbour", next_name, f"{name} lies upstream of {next_name}.")]  # fmt: skip
        return json.dumps(
            {"entities": entities, "facts": [{"subject": name, "relation": r, "object": o, "quote": q} for r, o, q in told]}
        )
    if system == REWRITER.system:
        return json.dumps({"question": "Can you tell: " + material.removeprefix("Draft: ")})
    if system == COMPARER.system:
        return '{"same": true}'
    return "?"


def _of(material: str) -> tuple[str, int]:
    name = material.partition("Title: ")[2].partition("\n")[0]
    return name, NAMES.index(name)


def run(command: str, *arguments: object, status: int = 0, cache: Path) -> str:
    told = [command, *map(str, arguments), "--set", f"budget.cache={cache}"]
    result = CliRunner().invoke(app, told, catch_exceptions=False, env={"COLUMNS": "250"})
    assert result.exit_code == status, result.output
    return result.output


def model(server: Billing) -> tuple[str, str]:
    return "--model", f"{server.url}#careful"


def test_again_it_asks_for_nothing(directory, tmp_path):
    out = tmp_path / "q.jsonl"
    with billing(say) as server:
        run("facts", directory, "--out", out, *model(server), cache=tmp_path / "c")
        asked, first = len(server.asked), out.read_bytes()
        run("facts", directory, "--out", out, *model(server), cache=tmp_path / "c")
        assert len(server.asked) == asked and out.read_bytes() == first
        run("facts", directory, "--out", tmp_path / "other.jsonl", *model(server), cache=tmp_path / "c")
        assert len(server.asked) == asked and (tmp_path / "other.jsonl").read_bytes() != b""


def test_a_budget_stops_it_and_a_larger_one_goes_on(directory, tmp_path):
    out = tmp_path / "q.jsonl"
    limit = ("--max-tokens", 5_800, "--set", "concurrency=1")
    with billing(say) as server:
        told = run("facts", directory, "--out", out, *model(server), *limit, status=UNFINISHED, cache=tmp_path / "c")
        assert "Stopped:" in told and 0 < len(read_questions(out)) < 4 and server.tokens <= 5_800
        run("facts", directory, "--out", out, *model(server), cache=tmp_path / "c")
    assert len(read_questions(out)) == 4


def test_an_outage_is_not_the_end(directory, tmp_path):
    out, down = tmp_path / "q.jsonl", [True]

    def moody(messages: list[dict[str, str]], before: int) -> str | int:
        return 400 if down[0] and "Title: Venn" in messages[-1]["content"] else say(messages, before)

    with billing(moody) as server:
        told = run("facts", directory, "--out", out, *model(server), cache=tmp_path / "c")
        assert len(read_questions(out)) == 3 and "refused by the model" in told


def test_a_graph_is_read_and_worded(directory, tmp_path):
    out = tmp_path / "g.jsonl"
    options = ("--pages", 1, "--count", 3, "--size", "3-5", "--hops", "2-3", "--capability", "direct")
    with billing(say) as server:
        told = run("graph", directory, "--out", out, *model(server), *options, cache=tmp_path / "c")
    questions = read_questions(out)
    assert len(questions) == 3 and "3 questions of 1 pages" in told
    for question in questions:
        assert question.text.startswith("Can you tell: ") and question.hops in (2, 3)
        assert question.meta["maker"] == "reading" and question.meta["uniqueness"] == "unchecked"


def test_a_world_grows_by_its_questions(directory, tmp_path):
    far = Page(url="https://w.example/falk", title="Falk", text=f"# Falk\n\nThe tower of Falk.\n\n{FILLER}")
    build_world(tmp_path / "large", [*PAGES, far], name="large", source="test")
    asked = tmp_path / "q.jsonl"
    asked.write_text('{"id": "1", "text": "Who built the tower of Falk?"}\n')
    told = CliRunner().invoke(
        app, ["grow", str(directory), str(asked), "--from", str(tmp_path / "large"), "--set", "least_chars=100"]
    )
    assert told.exit_code == 0 and "took in 1 pages" in told.output and open_world(directory).page_count == 5


# -- ``sanderling synth chains`` and ``difficulty``: an agent's attempts through the one loop, and the bands they give -----


@pytest.fixture
def encyclopedia(tmp_path: Path) -> Path:
    made = generate_encyclopedia(60, 3)
    pages = (item.page for item in made.pages)
    build_world(tmp_path / "world", pages, name=made.name, source="encyclopedia", seed=3)
    return tmp_path / "world"


def ran(command: str, *arguments: object) -> str:
    result = CliRunner().invoke(app, [command, *map(str, arguments)], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_questions_are_sorted_by_how_often_the_agent_is_right(encyclopedia, tmp_path):
    questions, out = tmp_path / "q.jsonl", tmp_path / "kept.jsonl"
    told = ran("chains", encyclopedia, "--out", questions, "--count", 24, "--hops", "1-3")
    assert "24 questions" in told and {q.hops for q in read_questions(questions)} == {1, 2, 3}
    options = (questions, "--world", encyclopedia, "--model", "teacher:60/3", "--attempts", 4, "--keep", "1-3", "--out", out)
    told = ran("difficulty", *options)
    kept = read_questions(out)
    bands = (tmp_path / f"kept.{band}.jsonl" for band in ("too-hard", "too-easy", "untold"))
    others = [read_questions(band) if band.stat().st_size else [] for band in bands]
    assert kept and others[1] and not others[2] and len(kept) + sum(map(len, others)) == 24
    assert all(1 <= q.meta[META]["right"] <= 3 and q.meta[META]["scored"] == 4 for q in kept)
    assert all(q.meta[META]["right"] == 4 for q in others[1]) and kept[0].meta[META]["agent"] == "scripted-teacher"
    assert "4/4" in told


def test_the_last_record_of_an_attempt_counts_and_other_words_are_another_question(tmp_path):
    questions, out = tmp_path / "q.jsonl", tmp_path / "kept.jsonl"
    questions.write_text('{"id": "1", "text": "Who?", "answers": ["x"]}\n')
    asked = read_questions(questions)[0]
    for correct in (False, True):
        made = Trajectory(id="1-0", question=asked, nodes=(), leaf=None, ending=Ending.ANSWERED, answer="x")
        record = made.model_copy(update={"meta": {"evaluation": {"correct": correct}}})
        TrajectoryStore(tmp_path / "kept.attempts.jsonl").append(record)
    config = DifficultyConfig(questions=questions, out=out, band=BandSettings(attempts=1, most_right=1))
    assert sort_attempts(config)[1] == {"1/1": 1}
    questions.write_text('{"id": "1", "text": "Where?", "answers": ["x"]}\n')
    with pytest.raises(UserError, match="another question '1'"):
        sort_attempts(config)
    with pytest.raises(UserError, match="is read and would be written"):
        ran("difficulty", questions, "--model", "teacher:60/3", "--out", questions)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [(("--model", "teacher:60/3", "--keep", "x"), "no range"), (("--model", "teacher:60/3", "--keep", "3-9"), "of 8 attempts")],
)
def test_what_is_wrong_is_one_sentence(tmp_path, options, sentence):
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"id": "1", "text": "Who?", "answers": ["x"]}\n')
    with pytest.raises(UserError, match=sentence):
        ran("difficulty", questions, "--out", tmp_path / "o.jsonl", *options)


def test_chains_need_a_generated_world(tmp_path, encyclopedia):
    with pytest.raises(UserError, match="upwards from 1"):
        ran("chains", encyclopedia, "--out", tmp_path / "q.jsonl", "--hops", "0-2")
    with pytest.raises(UserError, match="There is no world"):
        ran("chains", tmp_path / "none", "--out", tmp_path / "q.jsonl")
