import numpy as np
import pytest
from train_records import PROFILE, WordTokenizer, record

from sanderling.core.errors import UserError
from sanderling.core.types import Ending
from sanderling.rl.credit.table import TurnTool
from sanderling.rl.denoise import turn_penalties
from sanderling.rl.gain import GainAnswers, GainBaseline, GainConfig, GainForm, Probe, information_gains
from sanderling.train.contract import ScoreRequest

ALL_TOOLS = frozenset({TurnTool.SEARCH, TurnTool.VISIT, TurnTool.BOTH, TurnTool.OTHER})
PROBE = Probe(prefix="enough </think> <answer>", suffix="</answer>")


class LengthScorer:
    """Says that the answer's log-probability grows with the square root of the context, so every gain is told apart."""

    def __init__(self) -> None:
        self.seen: list[ScoreRequest] = []

    def score_many(self, requests):
        self.seen = list(requests)
        return [
            [np.full(end - first, value(cut)) for cut, (first, end) in zip(r.cuts, r.answer_spans, strict=True)]
            for r in requests
        ]


def value(cut: int) -> float:
    return float(np.sqrt(cut)) - 20.0


def gains(script: str, scorer=None, **settings):
    trajectory = record(script)
    found = information_gains([trajectory], WordTokenizer(), scorer or LengthScorer(), GainConfig(probe=PROBE, **settings))
    return boundaries(trajectory), found[0]


def boundaries(trajectory) -> list[int]:
    """Lengths of the prompts of the turns, and of everything."""
    found, size = [], 0
    for node in trajectory.branch():
        if node.kind == "turn":
            found.append(size)
        size += len(node.token_ids)
    return [*found, size]


def test_boundaries_are_the_prompts_of_the_turns():
    scorer = LengthScorer()
    trajectory = record("sva")
    sizes = [len(node.token_ids) for node in trajectory.branch()]
    gains("sva", scorer, tools=ALL_TOOLS)
    assert list(scorer.seen[0].cuts) == [sum(sizes[:2]), sum(sizes[:4]), sum(sizes[:6])]


def test_the_last_observation_is_a_boundary_where_no_turn_follows():
    cut_short = record("sv", ending=Ending.TURN_LIMIT, answer=None)
    (found,) = information_gains([cut_short], WordTokenizer(), LengthScorer(), GainConfig(probe=PROBE))
    cuts = boundaries(cut_short)
    assert found == [None, pytest.approx(value(len(cut_short.token_ids())) - value(cuts[0]))]


def test_a_visits_gain_is_measured_from_the_last_scored_boundary():
    cuts, found = gains("ssvsva")
    assert found == [
        None,
        None,
        pytest.approx(value(cuts[3]) - value(cuts[0])),
        None,
        pytest.approx(value(cuts[5]) - value(cuts[3])),
        None,
    ]


def test_the_answers_tokens_are_located_exactly_on_every_boundary():
    scorer, tokenizer = LengthScorer(), WordTokenizer()
    trajectory = record("va", answers=("New York", "NYC"))
    information_gains([trajectory], tokenizer, scorer, GainConfig(probe=PROBE))
    (request,) = scorer.seen
    assert list(request.ids) == trajectory.token_ids()
    assert list(request.cuts) == [boundaries(trajectory)[0]] * 2 + [boundaries(trajectory)[1]] * 2
    for continuation, (first, end), answer in zip(
        request.continuations, request.answer_spans, ("New York", "NYC") * 2, strict=True
    ):
        assert continuation[first:end] == tokenizer.encode(answer)
        assert continuation[:first] == tokenizer.encode(PROBE.prefix)
        assert continuation[end:] == tokenizer.encode(PROBE.suffix)


def test_the_best_accepted_answer_counts_at_each_boundary():
    class Table:
        def score_many(self, requests):
            return [[np.array([x]) for x in (-5.0, -1.0, -0.5, -3.0)]]

    trajectory = record("va", answers=("Oslo", "Kristiania"))
    found = information_gains([trajectory], WordTokenizer(), Table(), GainConfig(probe=PROBE))
    assert found == [[pytest.approx(-0.5 - -1.0), None]]


class ByAnswer:
    """A value for each boundary and answer, told apart by the answer's length."""

    def __init__(self, table: list[list[float]]) -> None:
        self.table = table

    def score_many(self, requests):
        (request,) = requests
        assert len(request.cuts) == sum(map(len, self.table))
        values = [x for row in self.table for x in row]
        return [[np.full(end - first, x) for (first, end), x in zip(request.answer_spans, values, strict=True)]]


