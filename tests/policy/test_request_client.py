"""Asking a model: against a real server on loopback that answers, hangs up, refuses, talks nonsense, and bills.

And remembered replies: keyed by all they answer, whole or absent, whoever writes and whoever is killed.
"""

import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from billing_server import Billing, billing
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.asking import AskingOutageError, AskingRefusedError, BudgetSpentError, first_readable
from sanderling.core.errors import UserError
from sanderling.core.types import Message, Role
from sanderling.policy.budget import Ledger, Prices, Spent
from sanderling.policy.contract import ScriptedPolicy
from sanderling.policy.endpoint import ChatEndpointPolicy, HttpClient
from sanderling.policy.request_client import ReplyCache, RequestClient, without_reasoning
from sanderling.runs.run import Run, Table
from sanderling.tools.page_reader import reading_messages


def told(text: str) -> tuple[Message, ...]:
    return (Message(role=Role.USER, content=text),)


def client_over(server: Billing, ledger: Ledger | None = None, prices: Prices | None = None, **options) -> RequestClient:
    client = HttpClient(server.url, retries=2, backoff_s=0.001, timeout_s=0.3)
    return RequestClient(ChatEndpointPolicy(client, "m"), ledger=ledger, prices=prices or Prices(), **options)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("yes", "yes"), ("<think>hm</think>\n\nyes", "yes"), ("hm</think>yes", "yes"), ("<think>hm", ""), ("a <think>hm", "a"),
        ("<think>a</think>b<think>c</think> d ", "d"),
    ],
)  # fmt: skip
def test_reasoning_is_taken_off(text: str, said: str) -> None:
    assert without_reasoning(text) == said


async def test_a_reply_says_what_it_cost() -> None:
    with billing(lambda messages, _: "<think>let me see</think> Paris it is") as server:
        ledger = Ledger()
        reply = await client_over(server, ledger, Prices(2.0, 10.0)).ask(told("capital of France"))
    assert reply.text == "Paris it is"
    usage = reply.usage
    assert (usage.model, usage.prompt_tokens, usage.sampled_tokens, usage.remembered) == ("m", 6, 6, False)
    assert usage.cost == pytest.approx((6 * 2 + 6 * 10) / 1e6)
    assert ledger.spent == Spent(12, usage.cost, 1) and server.tokens == 12


async def test_replies_are_remembered_by_all_that_they_answer(tmp_path: Path) -> None:
    with billing(lambda messages, before: f"reply {len(server.asked)}") as server:
        ledger = Ledger()
        first = client_over(server, ledger, cache=ReplyCache(tmp_path))
        one = await first.ask(told("a"))
        again = await client_over(server, ledger, cache=ReplyCache(tmp_path)).ask(told("a"))
        assert (again.text, again.usage.remembered, again.usage.cost) == (one.text, True, 0.0)
        assert (again.usage.prompt_tokens, again.usage.sampled_tokens) == (one.usage.prompt_tokens, one.usage.sampled_tokens)
        others = [
            await first.ask(told("b")), await first.ask(told("a"), sample=1), await first.ask(told("a"), temperature=0.5),
            await first.ask(told("a"), max_tokens=7),
            await client_over(server, cache=ReplyCache(tmp_path), place="n").ask(told("a")),
        ]  # fmt: skip
    assert len({one.text, *(other.text for other in others)}) == 6 and len(server.asked) == 6
    assert ledger.spent.calls == 5


@pytest.mark.parametrize("trouble", [429, 500, 503, b"<html>", b"[]", b"{}", b'{"choices": []}', None])
async def test_trouble_is_tried_again_a_few_times_and_is_an_outage(trouble: int | bytes | None) -> None:
    with billing(lambda messages, _: trouble) as server:
        ledger = Ledger(tokens=10_000)
        with pytest.raises(AskingOutageError):
            await client_over(server, ledger).ask(told("a"))
    assert 1 <= len(server.asked) <= 3
    assert ledger.spent == Spent()


async def test_a_silent_server_is_an_outage() -> None:
    release = threading.Event()
    with billing(lambda messages, _: "late" if release.wait(5) else None) as server:
        with pytest.raises(AskingOutageError):
            await client_over(server).ask(told("a"))
        release.set()
    assert len(server.asked) == 3


