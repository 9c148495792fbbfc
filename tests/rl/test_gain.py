import unicodedata

import numpy as np
import pytest
import tokenizers
import torch
from hypothesis import given
from hypothesis import strategies as st
from loop_fakes import ByteTokenizer, FakeTool, TokenPolicy, answer, call, fake_profile, play
from tiny_qwen3 import tiny_model
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
from train_records import PROFILE, WordTokenizer, record

from sanderling.agent.transcript import FORCED, OBSERVATION_CUT
from sanderling.agent.turns import CUT_MARK
from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, ToolEvent, Trajectory
from sanderling.core.types import Ending, Role, ToolCall, ToolStatus
from sanderling.rl.config import RlConfig, check_run
from sanderling.rl.gain import GainAnswers, GainConfig, GainForm, Probe, find_targets, forced, information_gains, plan_gains
from sanderling.rl.rollouts import broken_turns
from sanderling.train.rows import Encoding, ScoreRequest
from sanderling.train.scorer import ModelScorer

PROBE = Probe(prefix="enough </think> <answer>", suffix="</answer>")
DR_VENUS_PROBE = Probe(prefix="Now there's enough information to answer\n</think>\n<answer>\n", suffix="\n</answer>")
TINY_PROBE = Probe(prefix="That is good enough.\n</think>\n<answer>", suffix="</answer>")


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
    names = ("New York", "NYC") * 2
    for continuation, (first, end), name in zip(request.continuations, request.answer_spans, names, strict=True):
        assert continuation[first:end] == tokenizer.encode(name)
        assert continuation[:first] == tokenizer.encode(PROBE.prefix)
        assert continuation[end:] == tokenizer.encode(PROBE.suffix)


def test_what_cannot_be_measured_says_so():
    tokenizer = WordTokenizer()
    with pytest.raises(UserError, match="text only"):
        information_gains([record("va", ids=False)], tokenizer, Asked(), GainConfig(probe=PROBE))
    for facts in ([{"subject": "Oslo"}], ["Oslo"], [{"object": ""}], [{"object": []}], [{"object": 7}], "Oslo", 7):
        asked = Question(id="q", text="?", answers=("Oslo",), meta={"facts": facts})
        with pytest.raises(UserError, match="fact without an object"):
            check_run(RlConfig(gain=GainConfig()), [asked], [], Encoding(tokenizer, PROFILE))


@pytest.mark.parametrize(("form", "gain"), [(GainForm.LOGPROB, np.log(2)), (GainForm.PROB, 0.25)])
def test_a_gain_is_of_log_probabilities_or_of_probabilities(form: GainForm, gain: float):
    class Surer:
        """A quarter before the page, a half after it."""

        def score_many(self, requests):
            return [[np.log([0.25 * (1 + n)] * 2) for n, _ in enumerate(r.cuts)] for r in requests]

    (found,) = information_gains([record("va")], WordTokenizer(), Surer(), GainConfig(probe=PROBE, form=form))
    assert found[0] == pytest.approx(gain)


@pytest.mark.parametrize("broken", [np.nan, -np.inf, np.inf])
@pytest.mark.parametrize("form", GainForm)
def test_what_is_not_finite_is_an_error_and_never_a_gain_of_zero(broken: float, form: GainForm):
    class Broken:
        def score_many(self, requests):
            return [[np.array([-1.0, broken if n == 0 else -1.0]) for n, _ in enumerate(r.cuts)] for r in requests]

    with pytest.raises(UserError, match="finite"):
        information_gains([record("va")], WordTokenizer(), Broken(), GainConfig(probe=PROBE, form=form))


def with_facts(one: Trajectory, *facts) -> Trajectory:
    return one.model_copy(update={"question": one.question.model_copy(update={"meta": {"facts": list(facts)}})})


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


# -- A visit at a spent budget is measured with its page: the real loop adds its hint to the observation, or cuts it -------
# A published system replaced the last observation by the hint, and measured the visit without what it had read.

QUESTION = Question(id="q", text="Where?", answers=("Paris",))


async def visited(page: str, **budgets: int):
    """One visit, and an answer that is asked for; what the two boundaries' contexts say."""
    policy = TokenPolicy([call("a", name="visit"), answer()])
    tool = FakeTool("visit", lambda arguments, context: page)
    done = await play(policy, tool, profile=fake_profile(budgets=budgets), question=QUESTION)
    assert done.ending is Ending.ANSWERED_AT_BUDGET
    plan = plan_gains(done, find_targets([done], GainConfig())[done.question.id], ByteTokenizer(), GainConfig())
    assert plan.pairs == ((0, 0, 1),) and plan.turns == 2
    texts = [ByteTokenizer().decode(list(plan.request.ids[:cut])) for cut in plan.request.cuts]
    return done, texts


