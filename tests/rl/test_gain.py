import numpy as np
import pytest
from train_records import PROFILE, WordTokenizer, record

from sanderling.core.errors import UserError
from sanderling.core.types import Ending
from sanderling.rl.gain import GainConfig, GainForm, Probe, information_gains
from sanderling.rl.rollouts import broken_turns
from sanderling.train.rows import ScoreRequest

PROBE = Probe(prefix="enough </think> <answer>", suffix="</answer>")


class Asked:
    """Remembers what it was asked."""

    def score_many(self, requests):
        self.seen: list[ScoreRequest] = list(requests)
        return [[np.full(end - first, -1.0) for first, end in request.answer_spans] for request in requests]


def test_the_answers_tokens_are_located_exactly_on_every_boundary():
    scorer, tokenizer = Asked(), WordTokenizer()
    trajectory = record("va", answers=("New York", "NYC"))
    information_gains([trajectory], tokenizer, scorer, GainConfig(probe=PROBE))
    (request,) = scorer.seen
    assert list(request.ids) == trajectory.token_ids()
    sizes = [len(node.token_ids) for node in trajectory.branch()]
    assert list(request.cuts) == [sum(sizes[:2])] * 2 + [sum(sizes[:4])] * 2, "the prompts of both turns, for both answers"
    for continuation, (first, end), answer in zip(
        request.continuations, request.answer_spans, ("New York", "NYC") * 2, strict=True
    ):
        assert continuation[first:end] == tokenizer.encode(answer)
        assert continuation[:first] == tokenizer.encode(PROBE.prefix)
        assert continuation[end:] == tokenizer.encode(PROBE.suffix)


def test_what_cannot_be_measured_says_so():
    tokenizer = WordTokenizer()
    with pytest.raises(UserError, match="text only"):
        information_gains([record("va", ids=False)], tokenizer, Asked(), GainConfig(probe=PROBE))
    with pytest.raises(UserError, match="no probe"):
        information_gains([record("va").model_copy(update={"profile": "?"})], tokenizer, Asked(), GainConfig())


@pytest.mark.parametrize("broken", [np.nan, -np.inf, np.inf])
@pytest.mark.parametrize("form", GainForm)
def test_what_is_not_finite_is_an_error_and_never_a_gain_of_zero(broken: float, form: GainForm):
    class Broken:
        def score_many(self, requests):
            return [[np.array([-1.0, broken if n == 0 else -1.0]) for n, _ in enumerate(r.cuts)] for r in requests]

    with pytest.raises(ValueError, match="finite"):
        information_gains([record("va")], WordTokenizer(), Broken(), GainConfig(probe=PROBE, form=form))


def with_texts(texts: list[str], ending: Ending):
    trajectory = record("s" * (len(texts) - 1) + "a", ending=ending)
    said = iter(texts)
    nodes = [n.model_copy(update={"text": next(said)}) if n.kind == "turn" else n for n in trajectory.nodes]
    return trajectory.model_copy(update={"nodes": tuple(nodes)})


CALL = 'look</think><tool_call>{"name": "search", "arguments": {}}</tool_call>'
ANSWER = "sure</think><answer>Oslo</answer>"


def test_each_turn_is_checked_for_itself():
    assert broken_turns(with_texts([CALL, "look <tool_call>", ANSWER], Ending.ANSWERED), PROFILE) == [False, True, False]


def test_a_forced_turn_has_to_be_an_answer():
    assert broken_turns(with_texts([CALL, CALL], Ending.NO_ANSWER), PROFILE) == [False, True]
    assert broken_turns(with_texts([CALL, CALL], Ending.REPETITION), PROFILE) == [False, False]
    assert broken_turns(with_texts([CALL, ANSWER], Ending.ANSWERED_AT_BUDGET), PROFILE) == [False, False]
