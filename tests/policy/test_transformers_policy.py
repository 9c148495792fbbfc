"""The in-process policy against plain forwards of the same model."""

import asyncio
import math
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_tiny import GREEDY, full_logits, ids, key, load, reference, said
from transformers import Qwen3Config, Qwen3ForCausalLM

from sanderling.core.errors import UserError
from sanderling.core.types import Sampling
from sanderling.policy.budget import read_prices
from sanderling.policy.contract import Delta, Finish
from sanderling.policy.engine import sample
from sanderling.policy.model_directory import positions_of
from sanderling.policy.transformers_policy import TransformersPolicy


@pytest.fixture(scope="module")
def loaded():
    return load()


@pytest.fixture
def policy(loaded):
    return TransformersPolicy(*loaded)


def prompt(seed: int, size: int) -> tuple[int, ...]:
    random_ = random.Random(seed)
    return tuple(random_.randrange(3, 290) for _ in range(size))


async def conversation(policy, number, sampling, *, turns=3, delay=0):
    """Deltas of uneven length in turn; returns the whole branch and the completions."""
    for _ in range(delay):
        await asyncio.sleep(0)
    session = policy.open(key(attempt=number))
    branch, completions = [], []
    for turn in range(turns):
        delta = prompt(100 * number + turn, 3 + (number * 7 + turn * 11) % 29)
        completion = await session.generate(ids(*delta), sampling, key(turn, attempt=number))
        branch += [*delta, *said(completion)]
        completions.append((len(branch) - len(said(completion)), completion))
    session.close()
    return branch, completions


@pytest.mark.parametrize("cuts", [{}, {"top_p": 0.9, "top_k": 20}, {"top_p": 0.8, "presence_penalty": 1.1}], ids=str)
async def test_logprobs_are_those_of_the_distribution_sampled_from(loaded, policy, cuts):
    sampling = Sampling(temperature=0.7, max_tokens=14, **cuts)
    results = await asyncio.gather(*(conversation(policy, number, sampling) for number in range(5)))
    for branch, completions in results:
        logits = full_logits(loaded[0], branch).numpy()
        for start, completion in completions:
            tokens = said(completion)
            for offset, token in enumerate(tokens):
                weights = reference(logits[start + offset - 1], sampling, set(tokens[:offset]))
                assert completion.logprobs[offset] == pytest.approx(math.log(weights[token]), abs=1e-4)


async def test_rewind_keeps_the_cache_before_the_mark(loaded, policy):
    session = policy.open(key())
    first = await session.generate(ids(*prompt(1, 15)), GREEDY, key(0))
    mark = session.mark()
    rejected = await session.generate(ids(*prompt(2, 9)), Sampling(max_tokens=8), key(1))
    session.rewind(mark)
    assert session.mark() == mark
    second = await session.generate(ids(*prompt(4, 6)), GREEDY, key(1, retry=1))
    assert rejected.prefilled_tokens == 10
    assert second.prefilled_tokens == 6  # the last token before the mark was computed for the rejected turn
    logits = full_logits(loaded[0], [*prompt(1, 15), *said(first), *prompt(4, 6), *said(second)])
    assert said(second) == logits[mark + 5 : -1].argmax(-1).tolist()
    with pytest.raises(ValueError):
        session.rewind(session.mark() + 1)


async def test_cancellation_leaves_the_session_as_it_was(loaded, policy):
    session, other = policy.open(key()), policy.open(key(attempt=1))
    first = await session.generate(ids(*prompt(1, 15)), GREEDY, key(0))
    mark = session.mark()
    long = Sampling(temperature=0.0, max_tokens=200)
    arrived = asyncio.Event()
    task = asyncio.create_task(session.generate(ids(*prompt(2, 9)), long, key(1), lambda text: arrived.set()))
    beside = asyncio.create_task(other.generate(ids(*prompt(5, 12)), GREEDY, key(attempt=1)))
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert session.mark() == mark
    completion = await beside
    logits = full_logits(loaded[0], [*prompt(5, 12), *said(completion)])
    assert said(completion) == logits[11:-1].argmax(-1).tolist()
    again = await session.generate(ids(*prompt(2, 9)), GREEDY, key(1))
    logits = full_logits(loaded[0], [*prompt(1, 15), *said(first), *prompt(2, 9), *said(again)])
    assert said(again) == logits[mark + 8 : -1].argmax(-1).tolist()


