"""The real loop against the one on a page, which shares none of its estimators, losses, rows, packing or optimizer code."""

import asyncio
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file
from tiny_qwen3 import VOCAB, save_tiny
from train_records import PROFILE, WordTokenizer, record

from sanderling.core.record import Node, NodeKind, Question, ToolEvent, Trajectory
from sanderling.core.types import Ending, Role, ToolCall, ToolStatus
from sanderling.rl.config import RlConfig
from sanderling.rl.contract import Actor, Ask, rule_score
from sanderling.rl.credit import GrpoConfig, IgpoConfig, IgpoMode, build_estimator
from sanderling.rl.denoise import turn_penalties
from sanderling.rl.gain import GainConfig, Probe
from sanderling.rl.rl_loop import ScoredRollout, Settings, credit, outcome, train
from sanderling.rl.run import run_rl
from sanderling.rl.table import Graded, build_table
from sanderling.train.checkpoint import load_model
from sanderling.train.config import TrainerConfig
from sanderling.train.encoding import Encoding
from sanderling.train.metrics import read_metrics

QUESTIONS = [Question(id=f"q{i}", text=f"question {i}", answers=("Oslo", "Oslo fjord")) for i in range(4)]
PREFIX = "so </think> <answer>"
LR = 2e-4
TURNS = 4


class Walker:
    """A policy that walks a few turns: what it samples decides which tool it uses, what it reads and how it answers."""

    def __init__(self, model, outage: int | None = None) -> None:
        self.model, self.outage, self.version, self.asks = model, outage, 0, []

    def training(self):
        return nullcontext()

    async def publish(self, weights, version: int) -> None:
        self.version = version

    async def rollout(self, ask: Ask) -> Trajectory:
        self.asks.append((ask.question.id, ask.seed, ask.attempt))
        rng = np.random.default_rng((ask.seed, ask.attempt))
        start = tuple(WordTokenizer().encode(ask.question.text))
        nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text="?", token_ids=start)]
        answer = None
        for _ in range(TURNS):
            said, logprobs = self._sample([i for node in nodes for i in node.token_ids or ()], rng)
            last = len(nodes) > 1 and said[0] % 3 == 0
            answer = ("Oslo" if said[1] % 2 else "Bergen") if last else None
            # One in five turns breaks the grammar.
            body = f"<answer>{answer}</answer>" if last else '<tool_call>{"name": "t", "arguments": {}}</tool_call>'
            turn = Node(
                parent=len(nodes) - 1,
                role=Role.ASSISTANT,
                kind=NodeKind.TURN,
                text=f"{said}" + ("" if said[2] % 5 == 0 else "</think>") + body,
                token_ids=said,
                logprobs=logprobs,
                versions=(self.version,) * len(said),
                calls=() if last else (ToolCall(name="t", arguments={}),),
                answer=answer,
            )
            nodes.append(turn)
            if last:
                break
            role = "visit" if said[1] % 2 else "search"
            read = tuple(int(i) for i in (said[0] * np.arange(3, 9)) % VOCAB)
            event = ToolEvent(name="t", role=role, status=ToolStatus.OK)
            nodes.append(
                Node(
                    parent=len(nodes) - 1, role=Role.USER, kind=NodeKind.OBSERVATION, text="r", token_ids=read, events=(event,)
                )
            )
        ending = Ending.TURN_LIMIT if answer is None else Ending.ANSWERED
        return Trajectory(
            id=f"{ask.question.id}-{ask.attempt}",
            question=ask.question,
            nodes=tuple(nodes),
            leaf=len(nodes) - 1,
            ending=Ending.TOOL_OUTAGE if ask.attempt == self.outage else ending,
            answer=answer,
            profile="tiny",
            tokenizer="words",
        )

    def _sample(self, context: list[int], rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[float, ...]]:
        said, logprobs = [], []
        for _ in range(3):
            with torch.inference_mode():
                row = self.model(input_ids=torch.tensor([[*context, *said]])).logits[0, -1].double().log_softmax(-1).numpy()
            said.append(int(rng.choice(len(row), p=np.exp(row) / np.exp(row).sum())))
            logprobs.append(float(row[said[-1]]))
        return tuple(said), tuple(logprobs)


def config(igpo: IgpoMode | None, penalty: float, per_step: int = 2, **trainer) -> RlConfig:
    weight = {"penalty_weight": penalty}
    estimator = IgpoConfig(mode=igpo, gamma=0.95, **weight) if igpo else GrpoConfig(**weight)
    return RlConfig(
        trainer=TrainerConfig(lr=LR, micro_batch_tokens=128, **trainer),
        estimator=estimator,
        gain=GainConfig(probe=Probe(prefix=PREFIX)) if igpo else None,
        steps=3,
        questions_per_step=per_step,
        group_size=6,
        seed=4,
    )


def real(settings: RlConfig, base: Path, out: Path, **walker):
    walkers: list[Walker] = []

    def connect(model) -> Actor:
        walkers.append(Walker(model, **walker))
        return Actor(walkers[0].rollout, walkers[0])

    asyncio.run(run_rl(settings, QUESTIONS, connect, Encoding(WordTokenizer(), PROFILE), base, out))
    return load_file(out / "model" / "model.safetensors"), read_metrics(out / "metrics.jsonl"), walkers[0].asks