@pytest.mark.parametrize(
    ("answers", "table", "expected"),
    [
        (GainAnswers.BEST, [[-5.0, -4.0], [-1.0, -3.0], [-2.0, -0.5]], [3.0, 0.5]),
        (GainAnswers.FIRST, [[-5.0], [-1.0], [-2.0]], [4.0, -1.0]),
        # The second is the likelier one before anything was said, whatever becomes of the first.
        (GainAnswers.FIXED, [[-5.0, -4.0], [-1.0, -3.0], [-2.0, -0.5]], [1.0, 2.5]),
    ],
)
def test_which_of_two_accepted_answers_counts(answers: GainAnswers, table, expected):
    trajectory = record("vva", answers=("Oslo", "Kristiania city"))
    config = GainConfig(probe=PROBE, answers=answers)
    (found,) = information_gains([trajectory], WordTokenizer(), ByAnswer(table), config)
    assert found == [*expected, None]


def test_a_fixed_answer_is_chosen_before_the_policy_spoke_also_where_that_boundary_is_not_compared():
    trajectory = record("sva", answers=("Oslo", "Kristiania city"))
    config = GainConfig(probe=PROBE, answers=GainAnswers.FIXED, baseline=GainBaseline.TURN_START)
    table = ByAnswer([[-5.0, -4.0], [-1.0, -3.0], [-0.5, -2.0]])
    assert information_gains([trajectory], WordTokenizer(), table, config) == [[None, 1.0, None]]


def test_without_scored_turns_nothing_is_asked():
    scorer = LengthScorer()
    assert gains("sa", scorer)[1] == [None, None]
    assert scorer.seen[0].cuts == []


def test_what_cannot_be_measured_says_so():
    tokenizer = WordTokenizer()
    with pytest.raises(UserError, match="text only"):
        information_gains([record("va", ids=False)], tokenizer, LengthScorer(), GainConfig(probe=PROBE))
    with pytest.raises(UserError, match="no accepted answer"):
        information_gains([record("va", answers=())], tokenizer, LengthScorer(), GainConfig(probe=PROBE))
    with pytest.raises(UserError, match="empty one"):
        information_gains([record("va", answers=("Oslo", ""))], tokenizer, LengthScorer(), GainConfig(probe=PROBE))
    with pytest.raises(UserError, match="no probe"):
        information_gains([record("va").model_copy(update={"profile": "?"})], tokenizer, LengthScorer(), GainConfig())


@pytest.mark.parametrize("broken", [np.nan, -np.inf, np.inf])
@pytest.mark.parametrize("form", GainForm)
def test_what_is_not_finite_is_an_error_and_never_a_gain_of_zero(broken: float, form: GainForm):
    class Broken:
        def score_many(self, requests):
            return [[np.array([-1.0, broken if n == 0 else -1.0]) for n, _ in enumerate(r.cuts)] for r in requests]

    with pytest.raises(ValueError, match="finite"):
        gains("va", Broken(), form=form)


def with_texts(texts: list[str], ending: Ending, ids: bool):
    trajectory = record("s" * (len(texts) - 1) + "a", ending=ending, ids=ids)
    said = iter(texts)
    nodes = [n.model_copy(update={"text": next(said)}) if n.kind == "turn" else n for n in trajectory.nodes]
    return trajectory.model_copy(update={"nodes": tuple(nodes)})


CALL = 'look</think><tool_call>{"name": "search", "arguments": {}}</tool_call>'
ANSWER = "sure</think><answer>Oslo</answer>"


def test_each_turn_is_penalised_for_itself():
    texts = [CALL, "look <tool_call>", ANSWER]
    assert turn_penalties(with_texts(texts, Ending.ANSWERED, ids=True), PROFILE, scale=0.5) == [0.0, -0.5, 0.0]
    written = [f"<think>{text}" for text in texts]
    assert turn_penalties(with_texts(written, Ending.ANSWERED, ids=False), PROFILE) == [0.0, -1.0, 0.0]


def test_a_servers_turn_may_go_on_where_its_prompt_opened_the_reasoning():
    texts = [CALL, "look <tool_call>", f"</think>{CALL}", f"<think>{ANSWER}", "Oslo", ANSWER]
    penalties = turn_penalties(with_texts(texts, Ending.ANSWERED, ids=False), PROFILE)
    assert penalties == [0.0, -1.0, -1.0, 0.0, -1.0, 0.0]


def test_a_forced_turn_has_to_be_an_answer():
    assert turn_penalties(with_texts([CALL, CALL], Ending.NO_ANSWER, ids=True), PROFILE) == [0.0, -1.0]
    assert turn_penalties(with_texts([CALL, CALL], Ending.REPETITION, ids=True), PROFILE) == [0.0, 0.0]
    assert turn_penalties(with_texts([CALL, ANSWER], Ending.ANSWERED_AT_BUDGET, ids=True), PROFILE) == [0.0, 0.0]
