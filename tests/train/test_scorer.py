"""The scorer: one pass says what one forward for each boundary says, of one trajectory and of families."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_qwen3 import VOCAB, tiny_model
from transformers import MistralConfig, MistralForCausalLM, Qwen3Config, Qwen3ForCausalLM

from sanderling.core.errors import UserError
from sanderling.train.config import Packing, Precision, TrainerConfig
from sanderling.train.contract import Row, ScoreRequest
from sanderling.train.packed import logprobs
from sanderling.train.packed.attention import packed_attention
from sanderling.train.packed.logprobs import TokenLogprobs, token_logprobs
from sanderling.train.packed.packing import collate
from sanderling.train.packed.scorer import ModelScorer
from sanderling.train.packed.scorer_layout import asked, lay_out_requests, lines_of
from sanderling.train.trainer import row_logprobs


def shaped(heads: int, kv_heads: int, head_dim: int, layers: int) -> Qwen3ForCausalLM:
    torch.manual_seed(heads + layers)
    config = Qwen3Config(
        vocab_size=VOCAB, hidden_size=24, intermediate_size=40, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=head_dim, max_position_embeddings=512, initializer_range=0.3,
        tie_word_embeddings=heads % 2 == 0,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


MODEL = tiny_model(seed=3).eval()
MODELS = [MODEL, shaped(1, 1, 16, 1), shaped(4, 4, 8, 2), shaped(6, 2, 8, 3), shaped(8, 1, 4, 1)]
tokens = st.integers(0, VOCAB - 1)


@st.composite
def requests(draw) -> ScoreRequest:
    """Several branches that share a beginning, boundaries in any order, several answers at one of them."""
    branches = [draw(st.lists(tokens, min_size=1, max_size=30))]
    for _ in range(draw(st.integers(0, 2))):
        trunk = draw(st.sampled_from(branches))
        branches.append(trunk[: draw(st.integers(0, len(trunk)))] + draw(st.lists(tokens, min_size=1, max_size=12)))
    on, cuts = [], []
    for _ in range(draw(st.integers(0, 6))):
        branch = draw(st.integers(0, len(branches) - 1))
        answers = draw(st.integers(1, 3))
        on += [branch] * answers
        cuts += [draw(st.integers(1, len(branches[branch])))] * answers
    probe = draw(st.lists(tokens, max_size=4))
    continuations = [probe[: draw(st.integers(0, 4))] + draw(st.lists(tokens, min_size=1, max_size=6)) for _ in cuts]
    spans = []
    for continuation in continuations:
        first = draw(st.integers(0, len(continuation) - 1))
        spans.append((first, draw(st.integers(first + 1, len(continuation)))))
    temperature = draw(st.sampled_from([None, 1.0, 0.7]))
    return ScoreRequest(branches[0], cuts, continuations, spans, tuple(branches[1:]), on, temperature)


def forward(model, ids: list[int], temperature: float) -> torch.Tensor:
    """Log-probabilities of every next token."""
    with torch.inference_mode():
        return (model(input_ids=torch.tensor(ids)[None]).logits[0] / temperature).log_softmax(-1)


def naive(request: ScoreRequest, model=MODEL, temperature: float = 1.0) -> list[np.ndarray]:
    """One ordinary forward for each boundary."""
    found = []
    branches = [request.ids, *request.others]
    on = request.on or [0] * len(request.cuts)
    parts = zip(request.cuts, on, request.continuations, request.answer_spans, strict=True)
    for cut, branch, continuation, (first, end) in parts:
        scores = forward(model, [*branches[branch][:cut], *continuation], request.temperature or temperature)
        found.append(np.array([scores[cut + at - 1, continuation[at]].item() for at in range(first, end)]))
    return found


def close(got, expected) -> None:
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


@settings(max_examples=120)
@given(st.lists(requests(), max_size=4), st.sampled_from([1, 40, 4096]), st.sampled_from(MODELS), st.sampled_from([1.0, 0.8]))
def test_one_pass_agrees_with_one_forward_for_each_boundary(batch, budget, model, temperature):
    scorer = ModelScorer(model, micro_batch_tokens=budget, temperature=temperature, mlp_tile=7, logit_chunk=5 * VOCAB)
    got = scorer.score_many(batch)
    assert len(got) == len(batch)
    for found, request in zip(got, batch, strict=True):
        close(found, naive(request, model, temperature))


@st.composite
def requests_and_rows(draw) -> tuple[ScoreRequest, list[Row]]:
    """Rows of a request's branches, and one of a branch that no boundary is on."""
    request = draw(requests())
    branches = [list(request.ids), *map(list, request.others), [*request.ids[:3], 5, 6]]
    rows = []
    for ids in draw(st.lists(st.sampled_from(branches), max_size=3)):
        mask = np.array([False, *draw(st.lists(st.booleans(), min_size=len(ids) - 1, max_size=len(ids) - 1))])
        rows.append(Row(np.array(ids), mask, trajectory="t"))
    return request, rows