async def test_the_closing_hint_leaves_the_page_where_it_is():
    done, (before, after) = await visited("the page that was read", max_turns=1)
    assert FORCED in done.branch()[-2].problems
    assert "the page that was read" not in before
    assert "the page that was read\n\nBudget used up. Answer now." in after
    assert after.endswith("<|im_start|>assistant\n<think>\n"), "the answer is forced where a turn would begin"


async def test_a_cut_page_is_measured_as_the_policy_saw_it():
    page = "HEAD " + "lorem ipsum " * 400 + " TAIL"
    done, (before, after) = await visited(page, max_context_tokens=3_000, answer_reserve_tokens=100)
    assert {FORCED, OBSERVATION_CUT} <= set(done.branch()[-2].problems)
    assert "HEAD" not in before
    for part in ("HEAD lorem", CUT_MARK, " TAIL\n\nBudget used up. Answer now."):
        assert part in after


# -- Information gain over branches: each boundary where the turn stood, and no page measured without itself ---------------

TOKENS = WordTokenizer()


def node(parent: int | None, kind: NodeKind, text: str, **more) -> Node:
    """A visit where it is a turn without an answer."""
    role = Role.ASSISTANT if kind is NodeKind.TURN else Role.USER
    ids = tuple(TOKENS.encode(text))
    more = {"token_ids": ids, **more}
    if kind is NodeKind.TURN:
        calls = () if more.get("answer") else (ToolCall(name="visit", arguments={}),)
        return Node(parent=parent, role=role, kind=kind, text=text, calls=calls, **more)
    events = (ToolEvent(name="visit", role="visit", status=ToolStatus.OK),) if kind is NodeKind.OBSERVATION else ()
    return Node(parent=parent, role=role, kind=kind, text=text, events=events, **more)


def trajectory(*nodes: Node, leaf: int | None = None) -> Trajectory:
    return record("a").model_copy(update={"nodes": nodes, "leaf": len(nodes) - 1 if leaf is None else leaf})


TURN, SEEN, HINT, ASKED = NodeKind.TURN, NodeKind.OBSERVATION, NodeKind.HINT, NodeKind.QUESTION
RESET = trajectory(
    node(None, ASKED, "what ?"),
    node(0, TURN, "visit one"),
    node(1, SEEN, "page one with much on it"),
    node(2, TURN, "visit two"),
    node(3, SEEN, "page two"),
    # Everything but the question is forgotten.
    node(0, HINT, "you read two pages"),
    node(5, TURN, "visit three"),
    node(6, SEEN, "page three is long as well"),
    node(7, TURN, "done", answer="Oslo"),
)


class Contexts:
    """Gives every context a number of its own, and remembers what it is."""

    def __init__(self) -> None:
        self.seen: dict[tuple[int, ...], float] = {}
        self.requests = []

    def score_many(self, requests):
        self.requests = requests
        return [
            [
                np.full(
                    end - first, self.seen.setdefault(tuple([request.ids, *request.others][on][:cut]), 2.0 ** len(self.seen))
                )
                for cut, on, (first, end) in zip(request.cuts, request.on, request.answer_spans, strict=True)
            ]
            for request in requests
        ]

    def value(self, one: Trajectory, end: int) -> float:
        return self.seen[tuple(one.token_ids(end))]


def gains(one: Trajectory) -> tuple[list[float | None], Contexts]:
    scorer = Contexts()
    (found,) = information_gains([one], WordTokenizer(), scorer, GainConfig(probe=PROBE))
    return found, scorer


def test_a_turn_of_several_branches_is_measured_on_its_own():
    found, scorer = gains(RESET)
    spans = [(0, 2), (2, 4), (4, 7)]
    assert found == [*(scorer.value(RESET, after) - scorer.value(RESET, before) for before, after in spans), None]
    assert len(scorer.requests[0].others) == 1, "two branches"


def test_a_hint_that_takes_an_observations_place_does_not_take_the_page():
    """A published system measured such a visit without its page."""
    one = trajectory(
        node(None, ASKED, "what ?"),
        node(0, TURN, "visit one"),
        node(1, SEEN, "page one"),
        node(1, HINT, "answer now"),
        node(3, TURN, "done", answer="Oslo"),
    )
    found, scorer = gains(one)
    assert found == [scorer.value(one, 2) - scorer.value(one, 0), None]