async def test_slots_left_by_others_are_moved_together(loaded, policy):
    """Sixteen sessions speak, then only the last three go on: their keys and values move, the others' stay right."""
    sessions = [policy.open(key(attempt=number)) for number in range(16)]
    firsts = await asyncio.gather(
        *(session.generate(ids(*prompt(n, 9 + n)), GREEDY, key(0, attempt=n)) for n, session in enumerate(sessions))
    )
    for chosen in ([13, 14, 15], [0, 1, 15], list(range(16))):
        for number in chosen:
            sessions[number].rewind(9 + number + len(said(firsts[number])))
        seconds = await asyncio.gather(*(sessions[n].generate(ids(5, 6), GREEDY, key(1, attempt=n)) for n in chosen))
        for number, second in zip(chosen, seconds, strict=True):
            branch = [*prompt(number, 9 + number), *said(firsts[number]), 5, 6]
            logits = full_logits(loaded[0], [*branch, *said(second)])
            assert said(second) == logits[len(branch) - 1 : -1].argmax(-1).tolist()


async def test_end_token_and_lengths(loaded):
    model, tokenizer = load()
    policy = TransformersPolicy(model, tokenizer, max_length=40)
    with torch.no_grad():  # an embedding that every state points at: the end token is always the likeliest
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
        model.model.norm.weight.zero_()
    end = tokenizer.token_id("<|im_end|>")
    model.lm_head.bias = torch.nn.Parameter(torch.zeros(model.config.vocab_size))
    with torch.no_grad():
        model.lm_head.bias[end] = 50.0
    done = await policy.open(key()).generate(ids(*prompt(1, 10)), Sampling(max_tokens=9), key())
    assert (done.token_ids, done.text, done.finish) == ((end,), "", Finish.END)
    with torch.no_grad():
        model.lm_head.bias[end] = -50.0
        model.lm_head.bias[0] = -50.0
    policy.bump_version()
    cut = await policy.open(key()).generate(ids(*prompt(1, 30)), Sampling(max_tokens=100), key())
    assert cut.finish is Finish.LENGTH and len(said(cut)) == 10
    full = await policy.open(key()).generate(ids(*prompt(1, 40)), Sampling(), key())
    assert (full.finish, full.token_ids, full.prefilled_tokens) == (Finish.LENGTH, (), 0)


async def test_stop_strings_cut_the_text_and_keep_the_ids(loaded, policy):
    tokenizer = loaded[1]
    free = await policy.open(key()).generate(ids(*prompt(2, 10)), Sampling(max_tokens=40), key())
    text = tokenizer.decode(said(free))
    stop = text[10:13]
    pieces: list[str] = []
    cut = await policy.open(key()).generate(
        ids(*prompt(2, 10)), Sampling(max_tokens=40, stop=("never seen", stop)), key(), pieces.append
    )
    assert cut.finish is Finish.STOP and cut.text == text[: text.index(stop)] == "".join(pieces)
    taken = len(said(cut))
    assert said(free)[:taken] == said(cut) and stop in tokenizer.decode(said(cut))
    assert stop not in tokenizer.decode(said(cut)[:-1]) and len(cut.logprobs) == taken


async def test_streamed_text_is_the_text(policy):
    for number in range(8):
        pieces: list[str] = []
        sampling = Sampling(max_tokens=60, stop=("</answer>", "ab"))
        done = await policy.open(key()).generate(ids(*prompt(9, 10)), sampling, key(number), pieces.append)
        assert "".join(pieces) == done.text


async def test_positions_that_a_model_stretches_are_its_own():
    model, tokenizer = load()
    yarn = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 512}
    config = Qwen3Config(**{**model.config.to_dict(), "rope_parameters": yarn})
    policy = TransformersPolicy(Qwen3ForCausalLM(config).eval(), tokenizer)
    assert policy.context_length == 2048
    done = await policy.open(key()).generate(ids(*prompt(1, 600)), GREEDY, key())
    assert said(done), "beyond the positions that it was trained on"
    told = {"max_position_embeddings": 131_072}
    llama3 = {"rope_type": "llama3", "factor": 32.0, "original_max_position_embeddings": 8192}
    assert positions_of({**told, "rope_parameters": llama3}) == 131_072, "its limit counts the stretch already"


