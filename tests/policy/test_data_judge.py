"""``sanderling data judge``: a model judge against a real server that answers, fails and bills; rules; a person's word."""

import json
from pathlib import Path

import pytest
import typer
from billing_server import billing

from sanderling.cli import exits
from sanderling.cli.data_judge import judge
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.judge.book import Keep
from sanderling.judge.by_hand import ByHand
from sanderling.judge.verdict import META_KEY, verdict_of
from sanderling.runs.jsonl import TrajectoryStore

PRICE = ["1000,1000"]


def say(messages: list[dict[str, str]], _: int) -> str | int:
    """Right for even numbers, wrong for odd ones, nonsense for 7, down for 8."""
    number = int(messages[1]["content"].split("answer ")[1].split()[0])
    return {7: "hm", 8: 500}.get(number, f"reasoning: number {number}\ncorrect: {'no' if number % 2 else 'yes'}")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    store = TrajectoryStore(tmp_path / "in.jsonl")
    for number in range(12):
        question = Question(id=f"q{number}", text="?", answers=("42",))
        ending, answer = (Ending.TOOL_OUTAGE, None) if number == 11 else (Ending.ANSWERED, f"answer {number} it is")
        store.append(Trajectory(id=f"t{number}", question=question, nodes=(), leaf=None, ending=ending, answer=answer))
    return store.path


def verdicts(out: Path) -> list[bool | None]:
    return [verdict_of(found) for found in TrajectoryStore(out)]


WANTED = [n % 2 == 0 for n in range(7)] + [None, None, False, True, None]


def test_failures_are_unscored_with_a_reason_and_made_good_by_the_next_run(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    options = {"cache": tmp_path / "cache", "price": PRICE}
    with billing(say) as server:
        with pytest.raises(typer.Exit) as left:
            judge(file, out, [f"{server.url}?retries=1#m"], **options)
        assert left.value.exit_code == exits.UNFINISHED and verdicts(out) == WANTED
        report = json.loads((tmp_path / "out.jsonl.judge.json").read_text())
        assert (report["correct"], report["incorrect"], report["unscored"]) == (5, 4, 3)
        assert report["codes"] == {"judged": 9, "not_ended": 1, "outage": 1, "unreadable": 1}
        assert report["examples"]["outage"] == ["t8"] and report["cost"] == pytest.approx(server.tokens / 1_000)
        asked = len(server.asked)
        server.say = lambda messages, _: "correct: yes"
        judge(file, out, [f"{server.url}?retries=1#m"], **options)
        assert len(server.asked) == asked + 1, "what was said before, readable or not, is remembered"
    assert verdicts(out) == [*WANTED[:8], True, *WANTED[9:]]
    meta = next(iter(TrajectoryStore(out))).meta[META_KEY]
    assert meta["model"] == "m" and meta["reason"] == "number 0" and meta["prompt"].startswith("judge ") and meta["cost"] > 0


def test_a_server_that_counts_nothing_spends_the_limit_all_the_same(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    with billing(lambda messages, _: "correct: yes", bills=False) as server, pytest.raises(typer.Exit) as left:
        judge(file, out, [f"{server.url}#m"], cache=tmp_path / "c", price=PRICE, max_cost=8.0, concurrency=1)
    report = json.loads((tmp_path / "out.jsonl.judge.json").read_text())
    asked = len(server.asked)
    assert left.value.exit_code == exits.UNFINISHED and 0 < asked < 11 and report["codes"]["budget"] == 11 - asked
    assert 0 < report["cost"] <= 8.0
    metas = [found.meta[META_KEY] for found in TrajectoryStore(out)]
    assert [meta.get("estimated") for meta in metas if meta["correct"]] == [True] * asked
    assert f"{asked} calls estimated" in " ".join(capsys.readouterr().out.split())


def test_a_judge_that_refuses_is_not_waited_for(file: Path, tmp_path: Path) -> None:
    """What is too long for the judge stays so: unscored, with a reason, and nothing that another run would mend."""
    with billing(lambda messages, _: 400) as server:
        judge(file, tmp_path / "out.jsonl", [f"{server.url}#m"], cache=tmp_path / "c")
    report = json.loads((tmp_path / "out.jsonl.judge.json").read_text())
    assert report["codes"]["refused"] == 11 and report["correct"] == report["incorrect"] == 0


def test_rules_come_first_and_save_the_model(file: Path, tmp_path: Path) -> None:
    with billing(lambda messages, _: "correct: no") as server:
        judge(file, tmp_path / "out.jsonl", ["contains", f"{server.url}#m"], cache=tmp_path / "c", keep=Keep.ALL)
        assert len(server.asked) == 11
    judge(file, tmp_path / "rule.jsonl", ["contains"], keep=Keep.CORRECT)
    assert list(TrajectoryStore(tmp_path / "rule.jsonl")) == []


def test_a_person_outweighs_the_judge(file: Path, tmp_path: Path) -> None:
    (tmp_path / "said.csv").write_text("id,correct\nt0,yes\nt11,no\nt-o,yes\n")
    judge(file, tmp_path / "out.jsonl", ["exact"], verdicts=tmp_path / "said.csv", keep=Keep.CORRECT)
    (kept,) = TrajectoryStore(tmp_path / "out.jsonl")
    assert kept.id == "t0" and kept.meta[META_KEY]["judge"] == "by hand"
    assert json.loads((tmp_path / "out.jsonl.judge.json").read_text())["unused_by_hand"] == ["t-o"]


@pytest.mark.parametrize("text", ["t0", "t0,maybe", "t0,yes,no", "t0,yes\nt0,no", "\xff"])
def test_bad_verdicts_are_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "said.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError):
        ByHand.read(tmp_path / "said.csv")


def test_a_budget_leaves_the_rest_open_and_a_larger_one_goes_on(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with billing(lambda messages, _: "correct: yes") as server:
        options = {"cache": tmp_path / "c", "price": PRICE, "concurrency": 1}
        with pytest.raises(typer.Exit) as left:
            judge(file, out, [f"{server.url}#m"], max_tokens=4_200, **options)
        assert left.value.exit_code == exits.UNFINISHED and 0 < len(server.asked) < 11 and server.tokens <= 4_200
        assert len(verdicts(out)) == 12
        judge(file, out, [f"{server.url}#m"], max_tokens=100_000, **options)
        assert len(server.asked) == 11 and verdicts(out) == [True] * 11 + [None]


@pytest.mark.parametrize(
    ("judges", "told"),
    [(["exactly"], "did you mean"), (["./none"], "no model"), (["http://x/v1"], "lacks the host or the model")],
)
def test_bad_judges_are_told(file: Path, tmp_path: Path, judges: list[str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        judge(file, tmp_path / "out.jsonl", judges, cache=tmp_path / "c")
    with pytest.raises(UserError, match="is read and would be written"):
        judge(file, file, ["exact"])