@settings(max_examples=60)
@given(st.lists(requests_and_rows(), max_size=3), st.sampled_from([1, 60, 4096]), st.sampled_from(MODELS))
def test_the_same_passes_say_what_row_logprobs_says(batch, budget, model):
    config = TrainerConfig(micro_batch_tokens=budget, temperature=0.8)
    scorer = ModelScorer.of(model, config)
    got = scorer.score_with_rows([request for request, _ in batch], [rows for _, rows in batch])
    flat = [row for _, rows in batch for row in rows]
    expected = row_logprobs(TokenLogprobs(model), flat, config) if flat else []
    found = [values for one in got for values in one.rows]
    assert [values.shape for values in found] == [row.ids.shape for row in flat]
    close(found, expected)
    for one, (request, _) in zip(got, batch, strict=True):
        close(one.boundaries, naive(request, model, 0.8))


def counted(model, work) -> list[int]:
    """Tokens of each forward that some work makes."""
    calls: list[int] = []
    handle = model.model.embed_tokens.register_forward_hook(lambda module, args, out: calls.append(args[0].numel()))
    try:
        work()
    finally:
        handle.remove()
    return calls


def test_a_trajectory_takes_one_forward_whatever_its_boundaries():
    ids = list(range(20))
    request = ScoreRequest(ids, [5, 10, 20], [[1, 2, 3, 4]] * 3, [(1, 3)] * 3)
    calls = counted(MODEL, lambda: ModelScorer(MODEL).score_many([request]))
    assert calls == [20 + 3 * 2], "shared ids once, and each continuation up to its last answer token but one"


def test_branches_share_what_they_begin_with_and_rows_add_what_no_boundary_looks_at():
    ids, other = list(range(20)), [*range(12), 30, 31, 32]
    request = ScoreRequest(ids, [10, 14, 15], [[1, 2, 3]] * 3, [(1, 3)] * 3, (other,), [0, 0, 1])
    assert counted(MODEL, lambda: ModelScorer(MODEL).score_many([request])) == [14 + 3 + 3 * 2]
    rows = [Row(np.array(one), np.arange(len(one)) > 3, trajectory="t") for one in (ids, other)]
    assert counted(MODEL, lambda: ModelScorer(MODEL).score_with_rows([request], [rows])) == [20 + 3 + 3 * 2]


def test_answers_at_a_boundary_share_their_probe():
    probe = [7, 8, 9, 10]
    answers = [[*probe, 1, 2], [*probe, 1, 3, 4], [*probe, 5]]
    request = ScoreRequest(list(range(20)), [10] * 3 + [20] * 3, answers * 2, [(4, 6), (4, 7), (4, 5)] * 2)
    calls = counted(MODEL, lambda: ModelScorer(MODEL).score_many([request]))
    assert calls == [20 + 2 * (4 + 1 + 2 + 0)]
    close(ModelScorer(MODEL).score_many([request])[0], naive(request))


def test_keys_and_values_are_not_copied_for_a_boundary(monkeypatch: pytest.MonkeyPatch):
    from sanderling.train.packed import attention

    seen, real = [], attention.partial_attention

    def see(query, key, value, *, causal, scale):
        seen.append((key.untyped_storage().data_ptr(), key.untyped_storage().nbytes(), causal))
        return real(query, key, value, causal=causal, scale=scale)

    monkeypatch.setattr(attention, "partial_attention", see)
    model = shaped(2, 2, 16, 1)
    cuts = list(range(10, 210, 10))
    ModelScorer(model).score_many([ScoreRequest(list(range(60)) * 4, cuts, [[1, 2, 3]] * 20, [(1, 3)] * 20)])
    shared = {pointer for pointer, _, causal in seen if not causal}
    assert len(shared) == 1, "all rectangles look at the line's own keys"
    assert sum(not causal for *_, causal in seen) == 20 and sum(causal for *_, causal in seen) == 1


def test_cuts_spans_branches_and_rows_out_of_range_are_refused():
    good = ScoreRequest([1, 2], [1], [[1]], [(0, 1)])
    for request in (
        ScoreRequest([1, 2], [3], [[1]], [(0, 1)]),
        ScoreRequest([1, 2], [0], [[1]], [(0, 1)]),
        ScoreRequest([1, 2], [1], [[1]], [(0, 2)]),
        ScoreRequest([1, 2], [1], [[1]], [(1, 1)]),
        replace(good, on=[1]),
        replace(good, others=([1, 2, 3],), on=[1], cuts=[4]),
        replace(good, on=[0, 0]),
    ):
        with pytest.raises(ValueError):
            ModelScorer(MODEL).score_many([request])
    with pytest.raises(ValueError, match="nothing precedes it"):
        ModelScorer(MODEL).score_with_rows([good], [[Row(np.array([1, 2]), np.array([True, True]))]])