async def test_a_refused_conversation_refuses_no_other() -> None:
    with billing(lambda messages, _: 400 if "long" in messages[0]["content"] else "well") as server:
        one = client_over(server)
        for _ in range(7):
            with pytest.raises(AskingRefusedError, match="not now"):
                await one.ask(told("long"))
        assert (await one.ask(told("short"))).text == "well"


async def test_a_wrong_key_is_the_persons_to_mend() -> None:
    with billing(lambda messages, _: 401) as server, pytest.raises(UserError, match="API key"):
        await client_over(server).ask(told("a"))


async def test_a_server_that_stays_away_is_tried_once_a_minute_and_heard_when_it_is_back() -> None:
    now, away = [0.0], [True]
    with billing(lambda messages, _: 500 if away[0] else "well") as server:
        one = client_over(server, monotonic=lambda: now[0])
        for _ in range(8):
            with pytest.raises(AskingOutageError):
                await one.ask(told("a"))
        assert len(server.asked) == 5 * 3
        now[0] = 61.0
        found = await asyncio.gather(*(one.ask(told("a")) for _ in range(8)), return_exceptions=True)
        assert all(isinstance(error, AskingOutageError) for error in found) and len(server.asked) == 6 * 3
        away[0], now[0] = False, 62.0 + 60.0
        assert [(await one.ask(told("a"))).text for _ in range(3)] == ["well"] * 3


async def test_a_server_that_stays_away_is_not_waited_for_for_ever() -> None:
    with billing(lambda messages, _: 500) as server:
        one = client_over(server)
        for _ in range(20):
            with pytest.raises(AskingOutageError):
                await one.ask(told("a"))
    assert len(server.asked) == 5 * 3


async def test_not_too_many_at_a_time() -> None:
    with billing(lambda messages, _: "well") as server:
        one = client_over(server, concurrency=3)
        await asyncio.gather(*(one.ask(told(str(n))) for n in range(30)))
    assert server.most <= 3 and len(server.asked) == 30


@pytest.mark.parametrize("bills", [True, False])
@pytest.mark.parametrize("limit", [100, 400, 1_000])
async def test_a_limit_of_tokens_is_never_passed(limit: int, bills: bool) -> None:
    """However many ask at the same time, and whether or not the server counts."""
    with billing(lambda messages, _: "one two three four five six seven", bills=bills) as server:
        ledger = Ledger(tokens=limit)
        one = client_over(server, ledger, concurrency=16)
        found = await asyncio.gather(*(one.ask(told(f"q {n}"), max_tokens=20) for n in range(100)), return_exceptions=True)
    refused = [error for error in found if isinstance(error, BudgetSpentError)]
    assert len(refused) + len(server.asked) == 100 and refused
    assert server.tokens <= ledger.spent.tokens <= limit
    assert bool(server.asked) == (limit > 120)


async def test_what_is_remembered_needs_no_budget(tmp_path: Path) -> None:
    with billing(lambda messages, _: "well") as server:
        await client_over(server, cache=ReplyCache(tmp_path)).ask(told("a"))
        broke = client_over(server, Ledger(tokens=1), cache=ReplyCache(tmp_path))
        assert (await broke.ask(told("a"))).text == "well"
        with pytest.raises(BudgetSpentError):
            await broke.ask(told("b"))


def test_a_ledger_goes_on_where_it_was_and_counts_what_was_under_way(tmp_path: Path) -> None:
    spent = Run(tmp_path).table("spent")
    first = Ledger(tokens=1_000, kept=spent)
    first.settle(first.hold(400, 0.5), Spent(150, 0.25, 1))
    first.hold(300, 0.5)  # killed here
    first.settle(first.hold(100, 0.5), Spent())
    second = Ledger(tokens=1_000, kept=spent)
    assert second.spent == Spent(450, 0.75, 3) and second.here == Spent() != first.here
    with pytest.raises(BudgetSpentError, match=r"1,000 \(tokens\) is reached: 450"):
        second.hold(551, 0.0)
    hold = second.hold(550, 0.0)
    second.settle(hold, Spent(10, 0.0, 1))
    second.settle(hold, Spent(500, 0.0, 1))
    assert Ledger(kept=spent).spent.tokens == 460


