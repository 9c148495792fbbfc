"""``sanderling eval run | judge | agree`` with judges on a real server: whose form, who is asked, what a person overrules."""

import json
from pathlib import Path

import pytest
from billing_server import Billing, Say, billing
from typer.testing import CliRunner, Result

from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.core.types import Ending
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.result import EvalResult
from sanderling.judge.verdict import Code
from sanderling.runs.jsonl import write_trajectories
from sanderling.synth.chains import chain_questions
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world
from sanderling.world.encyclopedia import generate_encyclopedia


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world, its questions in the layout of SealQA, and some without accepted answers in GAIA's."""
    root = tmp_path_factory.mktemp("judging")
    made = generate_encyclopedia(60, 3)
    questions = chain_questions(made, 6, 0, {2: 1.0})
    build_world(root / "world", [item.page for item in made.pages], name=made.name, source="encyclopedia", seed=3)
    rows = [{"question": one.text, "answer": one.answers[0], "topic": "towns", "freshness": "never"} for one in questions]
    (root / "seal-0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden = [
        {"task_id": str(n), "Question": one.text, "Level": 1, "Final answer": "?", "file_name": ""}
        for n, one in enumerate(questions)
    ]
    (root / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in hidden))
    return root


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "300"})


def run(place: Path, out: Path, key: str, file: str, *more: object) -> Result:
    """The agent knows every other answer, from the first turn on."""
    known = [json.loads(line)["answer"] for line in (place / "seal-0.jsonl").read_text().splitlines()]
    texts = [json.loads(line)["question"] for line in (place / "seal-0.jsonl").read_text().splitlines()]

    def answer(messages: list[dict[str, str]], before: int) -> str:
        number = next(n for n, text in enumerate(texts) if any(text in message["content"] for message in messages))
        said = known[number] if number % 2 == 0 else "nobody at all" if before % 2 else "nobody"
        return f"<think>\nI know.\n</think>\n<answer>{said}</answer>"

    with billing(answer) as agent:
        common = ["--world", place / "world", "--model", model(agent), "--profile", "tiny", "--attempts", 2, "--out", out]
        return call("run", key, place / file, *common, *more)


def lenient(messages: list[dict[str, str]], _: int) -> str:
    """SimpleQA's letters: all right."""
    del messages
    return "A"


def model(server: Billing) -> str:
    return f"{server.url}#j"


def test_judges_are_compared_and_a_person_settles(place: Path, tmp_path: Path) -> None:
    out, settle = tmp_path / "run", tmp_path / "settle.csv"
    assert run(place, out, "seal-0", "seal-0.jsonl", "--judge", "exact").exit_code == 0
    exact = EvalResult.load(out / "result.json")
    alone = call("agree", out).exception
    assert isinstance(alone, UserError) and "one judge alone" in str(alone)
    with billing(lenient) as server:
        result = call("judge", out, "--judge", "exact", "--second-judge", model(server))
        assert result.exit_code == 0 and EvalResult.load(out / "result.json").questions == exact.questions
    told = call("agree", out, "--csv", settle)
    assert told.exit_code == 0 and "exact against" in told.output and "kappa" in told.output
    lines = settle.read_text().splitlines()
    wrong = {one.question for one in RunLog(out).verdicts() if one.correct is False and one.code is Code.JUDGED}
    assert wrong and {line.split(",")[0] for line in lines[1:]} == wrong
    assert isinstance(call("agree", out, "--csv", settle).exception, UserError), "it may hold a person's work"
    settle.write_text("\n".join([lines[0], *(line.replace(",,", ",yes,", 1) for line in lines[1:])]))
    settled = call("judge", out, "--verdicts", settle)
    assert settled.exit_code == 0
    after = EvalResult.load(out / "result.json")
    assert after.by_hand > 0 and after.pass_at_1.value is not None and exact.pass_at_1.value is not None
    assert after.pass_at_1.value > exact.pass_at_1.value
    assert "exact against a person" in call("agree", out).output
    (tmp_path / "typo.csv").write_text("question,answer,correct\nseal-0/nowhere,Oslo,yes\n")
    typo = call("judge", out, "--verdicts", tmp_path / "typo.csv").exception
    assert isinstance(typo, UserError) and "No line of" in str(typo) and "question,answer,correct" in str(typo)
    partly = tmp_path / "partly.csv"
    partly.write_text(settle.read_text().rstrip() + "\nseal-0/nowhere,Oslo,yes,\n")
    told = call("judge", out, "--verdicts", partly)
    assert told.exit_code == 0 and "1 lines of --verdicts are about no attempt (such as seal-0/nowhere: Oslo)" in told.output
    assert call("judge", out, "--verdicts", settle).exit_code == 0
    rerun = run(place, out, "seal-0", "seal-0.jsonl", "--judge", "exact")
    assert rerun.exit_code == 0 and EvalResult.load(out / "result.json").by_hand == after.by_hand, "the run remembers"
    correct = sum(one.correct is True for one in RunLog(out).verdicts())
    assert f"{correct} correct" in rerun.output