@pytest.mark.parametrize(
    ("igpo", "penalty", "trainer", "walker"),
    [
        (None, 0.0, {}, {}),
        (IgpoMode.SCALED_SEPARATE, 1.0, {}, {}),
        (IgpoMode.SCALED_SEPARATE, 1.0, {"grad_clip": 0.05}, {"outage": 3}),
        (IgpoMode.SCALED_SEPARATE, 1.0, {"per_step": 3}, {}),  # of 4 questions: one is asked twice in a step
    ],
    ids=["grpo", "igpo-penalties", "igpo-clipped-outage", "igpo-twice"],
)
def test_the_real_loop_gives_the_same_updates(
    tmp_path: Path, igpo: IgpoMode | None, penalty: float, trainer: dict, walker: dict
):
    base = save_tiny(tmp_path / "base")
    theirs, metrics, asked = real(config(igpo, penalty, **trainer), base, tmp_path / "run", **walker)
    model = load_model(base)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    walker_here = Walker(model, **walker)
    simple = Settings(
        steps=3,
        questions_per_step=trainer.get("per_step", 2),
        group_size=6,
        seed=4,
        lr=LR,
        gain_prefix=PREFIX if igpo else None,
        gamma=0.95,
        grad_clip=trainer.get("grad_clip", 1.0),
    )
    fines = partial(turn_penalties, profile=PROFILE, scale=penalty)
    log = asyncio.run(train(model, QUESTIONS, walker_here.rollout, simple, WordTokenizer().encode, fines))
    assert set(walker_here.asks) == set(asked), "the same questions, seeds and attempts"
    assert all(0.0 < line["reward"] < 1.0 for line in log)
    same_figures(log, metrics)
    same_weights(model, theirs, before)
    if igpo and not walker:  # something is compared: gains are there, and differ
        assert all(line["gains_scored"] >= 5 and abs(line["gain"]) > 0.001 and line["malformed_share"] > 0 for line in metrics)


def test_the_default_settings_are_those_of_the_real_run():
    simple, real = Settings(), RlConfig()
    sections = [
        (real, ("steps", "questions_per_step", "group_size")),
        (real.loss, ("clip_low", "clip_high")),
        (real.trainer, ("betas", "eps", "lr", "weight_decay", "grad_clip")),
    ]
    for section, names in sections:
        assert [getattr(simple, name) for name in names] == [getattr(section, name) for name in names]


def same_figures(log: list[dict[str, float]], metrics: list[dict]) -> None:
    for ours, line in zip(log, metrics, strict=True):
        assert line["reward"] == pytest.approx(ours["reward"])
        assert line["loss"] == pytest.approx(ours["loss"], abs=1e-5)
        assert line["grad_norm"] == pytest.approx(ours["grad_norm"], rel=1e-3)


def same_weights(model, theirs: dict[str, np.ndarray], before: dict[str, torch.Tensor]) -> None:
    moved, apart = 0.0, 0.0
    for name, value in model.named_parameters():
        ours = value.detach()
        np.testing.assert_allclose(theirs[name], ours.numpy(), rtol=0, atol=1e-5, err_msg=name)
        moved += float((ours - before[name]).square().sum())
        apart += float((ours - torch.from_numpy(theirs[name])).square().sum())
    assert moved > 0 and apart < 1e-8 * moved


@pytest.mark.parametrize("answer", ["The Kent.", "kent", "Kentish", "", None])
@pytest.mark.parametrize("ending", [Ending.ANSWERED, Ending.NO_ANSWER, Ending.TOOL_OUTAGE])
async def test_its_outcome_is_the_real_run_s(answer: str | None, ending: Ending):
    question = Question(id="q", text="Which river?", answers=("Medway", "Kent"))
    trajectory = Trajectory(id="t", question=question, nodes=(), leaf=None, ending=ending, answer=answer)
    assert outcome(trajectory) == await rule_score(RlConfig().outcome)(trajectory)


@given(data=st.data())
def test_its_igpo_is_the_estimator_s(data: st.DataObject):
    rollouts = []
    for number in range(data.draw(st.integers(1, 7))):
        trajectory = record(
            data.draw(st.text("sv", min_size=0, max_size=5)) + "a", name=f"t{number}", question=f"q{number % 2}"
        )
        turns = len(list(trajectory.turns()))
        gain = st.one_of(st.none(), st.floats(-3, 3), st.just(0.0))
        gains = data.draw(st.lists(gain, min_size=turns - 1, max_size=turns - 1))
        rollouts.append(ScoredRollout(trajectory, data.draw(st.sampled_from([0.0, 1.0])), [*gains, None], group=number % 2))
    credit(rollouts, gamma=0.9)
    table = build_table([Graded(one.trajectory, one.outcome, [0.0] * len(one.gains), one.gains) for one in rollouts])
    expected = build_estimator(IgpoConfig(mode=IgpoMode.SCALED_SEPARATE, gamma=0.9))(table)
    np.testing.assert_allclose([a for one in rollouts for a in one.advantages], expected, atol=1e-9)
