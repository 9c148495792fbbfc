"""Requests of one family in one line say what each says by itself, and cost what is distinct in them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_scorer import MODEL, MODELS, close, counted, naive
from tiny_qwen3 import VOCAB

from sanderling.train.config import TrainerConfig
from sanderling.train.contract import Row, ScoreRequest
from sanderling.train.packed import logprobs
from sanderling.train.packed.logprobs import TokenLogprobs
from sanderling.train.packed.scorer import ModelScorer
from sanderling.train.packed.scorer_layout import asked, lay_out_requests, lines_of
from sanderling.train.trainer import row_logprobs

tokens = st.integers(0, VOCAB - 1)
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