def test_a_spent_budget_is_told_and_gone_on_with_by_score_and_by_judge(place: Path, tmp_path: Path) -> None:
    own, out = tmp_path / "own", tmp_path / "score"
    assert run(place, own, "seal-0", "seal-0.jsonl", "--judge", "exact").exit_code == 0
    before = (own / "result.json").read_bytes(), RunLog(own).verdicts()
    write_trajectories(tmp_path / "own.jsonl", RunLog(own).records())
    with billing(lambda messages, _: "reasoning: so\ncorrect: yes") as server:
        little = ("--judge", model(server), "--set", "budget.max_tokens=50")
        for words in (("judge", own), ("score", tmp_path / "own.jsonl", "--out", out)):
            told = call(*words, *little)
            assert told.exit_code == 3 and "run the same command again to resume" in told.output, (told.output, told.exception)
        assert ((own / "result.json").read_bytes(), RunLog(own).verdicts()) == before
        assert not (out / "result.json").exists() and not server.asked
        enough = call("score", tmp_path / "own.jsonl", "--out", out, "--judge", model(server))
        assert enough.exit_code == 0 and EvalResult.load(out / "result.json").pass_at_1.value == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--judge", "exat"), "did you mean 'exact'"),
        (("--judge", "exact", "--set", "judging.prompt=word"), "is for a judging model"),
        ((), "scored by a model"),
    ],
)
def test_judges_that_there_are_not(place: Path, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    found = run(place, tmp_path / "run", "seal-0", "seal-0.jsonl", *arguments).exception
    assert isinstance(found, UserError) and message in str(found)


# -- ``sanderling eval run`` with a model that reads the pages, and with other budgets than the profile's ------------------

KENT, QUIZ = "https://w.example/kent", "https://quiz.example/1"
ASKED = "Through which town in the north of England does the river Kent flow on its way?"
READ = json.dumps({"rationale": "r", "evidence": ["It flows through Kendal."], "summary": "Through Kendal."})


@pytest.fixture
def leaking(tmp_path: Path) -> Path:
    """A world with a page that gives the question away, and the question."""
    pages = [
        Page(url=KENT, title="Kent", text="The river Kent is 32 km long.\n\nIt flows through Kendal."),
        Page(url=QUIZ, title="Quiz", text=f"{ASKED} Kendal."),
    ]
    build_world(tmp_path / "w", pages, name="rivers", source="test")
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": "1", "question": ASKED, "answer": "Kendal"}) + "\n")
    return tmp_path


def agent(messages: list[dict[str, str]], before: int) -> str:
    """Visits both pages, then says what it read."""
    if not any(message["role"] == "assistant" for message in messages):
        call = {"name": "visit", "arguments": {"url": [KENT, QUIZ], "goal": "which town"}}
        return f"<think>look</think>\n<tool_call>\n{json.dumps(call)}\n</tool_call>"
    read = "Through Kendal." in messages[-1]["content"]
    return f"<think>so</think>\n<answer>{'Kendal' if read else 'unknown'}</answer>"


def ran(leaking: Path, url: str, *more: object) -> Result:
    arguments = ["run", "jsonl", leaking / "q.jsonl", "--world", leaking / "w", "--model", f"{url}#m", "--judge", "exact"]
    wanted = [*arguments, "--out", leaking / "run", "--set", f"agent.reader.cache={leaking / 'cache'}", *more]
    return CliRunner().invoke(app, [*map(str, wanted)], env={"COLUMNS": "200"})


def reading(*replies: str | int) -> Say:
    """Says these, the last one again and again."""
    left = list(replies)
    return lambda messages, before: left.pop(0) if len(left) > 1 else left[0]


def test_a_model_reads_what_the_guard_lets_through(leaking: Path) -> None:
    with billing(agent) as server, billing(reading(READ)) as reader:
        done = ran(leaking, server.url, "--profile", "dr-venus-4b", "--set", f"agent.reader.model={reader.url}#reader")
        assert done.exit_code == 0 and "avg@1 100.0%" in done.output, done.output
        shown = " ".join(message["content"] for messages in reader.asked for message in messages)
        assert len(reader.asked) == 1 and "32 km" in shown
        assert ASKED not in shown, "a page that gives the question away is hidden before a model reads it"
        other = ran(leaking, server.url, "--profile", "dr-venus-4b", "--set", f"agent.reader.model={reader.url}#another")
        none = ran(leaking, server.url, "--profile", "dr-venus-4b")
    for refused in (other, none):
        assert isinstance(refused.exception, UserError) and "made with other settings (reader was" in str(refused.exception)


@pytest.mark.parametrize(("outage", "ending", "code"), [("refuse", Ending.TOOL_OUTAGE, 3), ("fall-back", Ending.ANSWERED, 0)])
def test_a_reader_that_is_away_is_no_weak_agent(leaking: Path, outage: str, ending: Ending, code: int) -> None:
    options = ["--profile", "dr-venus-4b", "--set", f"agent.reader.on_outage={outage}"]
    with billing(agent) as server, billing(reading(503)) as reader:
        done = ran(leaking, server.url, *options, "--set", f"agent.reader.model={reader.url}?retries=0#reader")
    assert done.exit_code == code, done.output
    assert EvalResult.load(leaking / "run" / "result.json").endings == {ending: 1}