def test_what_could_not_be_kept_is_not_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tokens=1_000, kept=Run(tmp_path).table("spent"))
    with monkeypatch.context() as full, pytest.raises(UserError, match="no room"):
        full.setattr(Table, "put", Mock(side_effect=UserError("no room")))
        ledger.hold(600, 0.0)
    ledger.hold(600, 0.0)


def test_two_ledgers_on_one_table_lose_nothing_and_keep_one_limit(tmp_path: Path) -> None:
    spent = Run(tmp_path).table("spent")
    one, other = (Ledger(tokens=1_000, kept=spent) for _ in range(2))
    one.settle(one.hold(300, 0.0), Spent(200, 0.0, 1))
    other.settle(other.hold(400, 0.0), Spent(300, 0.5, 1))
    with pytest.raises(BudgetSpentError, match="500 are spent"):
        one.hold(501, 0.0)
    one.hold(500, 0.0)
    with pytest.raises(BudgetSpentError):
        other.hold(1, 0.0)
    assert Ledger(kept=spent).spent == Spent(1_000, 0.5, 3) and other.here == Spent(300, 0.5, 1)


def test_a_damaged_ledger_is_told(tmp_path: Path) -> None:
    spent = Run(tmp_path).table("spent")
    spent.put("3", {"tokens": 1})
    with pytest.raises(UserError, match="damaged"):
        Ledger(kept=spent)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500), st.sampled_from(["settle", "release", "keep"]))))
def test_a_ledger_never_passes_its_limit(calls: list[tuple[int, int, str]]) -> None:
    ledger = Ledger(tokens=2_000)
    held = 0
    for wanted, found, end in calls:
        try:
            hold = ledger.hold(wanted, 0.0)
        except BudgetSpentError:
            assert ledger.spent.tokens + held + wanted > 2_000
            continue
        if end == "keep":
            held += wanted
        else:
            ledger.settle(hold, Spent(min(found, wanted), 0.0, 1) if end == "settle" else Spent())
        assert ledger.spent.tokens + held <= 2_000


async def test_a_cancelled_call_counts_in_full() -> None:
    class Slow(ScriptedPolicy):
        pass

    started = asyncio.Event()

    async def forever(self, *args) -> None:
        started.set()
        await asyncio.Event().wait()

    policy = Slow(lambda messages, key: "")
    ledger = Ledger()
    one = RequestClient(policy, ledger=ledger)
    session = policy.open  # the real session, whose turn never comes
    policy.open = lambda key: _never(session(key), forever)  # type: ignore[method-assign]
    task = asyncio.create_task(one.ask(told("abcd"), max_tokens=50))
    await started.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert ledger.spent.tokens == 64 + 4 + 16 + 50


def _never(session, forever):
    session.generate = lambda *args: forever(session, *args)
    return session


async def test_scripts_are_asked_too() -> None:
    one = RequestClient(ScriptedPolicy(lambda messages, key: "<think>hm</think>first", "list"))
    assert (await one.ask(told("a"))).text == "first" and one.name == "list"


async def test_a_reply_cut_for_its_length_is_not_read(tmp_path: Path) -> None:
    """Its words may be the middle of reasoning; remembered, it still is cut."""
    body = b'{"choices": [{"message": {"content": "so far correct: yes"}, "finish_reason": "length"}]}'
    with billing(lambda messages, before: body) as server:
        for _ in range(2):
            one = client_over(server, cache=ReplyCache(tmp_path))
            assert (await one.ask(told("a"))).cut
            assert (await first_readable([one], told("a"), lambda text: text)).value is None
    assert len(server.asked) == 1


