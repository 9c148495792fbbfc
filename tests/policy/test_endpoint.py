"""Endpoint policies against a real server on loopback with scripted replies."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from billing_server import Billing, billing
from scripted_server import hang_up, plain, serve, stream

from sanderling.core.errors import UserError
from sanderling.core.types import AskingOutageError, BudgetSpentError, Message, Role, Sampling, first_readable
from sanderling.policy.budget import Ledger, Prices, Spent
from sanderling.policy.clients import ReplyCache, RequestClient
from sanderling.policy.contract import Delta, Finish, Policy, PolicyOutageError, SampleKey
from sanderling.policy.endpoint import ChatEndpointPolicy, CompletionEndpointPolicy, HttpClient
from sanderling.runs.run import Run

KEY = SampleKey(seed=0, question="q", attempt=0, turn=0)
END = 9


class LetterTokenizer:
    """Ids 0-8 are letters, 9 ends the turn."""

    fingerprint = "letters"
    vocab_size = 10

    def encode(self, text):
        return [ord(letter) - 97 for letter in text]

    def decode(self, ids):
        return "".join("<|im_end|>" if token == END else chr(97 + token) for token in ids)

    def token_id(self, token):
        assert token == "<|im_end|>"
        return END


def told(*texts: str) -> Delta:
    return Delta(messages=tuple(Message(role=Role.USER, content=text) for text in texts))


def chat(content, finish="stop", **more):
    usage = {"prompt_tokens": 12, "prompt_tokens_details": {"cached_tokens": 5}}
    return {"choices": [{"message": {"content": content, **more}, "finish_reason": finish}], "usage": usage, "error": None}


def tokens(ids, finish="stop", stop_reason=None, text="?"):
    logprobs = {"token_logprobs": [-0.5 * (1 + at) for at in range(len(ids))]}
    return {
        "choices": [
            {"text": text, "token_ids": ids, "logprobs": logprobs, "finish_reason": finish, "stop_reason": stop_reason}
        ],
        "usage": {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}},
    }


def client(server, **settings) -> HttpClient:
    return HttpClient(server.url, **{"backoff_s": 0.001, **settings})


async def test_chat_sends_the_branch_and_the_sampling():
    with serve(plain(chat("one")), plain(chat("two", "length"))) as server:
        policy: Policy = ChatEndpointPolicy(client(server, api_key="secret"), "tiny", context_length=100)
        session = policy.open(KEY)
        sampling = Sampling(temperature=0.7, top_p=0.9, top_k=20, presence_penalty=1.1, max_tokens=50, stop=("</x>",))
        first = await session.generate(told("a"), sampling, KEY)
        second = await session.generate(told("b"), Sampling(), SampleKey(0, "q", 0, 1))
    assert (first.text, first.finish, first.token_ids) == ("one", Finish.END, None)
    assert (first.prompt_tokens, first.prefilled_tokens) == (12, 7)
    assert second.finish is Finish.LENGTH
    (path, body, headers), (_, later, _) = server.asked
    assert path == "/v1/chat/completions" and headers["Authorization"] == "Bearer secret"
    wanted = {"model": "tiny", "temperature": 0.7, "top_p": 0.9, "top_k": 20, "presence_penalty": 1.1, "max_tokens": 50}
    assert wanted.items() <= body.items() and body["stop"] == ["</x>"]
    assert [message["content"] for message in later["messages"]] == ["a", "one", "b"]
    assert [message["role"] for message in later["messages"]] == ["user", "assistant", "user"]
    assert "top_k" not in later and body["seed"] != later["seed"]


async def test_chat_streams_and_puts_reasoning_back():
    events = [
        {"choices": [{"delta": {"role": "assistant", "reasoning": "hm"}}]},
        {"choices": [{"delta": {"reasoning": "m"}}]},
        {"choices": [{"delta": {"content": "Pa"}}]},
        {"choices": [{"delta": {"content": "ris é"}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 4}},
    ]
    pieces: list[str] = []
    with serve(stream(*events)) as server:
        session = ChatEndpointPolicy(client(server), "tiny").open(KEY)
        done = await session.generate(told("a"), Sampling(), KEY, pieces.append)
    assert (
        pieces == ["<think>\nhm", "m", "\n</think>\n\nPa", "ris é"]
        and done.text == "<think>\nhmm\n</think>\n\nParis é"
        and done.prompt_tokens == 4
    )
    assert server.asked[0][1]["stream"] is True


async def test_completions_take_and_return_ids():
    with serve(plain(tokens([0, 1, END])), plain(tokens([2, 3], "length"))) as server:
        policy: Policy = CompletionEndpointPolicy(client(server), "tiny", LetterTokenizer())
        session = policy.open(KEY)
        first = await session.generate(Delta((), (5, 6, 7)), Sampling(max_tokens=8), KEY)
        second = await session.generate(Delta((), (4,)), Sampling(), KEY)
    assert (first.text, first.finish, first.token_ids) == ("ab", Finish.END, (0, 1, END))
    assert (first.logprobs, first.versions, first.prefilled_tokens) == ((-0.5, -1.0, -1.5), (0, 0, 0), 2)
    assert (second.text, second.finish) == ("cd", Finish.LENGTH)
    (path, body, _), (_, later, _) = server.asked
    assert path == "/v1/completions" and body["prompt"] == [5, 6, 7] and later["prompt"] == [5, 6, 7, 0, 1, END, 4]
    sent = {
        "return_token_ids": True, "logprobs": 1, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0,
        "stop_token_ids": [END],
    }  # fmt: skip
    assert sent.items() <= body.items()


async def test_completions_stream_and_stop_strings():
    events = [tokens([0, 1], None, text="ab"), tokens([2, 3, 4], "stop", "de", text="c")]
    events[0]["choices"][0]["finish_reason"] = None
    pieces: list[str] = []
    with serve(stream(*events)) as server:
        session = CompletionEndpointPolicy(client(server), "tiny", LetterTokenizer()).open(KEY)
        done = await session.generate(Delta((), (5,)), Sampling(stop=("de",)), KEY, pieces.append)
    assert (done.text, done.finish, done.token_ids) == ("abc", Finish.STOP, (0, 1, 2, 3, 4))
    assert pieces == ["ab", "c"] and done.logprobs == (-0.5, -1.0, -0.5, -1.0, -1.5)


@pytest.mark.parametrize(
    "trouble",
    [
        plain({"error": {"message": "slow down"}}, 429, Retry_After="0.001"), plain(b"oops", 429, Retry_After="\xb2"),
        plain(b"oops", 502), plain(b"<html>"), plain(b"oops", Content_Encoding="gzip"), hang_up,
    ],
    ids=["429", "429 until nonsense", "502", "not json", "not packed", "hung up"],
)  # fmt: skip
async def test_trouble_that_passes_is_waited_out(trouble):
    with serve(trouble, trouble, plain(chat("fine"))) as server:
        session = ChatEndpointPolicy(client(server), "tiny").open(KEY)
        assert (await session.generate(told("a"), Sampling(), KEY)).text == "fine"
    assert len(server.asked) == 3


async def test_a_server_that_says_how_long_it_is_busy_is_left_alone_so_long(monkeypatch):
    slept: list[float] = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr("sanderling.policy.endpoint.asyncio.sleep", sleep)
    busy = [plain(b"", 429, Retry_After=after) for after in ("120", "300", "Fri, 31 Dec 2027 23:59:59 GMT")]
    with serve(*busy, plain(chat("fine"))) as server:
        session = ChatEndpointPolicy(client(server), "tiny").open(KEY)
        assert (await session.generate(told("a"), Sampling(), KEY)).text == "fine"
    assert slept == [120, 300, 0.004]
    with serve(plain(b"", 429, Retry_After="3600")) as server:
        session = ChatEndpointPolicy(client(server), "tiny").open(KEY)
        with pytest.raises(PolicyOutageError, match=r"left alone for 3,600 s \(status 429"):
            await session.generate(told("a"), Sampling(), KEY)
    assert len(server.asked) == 1 and len(slept) == 3


async def test_trouble_that_stays_is_an_outage_and_leaves_the_branch():
    with serve(*[plain(b"", 503)] * 3) as server:
        session = ChatEndpointPolicy(client(server, retries=2), "tiny").open(KEY)
        with pytest.raises(PolicyOutageError, match=r"3 attempts \(status 503"):
            await session.generate(told("a"), Sampling(), KEY)
        assert session.mark() == 0
    with pytest.raises(PolicyOutageError):
        await session.generate(told("a"), Sampling(), KEY)


async def test_a_stream_that_breaks_midway_is_not_sampled_again():
    half = stream({"choices": [{"delta": {"content": "Pa"}}]}, finished=False)
    with serve(half, plain(chat("never asked for"))) as server:
        session = ChatEndpointPolicy(client(server), "tiny").open(KEY)
        with pytest.raises(PolicyOutageError, match="broke"):
            await session.generate(told("a"), Sampling(), KEY, lambda text: None)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [(307, "sends requests on"), (400, "maximum context"), (401, "OPENAI_API_KEY"), (404, "no such model"), (422, "line one")],
)
async def test_refusals_are_one_sentence_and_not_repeated(status, words):
    with serve(plain({"error": {"message": "maximum context\nno such model line one"}}, status)) as server:
        session = ChatEndpointPolicy(client(server, api_key="secret"), "tiny").open(KEY)
        with pytest.raises(UserError, match=words) as error:
            await session.generate(told("a"), Sampling(), KEY)
    assert "\n" not in str(error.value) and "secret" not in str(error.value) and len(server.asked) == 1


async def test_a_name_and_a_word_in_the_address_are_sent_and_never_shown():
    with serve(plain(b"", 503), plain(chat("fine"))) as server:
        url = server.url.replace("//", "//ada:s%20cret@")
        session = ChatEndpointPolicy(HttpClient(url, retries=0), "tiny").open(KEY)
        with pytest.raises(PolicyOutageError) as error:
            await session.generate(told("a"), Sampling(), KEY)
        assert "cret" not in str(error.value) and "ada" not in str(error.value)
        assert (await session.generate(told("a"), Sampling(), KEY)).text == "fine"
    assert [headers["Authorization"] for _, _, headers in server.asked] == ["Basic YWRhOnMgY3JldA=="] * 2


async def test_a_refusal_amid_a_conversation_ends_that_episode_only():
    too_long = plain({"error": {"message": "maximum context"}}, 400)
    with serve(plain(chat("a call")), too_long, plain(tokens([0, 1], "stop")), too_long) as server:
        policies = [
            (ChatEndpointPolicy(client(server), "tiny"), told("a")),
            (CompletionEndpointPolicy(client(server), "tiny", LetterTokenizer()), Delta((), (5,))),
        ]
        for policy, delta in policies:
            session = policy.open(KEY)
            await session.generate(delta, Sampling(), KEY)
            mark = session.mark()
            with pytest.raises(PolicyOutageError, match="maximum context"):
                await session.generate(delta, Sampling(), KEY)
            assert session.mark() == mark


async def test_a_server_without_token_ids_is_refused():
    with serve(plain({"choices": [{"text": "ab", "finish_reason": "stop"}]})) as server:
        session = CompletionEndpointPolicy(client(server), "tiny", LetterTokenizer()).open(KEY)
        with pytest.raises(UserError, match="vLLM"):
            await session.generate(Delta((), (5,)), Sampling(), KEY)


# -- Asking a model: against a real server on loopback that answers, hangs up, refuses, talks nonsense, and bills ----------
# And remembered replies: keyed by all they answer, whole or absent, whoever writes and whoever is killed.


def asking(text: str) -> tuple[Message, ...]:
    return (Message(role=Role.USER, content=text),)


def client_over(server: Billing, ledger: Ledger | None = None, prices: Prices | None = None, **options) -> RequestClient:
    client = HttpClient(server.url, retries=2, backoff_s=0.001)
    return RequestClient(ChatEndpointPolicy(client, "m"), ledger=ledger, prices=prices or Prices(), **options)


async def test_replies_are_remembered_by_all_that_they_answer(tmp_path: Path) -> None:
    with billing(lambda messages, before: f"reply {len(server.asked)}") as server:
        ledger = Ledger()
        first = client_over(server, ledger, cache=ReplyCache(tmp_path))
        one = await first.ask(asking("a"))
        again = await client_over(server, ledger, cache=ReplyCache(tmp_path)).ask(asking("a"))
        assert (again.text, again.usage.remembered, again.usage.cost) == (one.text, True, 0.0)
        assert (again.usage.prompt_tokens, again.usage.sampled_tokens) == (one.usage.prompt_tokens, one.usage.sampled_tokens)
        others = [
            await first.ask(asking("b")), await first.ask(asking("a"), sample=1), await first.ask(asking("a"), temperature=0.5),
            await first.ask(asking("a"), max_tokens=7),
            await client_over(server, cache=ReplyCache(tmp_path), place="n").ask(asking("a")),
        ]  # fmt: skip
    assert len({one.text, *(other.text for other in others)}) == 6 and len(server.asked) == 6
    assert ledger.spent.calls == 5


async def test_a_reply_that_an_earlier_version_kept_is_remembered(tmp_path: Path) -> None:
    with billing(lambda *_: "reply") as server:
        one = await client_over(server, cache=ReplyCache(tmp_path)).ask(asking("a"))
        with closing(sqlite3.connect(tmp_path / "replies.db")) as database, database:
            database.execute("UPDATE entry SET value = json_set(value, '$.estimated', json('false'))")
        again = await client_over(server, cache=ReplyCache(tmp_path)).ask(asking("a"))
    assert again.usage.remembered and again.text == one.text


@pytest.mark.parametrize("trouble", [503, b"[]", b'{"choices": []}', None])
async def test_trouble_is_tried_again_a_few_times_and_is_an_outage(trouble: int | bytes | None) -> None:
    with billing(lambda messages, _: trouble) as server:
        ledger = Ledger(tokens=10_000)
        with pytest.raises(AskingOutageError):
            await client_over(server, ledger).ask(asking("a"))
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
            assert (await one.ask(asking("a"))).cut
            assert (await first_readable([one], asking("a"), lambda text: text))[0] is None
    assert len(server.asked) == 1


async def test_one_conversation_asked_twice_at_the_same_time_is_paid_once(tmp_path: Path) -> None:
    with billing(lambda messages, before: f"reply {before}") as server:
        one = client_over(server, cache=ReplyCache(tmp_path))
        replies = await asyncio.gather(*(one.ask(asking("a")) for _ in range(4)), one.ask(asking("a"), sample=1))
    assert [reply.text for reply in replies[:4]] == [replies[0].text] * 4 and len(server.asked) == 2


@pytest.mark.parametrize("bills", [True, False])
async def test_a_limit_of_money_bites_whether_or_not_a_server_counts(bills: bool) -> None:
    with billing(lambda messages, _: "one two three", bills=bills) as server:
        ledger = Ledger(cost=1.0)
        one = client_over(server, ledger, Prices(1_000.0, 10_000.0))
        costs: list[float] = []
        with pytest.raises(BudgetSpentError, match="money"):
            for n in range(1_000):
                costs.append((await one.ask(asking(str(n)), max_tokens=10)).usage.cost)
    assert ledger.spent.cost == pytest.approx(sum(costs)) and 0.5 < sum(costs) <= 1.0