def test_sliding_windows_are_refused(loaded):
    model, tokenizer = load()
    model.config.layer_types = ["full_attention", "sliding_attention"]
    with pytest.raises(UserError, match="sliding_attention"):
        TransformersPolicy(model, tokenizer)


async def test_weights_that_are_no_numbers_are_told_in_one_sentence():
    model, tokenizer = load()
    with torch.no_grad():
        model.model.norm.weight[0] = math.nan
    policy = TransformersPolicy(model, tokenizer)
    with pytest.raises(UserError, match=r"no numbers .* lower learning rate"):
        await policy.open(key()).generate(ids(5, 6, 7), GREEDY, key())


async def test_a_listener_that_raises_fails_its_own_session_only(policy):
    def shout(text: str) -> None:
        raise ZeroDivisionError

    session = policy.open(key())
    bad = session.generate(ids(*prompt(1, 10)), Sampling(max_tokens=30), key(), shout)
    good = policy.open(key(attempt=1)).generate(ids(*prompt(2, 10)), GREEDY, key(attempt=1))
    failed, done = await asyncio.gather(bad, good, return_exceptions=True)
    assert isinstance(failed, ZeroDivisionError) and len(said(done)) > 0 and session.mark() == 0


async def test_what_cannot_be_done_is_refused(policy, tmp_path):
    with pytest.raises(UserError, match="Unknown dtype 'int4'"):
        TransformersPolicy.load(tmp_path, dtype="int4")
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="No CUDA device"):
            TransformersPolicy.load(tmp_path, device="cuda")
    session = policy.open(key())
    with pytest.raises(ValueError, match="token ids"):
        await session.generate(Delta(messages=()), GREEDY, key())
    session.close()
    with pytest.raises(RuntimeError, match="closed"):
        await session.generate(ids(3, 4), GREEDY, key())


def test_prices_are_one_for_each_model_or_one_for_all():
    assert len(read_prices(["1,2"], 3)) == 3 and read_prices([], 2) == read_prices(["0,0"], 2)
    for texts, most, refusal in (([], 2.0, "A limit of money"), (["1,1", "1,1"], None, "2 prices were given for 3 models")):
        with pytest.raises(UserError, match=refusal):
            read_prices(texts, 3, most)


# -- The batched sampler against a row-by-row reference in numpy -----------------------------------------------------------

samplings = st.builds(
    Sampling, temperature=st.sampled_from([0.0, 0.7, 1.0, 1.3]), top_p=st.sampled_from([0.1, 0.5, 0.9, 0.99, 1.0]),
    top_k=st.sampled_from([0, 1, 5, 20, 500]), presence_penalty=st.sampled_from([0.0, 1.1]),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(samplings, min_size=1, max_size=6), st.integers(0, 2**32), st.sampled_from([0.3, 3.0]))
def test_draw_and_logprob_equal_the_reference(rows, seed, spread):
    random = np.random.default_rng(seed)
    logits = (random.standard_normal((len(rows), 150)) * spread).astype(np.float32)
    seen = [set(random.integers(0, 150, 20).tolist()) for _ in rows]
    mask = torch.zeros(logits.shape, dtype=torch.bool)
    for row, tokens in enumerate(seen):
        mask[row, list(tokens)] = True
    draws = random.random(len(rows))
    ids, logprobs = sample(torch.from_numpy(logits), rows, torch.from_numpy(draws), mask)
    for row, sampling in enumerate(rows):
        weights = reference(logits[row], sampling, seen[row])
        drawn = int(ids[row])
        below, above = weights[:drawn].sum(), weights[: drawn + 1].sum()
        if sampling.temperature == 0:
            assert weights[drawn] == weights.max()
        else:
            assert below - 1e-9 <= draws[row] <= above + 1e-9
        assert float(logprobs[row]) == pytest.approx(float(np.log(weights[drawn])), abs=1e-9)