async def test_one_conversation_asked_twice_at_the_same_time_is_paid_once(tmp_path: Path) -> None:
    with billing(lambda messages, before: f"reply {before}") as server:
        one = client_over(server, cache=ReplyCache(tmp_path))
        replies = await asyncio.gather(*(one.ask(told("a")) for _ in range(4)), one.ask(told("a"), sample=1))
    assert [reply.text for reply in replies[:4]] == [replies[0].text] * 4 and len(server.asked) == 2


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": 40}])
async def test_a_server_that_does_not_count_is_charged_an_estimate_that_says_so(usage: object, tmp_path: Path) -> None:
    said = "one two three"
    body = {"choices": [{"message": {"content": said}, "finish_reason": "stop"}], **({} if usage is None else {"usage": usage})}
    prices = Prices(2.0, 10.0)
    with billing(lambda messages, _: json.dumps(body).encode()) as server:
        spent = Run(tmp_path / "run").table("spent")
        ledger = Ledger(kept=spent)
        one = client_over(server, ledger, prices, cache=ReplyCache(tmp_path / "cache"))
        reply = await one.ask(told("capital of France"))
        again = await one.ask(told("capital of France"))
    prompt = 40 if usage == {"prompt_tokens": 40} else len("capital of France") + 16 + 64
    found = reply.usage
    assert (found.prompt_tokens, found.sampled_tokens, found.is_estimated) == (prompt, len(said), True)
    assert found.cost == pytest.approx((prompt * 2 + len(said) * 10) / 1e6)
    assert ledger.spent == Spent(prompt + len(said), found.cost, 1, 1)
    assert Ledger(kept=spent).spent == ledger.spent
    assert again.usage.is_estimated and again.usage.remembered and again.usage.cost == 0.0


@pytest.mark.parametrize("bills", [True, False])
async def test_a_limit_of_money_bites_whether_or_not_a_server_counts(bills: bool) -> None:
    with billing(lambda messages, _: "one two three", bills=bills) as server:
        ledger = Ledger(cost=1.0)
        one = client_over(server, ledger, Prices(1_000.0, 10_000.0))
        costs: list[float] = []
        with pytest.raises(BudgetSpentError, match="money"):
            for n in range(1_000):
                costs.append((await one.ask(told(str(n)), max_tokens=10)).usage.cost)
    assert ledger.spent.cost == pytest.approx(sum(costs)) and 0.5 < sum(costs) <= 1.0
    assert ledger.spent.estimated == (0 if bills else len(costs))


ASKED = reading_messages("T", "text", "goal", 1, 1)


def test_a_reply_is_remembered_for_its_very_conversation_and_model(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path)
    assert cache.get("m", ASKED) is None
    cache.put("m", ASKED, "réponse \ud800 東")
    found = ReplyCache(tmp_path).get("m", ASKED)
    assert found is not None and found.reply == "réponse ? 東"
    others = [
        reading_messages("U", "text", "goal", 1, 1), reading_messages("T", "text.", "goal", 1, 1), ASKED[1:],
        reading_messages("T", "text", "goals", 1, 1), reading_messages("T", "text", "goal", 1, 2),
        (Message(role=Role.SYSTEM, content=f"{ASKED[0].content} "), ASKED[1]),
    ]  # fmt: skip
    assert [cache.get("m", other) for other in others] == [None] * 6
    assert cache.get("n", ASKED) is None


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="choose another directory"):
        ReplyCache(tmp_path / "file" / "below")


def _write(directory: str, number: int) -> None:
    cache = ReplyCache(Path(directory))
    for turn in range(60):
        cache.put("m", reading_messages("T", str(turn % 5), "g", 1, 1), f"{number} " * 2_000)


def test_processes_write_the_same_replies_side_by_side(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(str(tmp_path), number)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    for turn in range(5):
        kept = ReplyCache(tmp_path).get("m", reading_messages("T", str(turn), "g", 1, 1))
        assert kept is not None and len(set(kept.reply.split())) == 1 and len(kept.reply.split()) == 2_000


def test_killed_while_writing_it_leaves_whole_replies(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from sanderling.policy.request_client import ReplyCache\n"
        "from sanderling.tools.page_reader import reading_messages\n"
        f"cache = ReplyCache(Path({str(tmp_path)!r}))\n"
        "for n in range(10 ** 9): cache.put('m', reading_messages('T', str(n % 50), 'g', 1, 1), 'word ' * 20_000)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    while not (tmp_path / "replies.db-wal").exists() or (tmp_path / "replies.db-wal").stat().st_size < 50_000:
        assert writer.poll() is None
        time.sleep(0.01)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    cache = ReplyCache(tmp_path)
    kept = [one.reply for n in range(50) if (one := cache.get("m", reading_messages("T", str(n), "g", 1, 1))) is not None]
    assert kept and set(kept) == {"word " * 20_000}