def test_rejected_attempts_stay_out():
    plain, retried = record("sva"), record("srvra")
    found, _ = gains(plain)
    again, other = gains(retried)
    assert found == again
    assert len(other.requests[0].others) == 0
    attempt = next(n for n in retried.nodes if n.rejected)
    assert attempt.token_ids is not None
    ids = list(other.requests[0].ids)
    assert all(ids[at : at + len(attempt.token_ids)] != list(attempt.token_ids) for at in range(len(ids)))


# -- Which tokens are the answer's: those of the whole text's own tokenisation, and all that hold a part of the answer -----

QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
"""How Qwen's tokenizers cut text before they merge bytes."""
TEXTS = [
    "Now there's enough information to answer\n</think>\n<answer>\nthe U.S.\n</answer>",
    "Oslo (Norway).\nThe U.S.\n</answer> Émile, 東京 and 1,234.\n",
] * 20


class Bytes:
    """A small byte-level BPE that cuts as Qwen's do."""

    fingerprint = "qwen-like"

    def __init__(self) -> None:
        made = tokenizers.Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.Sequence(  # pyright: ignore[reportAttributeAccessIssue]
            [pre_tokenizers.Split(Regex(QWEN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
        made.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        made.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, show_progress=False))
        made.add_tokens(["</think>"])
        self.made = made
        self.vocab_size = made.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        return self.made.encode(text, add_special_tokens=False).ids

    def decode(self, ids) -> str:
        return self.made.decode(list(ids), skip_special_tokens=False)

    def token_id(self, token: str) -> int:
        return self.made.token_to_id(token)


BYTES = Bytes()
ANSWERS = ["Oslo", "the U.S.", "(Norway)", " Oslo", "1,234.", "Émile", "東京", "a\nb", "Oslo\n", "</answer>", "😀"]


def held(ids: list[int]) -> str:
    return BYTES.decode(ids)


@pytest.mark.parametrize("probe", [DR_VENUS_PROBE, TINY_PROBE])
@pytest.mark.parametrize("answer", ANSWERS)
def test_the_ids_are_those_of_the_whole_text_and_the_span_holds_the_answer_and_no_token_more(probe: Probe, answer: str):
    ids, (first, end) = forced(BYTES, probe, answer)
    assert ids == BYTES.encode(probe.prefix + answer + probe.suffix)
    assert answer in held(ids[first:end])
    assert answer not in held(ids[first + 1 : end]) and answer not in held(ids[first : end - 1])
    before, but_one = held(ids[:first]), held(ids[: end - 1]).rstrip("\ufffd")  # a half character decodes to this
    assert probe.prefix.startswith(before) and (probe.prefix + answer).startswith(but_one)


def test_encoded_apart_is_not_always_what_a_policy_would_sample():
    probe, answer = DR_VENUS_PROBE, "the U.S."
    ids, (first, end) = forced(BYTES, probe, answer)
    apart = [i for part in (probe.prefix, answer, probe.suffix) for i in BYTES.encode(part)]
    assert ids != apart
    assert [held([i]) for i in ids[first:end]][-1].startswith(".\n"), "the full stop and the line break are one token"


@given(st.text(min_size=1, max_size=12))
def test_any_answer_is_located(answer: str):
    ids, (first, end) = forced(BYTES, DR_VENUS_PROBE, answer)
    answer = unicodedata.normalize("NFC", answer)
    text = DR_VENUS_PROBE.prefix + answer + DR_VENUS_PROBE.suffix
    assert held(ids) == text and 0 < first < end <= len(ids)
    assert DR_VENUS_PROBE.prefix.startswith(held(ids[:first]))
    assert held(ids[:end]).startswith(DR_VENUS_PROBE.prefix + answer)


@pytest.mark.parametrize("composed", ["Émile", "Ürümqi", "Đà Nẵng", "한국"])
def test_an_answer_in_decomposed_letters_is_measured_as_models_write_it(composed: str):
    decomposed = unicodedata.normalize("NFD", composed)
    assert decomposed != composed
    assert forced(BYTES, DR_VENUS_PROBE, decomposed) == forced(BYTES, DR_VENUS_PROBE, composed)


def test_where_decoding_does_not_give_the_text_back_parts_are_encoded_apart():
    class Lossy(WordTokenizer):
        def decode(self, ids) -> str:
            return super().decode(ids).lower()

    tokens, probe = Lossy(), Probe(prefix="Enough </think> <answer>", suffix="</answer>")
    ids, (first, end) = forced(tokens, probe, "New York")
    assert ids[first:end] == tokens.encode("New York") and ids[:first] == tokens.encode(probe.prefix)


# -- The probe is the policy's own words ------------------------------------------------------------------------------------


def saying(*texts: str, answer: str = "Oslo", question: str = "q", facts=()) -> Trajectory:
    """A rollout whose turns visit pages, and whose last answers; its texts are these."""
    one = record("v" * (len(texts) - 1) + "a", question=question, answer=answer, answers=("Oslo", "the town Oslo"))
    said = iter(texts)
    nodes = []
    for node in one.nodes:
        if node.kind is NodeKind.TURN:
            text = next(said)
            node = node.model_copy(update={"text": text, "token_ids": tuple(TOKENS.encode(text))})
        nodes.append(node)
    return with_facts(one.model_copy(update={"nodes": tuple(nodes)}), *facts)


def probe_of(*rollouts: Trajectory, config: GainConfig | None = None):
    return find_targets(rollouts, config or GainConfig())["q"][0].probe


def test_the_probe_is_what_most_of_a_questions_rollouts_write_before_the_answer_first_stands_there():
    said = "The seat is the town Oslo.\n</think>\n<answer>Oslo</answer>"
    once = "Page three, of 1924, says Oslo.\n</think>\n<answer>Oslo</answer>"
    wrong = "The seat is Rome.\n</think>\n<answer>Rome</answer>"
    assert probe_of(saying(said), saying(once), saying(said), saying(wrong, answer="Rome")) == Probe(
        prefix="The seat is ", suffix=".\n</thin"
    )


@pytest.mark.parametrize(("said", "form"), [("首都は{}です。", "東京"), ("수도는 {}입니다.", "서울"), ("Cafe: {}.", "Émile")])
def test_a_name_is_found_between_letters_of_its_own_script_and_in_decomposed_ones(said: str, form: str):
    """Else the probe would go on to where the answer stands alone, and hold it."""
    text = said.format(form) + f"</think><answer>{form}</answer>"
    one = saying(text, answer=form)
    question = one.question.model_copy(update={"answers": (unicodedata.normalize("NFD", form),)})
    assert probe_of(*[one.model_copy(update={"question": question})] * 2).prefix == said.split("{}")[0]


def test_an_answer_that_the_question_names_is_measured_where_answers_stand():
    """Where it is first written the question is told again, which tells nothing."""
    one = saying("Oslo or Rome? The older is Rome.</think><answer>Rome</answer>", answer="Rome")
    question = one.question.model_copy(update={"text": "Is Oslo or Rome older?", "answers": ("Rome",)})
    assert probe_of(*[one.model_copy(update={"question": question})] * 2).prefix == "</think><answer>"


def test_how_one_rollout_alone_closed_is_no_probe():
    told = [saying(f"</think>\nAs page {n} has it: <answer>Rome</answer>", answer="Rome") for n in range(3)]
    assert probe_of(*told).prefix == "\n</think>\n<answer>"


def test_a_long_probe_is_not_decoded_token_by_token():
    class Counting(Bytes):
        decoded = 0

        def decode(self, ids) -> str:
            self.decoded += len(ids)
            return super().decode(ids)

    tokens = Counting()
    ids, _ = forced(tokens, Probe(prefix="So it is. " * 500, suffix="</answer"), "Oslo")
    assert len(ids) > 2_000 and tokens.decoded < 40 * len(ids)


def test_what_one_rollout_alone_wrote_may_come_from_its_pages_and_is_no_probe():
    others = [saying(f"Page {n} says so.\n</think>\n\n<answer>\nRome</answer>", answer="Rome") for n in range(2)]
    once = saying("Page three, of 1924, says Oslo.\n</think>\n\n<answer>\nOslo</answer>")
    assert probe_of(once, *others) == Probe(prefix="\n</think>\n\n<answer>\n", suffix="</answer")
    elsewhere = [saying("The seat is Oslo.\n</think>\n<answer>Oslo", question="other")] * 4
    assert probe_of(once, *elsewhere) == Probe(prefix="\n</think>\n<answer>", suffix=""), "as most end, of all questions"


def test_a_guess_leads_to_an_answer_at_any_moment_where_enough_rollouts_make_one():
    guesses = [saying(f"That will do.\n</think>\n<answer>{town}</answer>", answer=town) for town in ("Rome", "Bern")]
    named = [saying(f"Page {n} says Bern.\n</think>\n<answer>Bern</answer>", answer="Bern") for n in range(18)]
    assert probe_of(*guesses, *named).prefix == "That will do.\n</think>\n<answer>"
    assert probe_of(*guesses, *named, *named[:1]).prefix == "\n</think>\n<answer>", "fewer than a tenth"


def test_where_nobody_has_answered_the_probe_is_the_plain_form_and_a_given_one_is_taken():
    silent = record("vv", answer=None)
    assert probe_of(silent).prefix == "\n</think>\n<answer>"
    assert probe_of(saying("It is Oslo"), saying("It is Oslo"), config=GainConfig(probe=PROBE)) == PROBE
    plain = [saying("Oslo, says the page.")] * 2
    assert probe_of(*plain).prefix == "", "a policy that thinks elsewhere answers at once"


# -- Milestones: the facts on the way ----------------------------------------------------------------------------------------

FACTS = (
    {"subject": "Ann", "object": "the Guild"},
    {"subject": "Bob", "object": ["the Guild", "Guild"]},
    {"subject": "the Guild", "object": "Oslo"},
    {"subject": "the Guild", "object": "1924"},
)
MILESTONES = GainConfig(milestones=True)


def test_milestones_are_the_facts_that_somebody_names_each_by_the_words_that_speak_of_its_subject():
    told = saying("Bob worked for the Guild.", "Ann worked for the Guild.", "It sits in Oslo", facts=FACTS)
    answer, ann, bob = find_targets([told, told], MILESTONES)["q"]
    assert answer.forms == ("Oslo", "the town Oslo") and answer.probe.prefix == "It sits in "
    assert (ann.forms, ann.probe) == (("the Guild",), Probe(prefix="Ann worked for ", suffix="."))
    assert (bob.forms, bob.probe) == (("the Guild", "Guild"), Probe(prefix="Bob worked for ", suffix="."))
    assert len(find_targets([told, told], GainConfig())["q"]) == 1
    first = find_targets([told, told], GainConfig(milestones=True, answers=GainAnswers.FIRST))["q"]
    assert [target.forms for target in first] == [("Oslo",), ann.forms, bob.forms], "of accepted answers, not of a fact's names"


def test_what_the_question_names_is_no_milestone_but_what_the_fact_says_of_it():
    """Questions of `synth` go along facts either way: whose mentor is Ann?"""
    told = saying("Bob learnt from Ann.", "It is Oslo", facts=({"subject": "Bob", "object": "Ann"}, {"url": "u", "quote": ""}))
    question = told.question.model_copy(update={"text": "Where does the pupil of Ann live?"})
    _, bob = find_targets([told.model_copy(update={"question": question})] * 2, MILESTONES)["q"]
    assert bob.forms == ("Bob",)
    both = told.question.model_copy(update={"text": "Ann taught Bob. Where does he live?"})
    assert len(find_targets([told.model_copy(update={"question": both})] * 2, MILESTONES)["q"]) == 1


def test_a_fact_counts_until_the_policy_names_it():
    """Boundaries have the values 1, 2, 4, 8 for every target; the fact is named in the turn before the third."""
    told = saying("I look.", "Ann worked for the Guild.", "On.", "It is Oslo", facts=FACTS[:1])
    scorer = Contexts()
    first, _ = information_gains([told, told], TOKENS, scorer, MILESTONES)
    assert first == [(1 + 1) / 2, (2 + 0) / 2, (4 + 0) / 2, None]


@pytest.mark.parametrize("form", GainForm)
def test_milestone_gains_are_those_of_one_forward_for_each_fact_form_and_boundary(form: GainForm):
    model, config = tiny_model().eval(), GainConfig(milestones=True, form=form)
    told = saying("I look.", "On.", "Bob and Ann worked for the Guild.", "It is Oslo", facts=FACTS)
    first, _ = information_gains([told, told], TOKENS, ModelScorer(model), config)
    targets = find_targets([told, told], config)["q"]

    def value(target, end: int) -> float:
        found = []
        for text in target.forms:
            ids, (begin, stop) = forced(TOKENS, target.probe, text)
            line = [*(told.token_ids(end) or ()), *ids]
            logits = model(torch.tensor([line])).logits[0].double().log_softmax(-1)
            start = len(line) - len(ids)
            found.append(np.mean([logits[at - 1, line[at]].item() for at in range(start + begin, start + stop)]))
        return max(found) if form is GainForm.LOGPROB else float(np.exp(max(found)))

    ends = [1, 3, 5, 7]  # the prompt, and each visit's observation
    answer, *facts = ([value(target, end) for end in ends] for target in targets)
    assert len(facts) == 2
    for fact in facts:
        fact[3] = fact[2]  # named in the third turn
    phi = np.mean([answer, *facts], axis=0)
    assert first == [*(pytest.approx(gain, abs=1e-4) for gain in np.diff(phi)), None]