def test_an_mlp_never_sees_more_tokens_than_a_tile():
    model, widths = tiny_model(), []
    for layer in model.model.layers:
        layer.mlp.gate_proj.register_forward_pre_hook(lambda _, given: widths.append(given[0].shape[-2]))
    ids = list(range(50))
    ModelScorer(model, mlp_tile=8).score_many([ScoreRequest(ids, [20, 50], [[1, 2]] * 2, [(1, 2)] * 2)])
    assert max(widths) == 8 and sum(widths) == 2 * 52


def test_where_only_keys_of_the_first_layer_are_trained_forks_have_their_gradient():
    """Nothing else there asks for one: attention without gradients would lose it without a sign."""
    model = tiny_model(seed=2)
    for parameter in model.parameters():
        parameter.requires_grad = False
    weight = model.model.layers[0].self_attn.k_proj.weight.requires_grad_()
    trunk = list(range(12))
    mask = np.arange(16) > 11
    rows = [Row(np.array([*trunk, *more]), mask, trajectory="t") for more in ([1, 2, 3, 4], [5, 6, 7, 8])]
    found = []
    with packed_attention(model):
        for batches in ([rows], [rows[:1], rows[1:]]):
            model.zero_grad()
            sum(token_logprobs(model, collate(batch, Packing.VARLEN)).logprobs.sum() for batch in batches).backward()
            found.append(weight.grad.clone())
    torch.testing.assert_close(*found, atol=1e-4, rtol=1e-4)
    assert found[0].abs().max() > 1e-3


def test_in_mixed_precision_it_is_row_logprobs_too():
    config = TrainerConfig(precision=Precision.BFLOAT16, temperature=0.8)
    ids = list(range(40))
    rows = [Row(np.array(ids), np.arange(40) > 3, trajectory="t")]
    request = ScoreRequest(ids, [5, 20, 40], [[1, 2, 3]] * 3, [(1, 3)] * 3)
    (found,) = ModelScorer.of(MODEL, config).score_with_rows([request], [rows])
    exact = naive(request, MODEL, 0.8)
    assert max(float(np.abs(a - b).max()) for a, b in zip(found.boundaries, exact, strict=True)) < 0.1
    np.testing.assert_allclose(found.rows[0], row_logprobs(TokenLogprobs(MODEL), rows, config)[0], atol=0.02)


def test_a_model_with_a_sliding_window_is_refused_with_what_to_do():
    sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = MistralForCausalLM(MistralConfig(**sizes, num_key_value_heads=2, sliding_window=8))
    with pytest.raises(UserError, match="use an estimator without it"):
        ModelScorer(model)
    ModelScorer(MistralForCausalLM(MistralConfig(**sizes, num_key_value_heads=2, sliding_window=None)))


Group = list[tuple[ScoreRequest, list[Row]]]


@st.composite
def groups(draw: st.DrawFn) -> Group:
    """Rollouts of one or two questions: beginnings of each other and copies among them, forks, answers that come again."""
    found: Group = []
    for family in draw(st.lists(st.sampled_from(["", "p", "q"]), min_size=1, max_size=2, unique=True)):
        begun: list[list[int]] = []
        probe = draw(st.lists(tokens, max_size=3))
        answers = [
            [*probe, *answer] for answer in draw(st.lists(st.lists(tokens, min_size=1, max_size=4), min_size=1, max_size=3))
        ]
        temperatures = draw(st.sampled_from([[None], [0.7], [None, 1.0]]))
        for _ in range(draw(st.integers(1, 4))):
            branches = []
            for _ in range(draw(st.integers(1, 2))):
                trunk = draw(st.sampled_from(begun)) if begun else []
                kept = trunk[: draw(st.just(len(trunk)) | st.integers(0, len(trunk)))]
                branches.append(kept + draw(st.lists(tokens, min_size=0 if kept else 1, max_size=12)))
                begun.append(branches[-1])
            places = draw(st.lists(places_on(branches), max_size=4))
            asks = [(branch, cut, answer) for branch, cut in places for answer in answers]
            spans = [draw(st.sampled_from([(len(probe), len(ids)), (len(ids) - 1, len(ids))])) for *_, ids in asks]
            request = ScoreRequest(
                branches[0], [cut for _, cut, _ in asks], [ids for *_, ids in asks], spans, tuple(branches[1:]),
                [branch for branch, *_ in asks], draw(st.sampled_from(temperatures)), family,
            )  # fmt: skip
            rows = []
            for ids in draw(st.lists(st.sampled_from(branches), max_size=2)):
                mask = [False, *draw(st.lists(st.booleans(), min_size=len(ids) - 1, max_size=len(ids) - 1))]
                rows.append(Row(np.array(ids), np.array(mask), trajectory=f"t{len(found)}", group=family))
            found.append((request, rows))
    return draw(st.permutations(found))


