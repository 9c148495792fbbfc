"""Asking a model: against a real server on loopback that answers, hangs up, refuses, talks nonsense, and bills.

And remembered replies: keyed by all they answer, whole or absent, whoever writes and whoever is killed.
"""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from billing_server import Billing, billing

from sanderling.core.types import AskingOutageError, BudgetSpentError, Message, Role, first_readable
from sanderling.policy.budget import Ledger, Prices, Spent
from sanderling.policy.clients import ReplyCache, RequestClient
from sanderling.policy.endpoint import ChatEndpointPolicy, HttpClient
from sanderling.runs.run import Run


def told(text: str) -> tuple[Message, ...]:
    return (Message(role=Role.USER, content=text),)


def client_over(server: Billing, ledger: Ledger | None = None, prices: Prices | None = None, **options) -> RequestClient:
    client = HttpClient(server.url, retries=2, backoff_s=0.001, timeout_s=0.3)
    return RequestClient(ChatEndpointPolicy(client, "m"), ledger=ledger, prices=prices or Prices(), **options)


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


async def test_a_reply_that_an_earlier_version_kept_is_remembered(tmp_path: Path) -> None:
    with billing(lambda *_: "reply") as server:
        one = await client_over(server, cache=ReplyCache(tmp_path)).ask(told("a"))
        with closing(sqlite3.connect(tmp_path / "replies.db")) as database, database:
            database.execute("UPDATE entry SET value = json_set(value, '$.estimated', json('false'))")
        again = await client_over(server, cache=ReplyCache(tmp_path)).ask(told("a"))
    assert again.usage.remembered and again.text == one.text


@pytest.mark.parametrize("trouble", [503, b"[]", b'{"choices": []}', None])
async def test_trouble_is_tried_again_a_few_times_and_is_an_outage(trouble: int | bytes | None) -> None:
    with billing(lambda messages, _: trouble) as server:
        ledger = Ledger(tokens=10_000)
        with pytest.raises(AskingOutageError):
            await client_over(server, ledger).ask(told("a"))
    assert 1 <= len(server.asked) <= 3
    assert ledger.spent == Spent()


def test_a_ledger_goes_on_where_it_was_and_counts_what_was_under_way(tmp_path: Path) -> None:
    spent = Run(tmp_path).table("spent")
    first, second, third = (Ledger(tokens=1_000) for _ in range(3))
    first.keep_in(spent)
    first.settle(first.hold(400, 0.5), Spent(150, 0.25, 1))
    first.hold(300, 0.5)  # killed here
    first.settle(first.hold(100, 0.5), Spent())
    second.keep_in(spent)
    assert second.spent == Spent(450, 0.75, 3) and second.here == Spent() != first.here
    with pytest.raises(BudgetSpentError, match=r"1,000 \(tokens\) is reached: 450"):
        second.hold(551, 0.0)
    hold = second.hold(550, 0.0)
    second.settle(hold, Spent(10, 0.0, 1))
    second.settle(hold, Spent(500, 0.0, 1))
    third.keep_in(spent)
    assert third.spent.tokens == 460


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
