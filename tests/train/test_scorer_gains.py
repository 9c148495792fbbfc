"""From trajectories to gains over a real model: one pass says what a forward for each boundary and answer says."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_qwen3 import VOCAB, tiny_model
from train_records import PROFILE, WordTokenizer, record

from sanderling.core.record import Node, NodeKind, ToolEvent, Trajectory, turn_indices
from sanderling.core.types import Role, ToolCall, ToolStatus
from sanderling.rl.credit.table import TurnTool, turn_tools
from sanderling.rl.gain import GainAnswers, GainBaseline, GainConfig, GainForm, Probe, gains_and_logprobs, information_gains
from sanderling.rl.step import rl_rows
from sanderling.train.config import TrainerConfig
from sanderling.train.encoding import Encoding
from sanderling.train.packed.logprobs import TokenLogprobs
from sanderling.train.packed.scorer import ModelScorer
from sanderling.train.trainer import row_logprobs

MODEL = tiny_model(seed=5).eval()
TOKENS = WordTokenizer()
PROBE = Probe(prefix="enough </think> <answer>", suffix="</answer>")
ANSWERS = ("Oslo", "New York", "12 May 1923")


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    """Searches, visits, malformed turns, rejected attempts, and history resets to any earlier message."""
    words = st.lists(st.integers(3, VOCAB - 1), min_size=1, max_size=6)

    def node(parent: int | None, kind: NodeKind, **more) -> int:
        role = Role.ASSISTANT if kind is NodeKind.TURN else Role.USER
        ids = tuple(draw(words))
        if kind is NodeKind.TURN:
            more |= {"logprobs": (-1.0,) * len(ids), "versions": (0,) * len(ids)}
        nodes.append(Node(parent=parent, role=role, kind=kind, text="", token_ids=ids, **more))
        return len(nodes) - 1

    nodes: list[Node] = []
    last = node(None, NodeKind.QUESTION)
    said = False
    for letter in draw(st.text("svmrf", min_size=1, max_size=9)):
        if letter == "f" and said:
            # The history up to an earlier message, and a summary: another branch.
            last = node(
                draw(st.sampled_from([i for i, one in enumerate(nodes) if one.kind is not NodeKind.TURN])), NodeKind.HINT
            )
            continue
        calls = () if letter in "mf" else (ToolCall(name="tool", arguments={}),)
        turn = node(last, NodeKind.TURN, calls=calls, rejected=letter == "r")
        if letter == "r":
            continue
        said = True
        kind = NodeKind.OBSERVATION if letter in "sv" else NodeKind.HINT
        role = {"s": "search", "v": "visit"}.get(letter, "")
        last = node(turn, kind, events=(ToolEvent(name="tool", role=role, status=ToolStatus.OK),) if letter in "sv" else ())
    if draw(st.booleans()):
        last = node(last, NodeKind.TURN, answer="Oslo")
    answers = tuple(draw(st.permutations(ANSWERS))[: draw(st.integers(1, 3))])
    base = record("a", answers=answers)
    return base.model_copy(update={"nodes": tuple(nodes), "leaf": last})


def value(ids: list[int], answer: str, temperature: float) -> float:
    """V at a context, by one forward."""
    prefix, own = TOKENS.encode(PROBE.prefix), TOKENS.encode(answer)
    line = [*ids, *prefix, *own]
    with torch.inference_mode():
        scores = (MODEL(input_ids=torch.tensor(line)[None]).logits[0] / temperature).log_softmax(-1)
    start = len(ids) + len(prefix)
    return float(np.mean([scores[start + n - 1, token].item() for n, token in enumerate(own)]))


def after(one: Trajectory, turn: int) -> int | None:
    """The node that the context after a turn ends with, the slow way."""
    for later in turn_indices(one):
        if (
            later > turn
            and turn in one.path(later)
            and any(one.nodes[i].kind is NodeKind.OBSERVATION for i in one.path(later) if one.nodes[i].parent == turn)
        ):
            return one.nodes[later].parent
    ends = [
        i
        for i in range(len(one.nodes))
        if turn in one.path(i)[:-1] and NodeKind.TURN not in {one.nodes[j].kind for j in one.path(i) if j > turn}
    ]
    observed = [i for i in ends if one.nodes[i].parent == turn]
    at = observed[-1] if observed else None
    while at is not None and (more := [i for i in ends if one.nodes[i].parent == at]):
        at = more[0]
    return at


def slow_gains(one: Trajectory, config: GainConfig, temperature: float) -> list[float | None]:
    """From the definition, a forward for each boundary and answer."""
    answers = one.question.answers
    turns, tools = turn_indices(one), turn_tools(one)
    first = one.nodes[turns[0]].parent if turns else None

    def at(node: int | None) -> float:
        values = [value(one.token_ids(node), answer, temperature) for answer in answers]
        start = [value(one.token_ids(first), answer, temperature) for answer in answers]
        chosen = {
            GainAnswers.BEST: max(values),
            GainAnswers.FIRST: values[0],
            GainAnswers.FIXED: values[start.index(max(start))],
        }[config.answers]
        return float(np.exp(chosen)) if config.form is GainForm.PROB else chosen

    found: list[float | None] = []
    last = first
    for turn, tool in zip(turns, tools, strict=True):
        end = after(one, turn) if tool in config.tools else None
        if end is None:
            found.append(None)
            continue
        found.append(at(end) - at(last if config.baseline is GainBaseline.LAST_SCORED else one.nodes[turn].parent))
        last = end
    return found


configs = st.builds(
    GainConfig,
    form=st.sampled_from(GainForm),
    baseline=st.sampled_from(GainBaseline),
    answers=st.sampled_from(GainAnswers),
    tools=st.sampled_from([frozenset({TurnTool.VISIT}), frozenset({TurnTool.VISIT, TurnTool.SEARCH})]),
    probe=st.just(PROBE),
)


@settings(max_examples=40)
@given(st.lists(trajectories(), min_size=1, max_size=3), configs)
def test_gains_are_those_of_the_definition(some: list[Trajectory], config: GainConfig):
    scorer = ModelScorer(MODEL, temperature=0.7, micro_batch_tokens=100)
    found = information_gains(some, TOKENS, scorer, config)
    for ours, one in zip(found, some, strict=True):
        expected = slow_gains(one, config, 0.7)
        assert [gain is None for gain in ours] == [gain is None for gain in expected]
        np.testing.assert_allclose([g for g in ours if g is not None], [g for g in expected if g is not None], atol=1e-4)


@settings(max_examples=15)
@given(st.lists(trajectories(), min_size=1, max_size=3))
def test_gains_and_log_probabilities_of_one_pass_are_those_of_two(some: list[Trajectory]):
    some = [one.model_copy(update={"id": f"t{n}"}) for n, one in enumerate(some)]
    config, trainer = GainConfig(probe=PROBE), TrainerConfig(temperature=0.7, micro_batch_tokens=100)
    encoding = Encoding(TOKENS, PROFILE)
    rows = [rl_rows(one, [0.0] * len(turn_indices(one)), encoding) for one in some]
    scorer = ModelScorer.of(MODEL, trainer)
    gains, logprobs = gains_and_logprobs(some, rows, TOKENS, scorer, config)
    for ours, theirs in zip(gains, information_gains(some, TOKENS, scorer, config), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)
    flat = [row for own in rows for row in own]
    expected = row_logprobs(TokenLogprobs(MODEL), flat, trainer) if flat else []
    for ours, theirs in zip([one for own in logprobs for one in own], expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