def places_on(branches: Sequence[Sequence[int]]) -> st.SearchStrategy[tuple[int, int]]:
    """Branch and cut."""
    return st.one_of(*(st.tuples(st.just(number), st.integers(1, len(ids))) for number, ids in enumerate(branches)))


def distinct_tokens(group: Group) -> int:
    """Of all contexts and rows as a tree, and of what is read behind each context."""
    begun: set[tuple[int, ...]] = set()
    reads: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for request, rows in group:
        branches = [request.ids, *request.others]
        lines = [tuple(row.ids.tolist()) for row in rows]
        parts = zip(request.on or (), request.cuts, request.continuations, request.answer_spans, strict=True)
        for branch, cut, ids, (_, end) in parts:
            lines.append(tuple(branches[branch][:cut]))
            reads.setdefault(lines[-1], set()).add(tuple(ids[: end - 1]))
        begun |= {line[: size + 1] for line in lines for size in range(len(line))}
    read = 0
    for unlike in reads.values():
        shared = len(list(takewhile(lambda column: len(set(column)) == 1, zip(*unlike, strict=False))))
        read += sum(len(ids) for ids in unlike) - shared * (len(unlike) - 1)
    return len(begun) + read


@settings(max_examples=120, deadline=None)
@given(groups(), st.sampled_from([1, 25, 60, 4096]), st.sampled_from(MODELS))
def test_a_family_says_what_each_request_and_row_says_alone(group: Group, budget: int, model):
    config = TrainerConfig(micro_batch_tokens=budget, temperature=0.8, logit_chunk=7 * VOCAB)
    got = ModelScorer.of(model, config).score_with_rows([request for request, _ in group], [rows for _, rows in group])
    for one, (request, _) in zip(got, group, strict=True):
        close(one.boundaries, naive(request, model, 0.8))
    flat = [replace(row, group="", trajectory="") for _, rows in group for row in rows]
    expected = row_logprobs(TokenLogprobs(model), flat, config) if flat else []
    close([values for one in got for values in one.rows], expected)


@given(groups(), st.integers(1, 80))
def test_lines_keep_to_the_budget_and_to_families_and_temperatures(group: Group, budget: int):
    several = [asked(request, rows) for request, rows in group]
    lines = lines_of(several, budget)
    held = sorted(index for members, _ in lines for index in members)
    assert held == [
        index for index, (request, rows) in enumerate(group) if request.cuts or any(row.loss_mask.any() for row in rows)
    ]
    for members, line in lines:
        requests = [several[index].request for index in members]
        assert len({(request.family, request.temperature) for request in requests}) == 1
        assert len(members) == 1 or requests[0].family
        assert len(line.ids) <= budget or len(line.ids) == len(lay_out_requests([several[members[0]]]).ids)
        assert len(line.ids) == distinct_tokens([group[index] for index in members])


def rollouts(ends: Sequence[Sequence[int]]) -> list[ScoreRequest]:
    """Of one question, with a boundary after the first 10 tokens and one at the end; two answers."""
    trunk, answers = list(range(20)), [[7, 8, 1, 2], [7, 8, 3]]
    lines = [[*trunk, *end] for end in ends]
    return [ScoreRequest(ids, [10, 10, len(ids), len(ids)], answers * 2, [(2, 4), (2, 3)] * 2, family="q") for ids in lines]


def test_a_family_costs_what_is_distinct_and_asks_the_same_once(monkeypatch: pytest.MonkeyPatch):
    requests, heads, real = rollouts([[30, 31], [30, 31], [40], [], [30, 31]]), [], logprobs._scores

    def scores(hidden, *others):
        heads.append(len(hidden))
        return real(hidden, *others)

    monkeypatch.setattr(logprobs, "_scores", scores)
    probe = 2 + 1  # the probe, and the first answer's first token
    boundaries = 4  # after 10 tokens, and after each of three ends
    calls = counted(MODEL, lambda: ModelScorer(MODEL).score_many(requests))
    assert calls == [20 + 2 + 1 + boundaries * probe]
    assert heads == [boundaries * 3], "each answer token once"
    apart = [replace(request, family="") for request in requests]
    assert counted(MODEL, lambda: ModelScorer(MODEL).score_many(apart)) == [sum(len(r.ids) for r in requests) + 10 * probe]
