"""Credit, losses, information gain, an engine's samples, and the weights after SFT and RL, in one process and in two.

All of it is made in a process of its own, which forks into the two ranks before anything else was computed. Rollouts are
scripted: what was "sampled" is drawn without the model, and its log-probabilities are the model's, slightly off.
"""

import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
import warnings
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from loopback import free_port

TOLERANCE = 1e-4
"""Of floats in float32 weights and what follows from them; what is pure float64 arithmetic is pinned as text, to 8 decimals."""
SETTINGS = """
title = "golden"
epochs = 5
batch_trajectories = 4
max_steps = 20
save_every = 20
seed = 3
[data]
profile = "tiny"
[parallel]
kind = "replicate"
[trainer]
lr = 1e-2
eps = 1e-3
schedule = "cosine"
warmup_share = 0.2
micro_batch_tokens = 256
"""
WORDS = ("tide", "bird", "Oslo", "sea", "page", "north")
PIECES = tuple(f"<{end}{tag}>" for tag in ("think", "answer", "tool_call", "tool_response") for end in ("", "/")) + WORDS
SCRIPTS = ("sva", "svsva", "sma", "sssva", "vvva", "sv")
QUESTIONS = (("q0", ("Oslo",)), ("q1", ("Bergen", "the town of Bergen")), ("q2", ("12 May",)))


def make(scratch: Path, recorded: Path | None) -> dict[str, Any]:
    """Every case; ``recorded`` is not used."""
    del recorded
    paths = os.pathsep.join(path for path in sys.path if path)
    found = subprocess.run(
        [sys.executable, __file__, str(scratch)], env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    if found.returncode:
        raise RuntimeError(found.stdout + found.stderr)
    return json.loads((scratch / "cases.json").read_text())


def _everything(scratch: Path) -> dict[str, Any] | None:
    """All cases, on rank 0."""
    write_base(scratch / "base")
    write_trajectories(scratch / "data.jsonl", [scripted(number, SCRIPTS[number % 6], text=True) for number in range(16)])
    (scratch / "sft.toml").write_text(SETTINGS)
    (scratch / "meeting").mkdir()
    port = str(free_port())
    child = os.fork()
    rank = 1 if child == 0 else 0
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    found = trained(scratch, "two processes", rank)
    if rank:
        os._exit(0)
    os.waitpid(child, 0)
    for name in place:
        del os.environ[name]
    found |= trained(scratch, "one process", None)
    return found | credit() | losses() | gains(scratch / "base") | engine(scratch / "base")


def text_of(values: Any) -> str:
    """Float64 numbers, to 8 decimals."""
    return " ".join(f"{value + 0.0:.8f}".replace("-0.00000000", "0.00000000") for value in np.asarray(values).ravel().tolist())


def seeded(name: str, *shape: int) -> np.ndarray:
    """Random numbers that belong to a name."""
    return np.random.default_rng(list(name.encode())).standard_normal(shape)


def prints(model: Path, base: Path) -> dict[str, list[float]]:
    """Of each tensor its norm, and 16 projections of what training changed."""
    ours, theirs = (load_file(place / "model.safetensors") for place in (model, base))
    found = {}
    for name, value in sorted(ours.items()):
        moved = (value.astype(np.float64) - theirs[name].astype(np.float64)).ravel()
        projected = seeded(name, 16, moved.size) @ moved
        found[name] = [float(f"{one:.6g}") for one in (float(np.linalg.norm(value.astype(np.float64))), *projected)]
    return found


def write_base(place: Path) -> None:
    """A model of random weights whose tokens are bytes and a few words."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    raw = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={one: i for i, one in enumerate(alphabet)}, merges=[]))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = tokenizers.decoders.ByteLevel()
    raw.add_special_tokens(specials)
    raw.add_tokens(list(PIECES))
    PreTrainedTokenizerFast(tokenizer_object=raw).save_pretrained(place)
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 8}
    config = Qwen3Config(
        **shape, vocab_size=len(alphabet) + 3 + len(PIECES), num_key_value_heads=2, max_position_embeddings=2048,
        initializer_range=0.2,
        tie_word_embeddings=True, eos_token_id=256, bos_token_id=None, pad_token_id=256,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(place)


def scripted(number: int, script: str, *, text: bool = False, question: int = 0, ending: Any = None) -> Any:
    """A trajectory from letters: s search, v visit, m malformed, a answer; with random text, and ids if not ``text`` alone."""
    rng = random.Random(f"{number} {script}")
    words = lambda count: " ".join(rng.choice(WORDS) for _ in range(count))  # noqa: E731
    name, answers = QUESTIONS[question]
    nodes: list[Any] = []

    def add(role: Any, kind: Any, said: str, **more: Any) -> None:
        ids = None if text else tuple(TOKENIZER.encode(said))
        if kind is NodeKind.TURN and ids:
            more |= {"logprobs": (0.0,) * len(ids), "versions": (0,) * len(ids)}
        nodes.append(Node(parent=len(nodes) - 1 if nodes else None, role=role, kind=kind, text=said, token_ids=ids, **more))

    add(Role.SYSTEM, NodeKind.SYSTEM, "Search.")
    add(Role.USER, NodeKind.QUESTION, f"What {name}?")
    for letter in script:
        calls = (ToolCall(name="tool", arguments={}),) if letter in "sv" else ()
        answer = rng.choice((answers[0], "Rome")) if letter == "a" else None
        act = f"<answer>{answer}</answer>" if answer else "" if letter == "m" else f"<tool_call>{words(1)}</tool_call>"
        add(Role.ASSISTANT, NodeKind.TURN, f"<think>\n{words(2)}\n</think>\n{act}", calls=calls, answer=answer)
        if letter in "sv":
            event = ToolEvent(name="tool", role={"s": "search", "v": "visit"}[letter], status=ToolStatus.OK)
            add(Role.USER, NodeKind.OBSERVATION, f"<tool_response>\n{words(3)}\n</tool_response>", events=(event,))
        elif letter == "m":
            add(Role.USER, NodeKind.HINT, "Malformed.")
    ended = ending or (Ending.ANSWERED if script.endswith("a") else Ending.TURN_LIMIT)
    return Trajectory(
        id=f"{name}-{number}", question=Question(id=name, text=f"What {name}?", answers=answers), nodes=tuple(nodes),
        leaf=len(nodes) - 1, ending=ended, answer=nodes[-1].answer, profile="tiny",
        tokenizer=None if text else TOKENIZER.fingerprint,
    )  # fmt: skip


class Actors:
    """Scripted rollouts with the log-probabilities of the model that is trained."""

    version = 0

    def __init__(self, model: Any) -> None:
        self.model = model

    def training(self) -> Any:
        return nullcontext()

    async def publish(self, weights: Any, version: int) -> None:
        self.version = version

    async def rollout(self, ask: Any) -> Any:
        await asyncio.sleep(0)
        number = ask.attempt
        outage = Ending.TOOL_OUTAGE if number == 5 else None
        which = next(i for i, (name, _) in enumerate(QUESTIONS) if name == ask.question.id)
        one = scripted(number, SCRIPTS[number % 6], question=which, ending=outage)
        ids = [token for node in one.nodes for token in node.token_ids]
        with torch.inference_mode():
            scores = self.model(input_ids=torch.tensor([ids])).logits[0].double()
            scores = (scores / TINY.sampling.temperature).log_softmax(-1)
        nodes, at, noise = [], 0, np.random.default_rng(number)
        for node in one.nodes:
            size = len(node.token_ids)
            if node.kind is NodeKind.TURN:
                own = [float(scores[at + i - 1, token]) for i, token in enumerate(node.token_ids)]
                own = tuple((np.array(own) + 0.1 * noise.standard_normal(size)).tolist())
                node = node.model_copy(update={"logprobs": own, "versions": (self.version,) * size})
            nodes.append(node)
            at += size
        return one.model_copy(update={"nodes": tuple(nodes), "question": ask.question})


def trained(scratch: Path, name: str, rank: int | None) -> dict[str, Any]:
    """SFT by the command, GRPO and IGPO over scripted rollouts: fingerprints of weights, and figures of each step."""
    out, found = scratch / name, {}
    sys.argv = ["sanderling", "train", "sft", str(scratch / "data.jsonl"), "--model", str(scratch / "base"), "--recipe"]
    sys.argv += [str(scratch / "sft.toml"), "--out", str(out / "sft")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            main()
        except SystemExit as ended:
            assert not ended.code, ended
    found[f"{name}: sft"] = (out / "sft", ("loss", "grad_norm", "lr", "rows", "trained_tokens"))
    trainer = TrainerConfig(lr=3e-3, eps=1e-3, entropy=True, temperature=TINY.sampling.temperature, micro_batch_tokens=256)
    shared = {"trainer": trainer, "denoise": DenoiseConfig(outage_wait_s=0.0), "steps": 2, "questions_per_step": 2, "seed": 4}
    released = IgpoConfig(mode=IgpoMode.SCALED_SEPARATE, discount="per_segment", penalty_form="as_released")
    decoupled = PpoConfig(ratio_to=RatioTo.PROXIMAL, kl_coef=0.01)
    runs = {
        "grpo": RlConfig(**shared, group_size=6, estimator=GrpoConfig(), loss=PpoConfig(), updates_per_step=2),
        "igpo": RlConfig(**shared, group_size=6, estimator=released, loss=decoupled, gain=GainConfig(probe=PROBE)),
    }
    questions = [Question(id=name, text="?", answers=answers) for name, answers in QUESTIONS]
    for kind, config in runs.items():
        place = out / kind
        actors: list[Actors] = []

        def connect(model: Any, actors: list[Actors] = actors) -> Any:
            actors.append(Actors(model))
            return Actor(actors[0].rollout, actors[0])

        meeting = scratch / "meeting" / kind
        meeting.mkdir(exist_ok=True, parents=True)
        with join_team(rank or 0, 1 if rank is None else 2, meeting) as team, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = run_rl(config, questions, connect, Encoding(TOKENIZER, TINY), scratch / "base", place, team=team)
            asyncio.run(run)
        names = ("loss", "reward", "grad_norm", "rows", "trained_tokens", "ratio", "clipped", "gain", "gains_scored", "entropy")
        found[f"{name}: {kind}"] = (place, (*names, "penalty", "unscored", "turns", "kl_sampler", "kl_reference", "importance"))
    if rank:
        return {}
    cases: dict[str, Any] = {}
    for case, (place, names) in found.items():
        cases[f"{case}: weights"] = prints(place / "model", scratch / "base")
        cases[f"{case}: steps"] = [
            {key: float(f"{line[key]:.6g}") for key in names if key in line} for line in read_metrics(place / "metrics.jsonl")
        ]
    return cases


def tables(count: int) -> list[Any]:
    """Turn tables of up to 24 trajectories in up to 4 groups, with everything that can happen to a turn."""
    found = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        rows = []
        for number in range(int(rng.integers(1, 24))):
            group, turns = int(rng.integers(0, 4)), int(rng.integers(1, 9))
            outcome, scored, train = rng.choice([0.0, 0.0, 1.0, 0.25]), rng.random() > 0.1, rng.random() > 0.1
            for turn in range(turns):
                last = turn == turns - 1 and rng.random() > 0.3
                tool = "answer" if last else rng.choice(["search", "visit", "both", "other", "none"])
                gained = tool in ("visit", "both") or rng.random() > 0.9
                gain = round(float(rng.normal()), 3) if seed % 5 else 0.5
                penalty, capped = float(rng.choice([0, 0, 0, -1, -0.5])), rng.random() > 0.9
                bounds = (scored, gain if gained else 0.0, gained, penalty, train, capped)
                place, tokens = (number, group, turn, 10 * group + turn), int(rng.integers(1, 90))
                rows.append((*place, tokens, tool, outcome if scored else 0.0, *bounds))
        order = (str(one.name) for one in fields(TurnTable))
        kinds = (np.int64,) * 5 + (np.str_, np.float64, np.bool_, np.float64, np.bool_, np.float64, np.bool_, np.bool_)
        columns = (np.array(values, dtype=kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True))
        found.append(TurnTable(**dict(zip(order, columns, strict=True))))
    return found


def credit() -> dict[str, Any]:
    """Of every estimator: each part of the advantages of all tables' turns, projected on two directions."""
    configs = {"grpo": GrpoConfig(), "grpo sample": GrpoConfig(deviation="sample", penalty_weight=0.5)}
    configs |= {"loo": LeaveOneOutConfig(), "loo signed": LeaveOneOutConfig(right_above=0.5, scale=2.0)}
    modes = [mode for mode in IgpoMode if mode is not IgpoMode.STATE]  # tests/rl/test_estimators.py has it turn by turn
    for mode, assignment, discount, form in itertools.product(modes, Assignment, Discount, PenaltyForm):
        name = " ".join(["igpo", mode, assignment, discount, form])
        configs[name] = IgpoConfig(mode=mode, assignment=assignment, discount=discount, penalty_form=form)
    configs["igpo weighed"] = IgpoConfig(gain_weight=0.3, outcome_floor=0.9, max_scale=0.7, gamma=0.9, penalty_weight=2.0)
    batch = tables(16)
    cases = {}
    for name, config in configs.items():
        parts = [build_estimator(config).components(table) for table in batch]
        whole = np.stack([np.concatenate([getattr(one, part) for one in parts]) for part in ("outcome", "gain", "penalty")])
        cases[f"credit: {name}"] = text_of(whole @ seeded("credit", whole.shape[1], 2))
    return cases


def losses() -> dict[str, Any]:
    """Of every loss: its value, its gradient on two directions, and the means of its figures."""
    tokens = 120
    drawn = {
        name: torch.tensor(seeded(name, tokens)) for name in ("base", "new", "sampler", "proximal", "reference", "advantage")
    }
    base = -drawn["base"].abs() - 0.05
    near = {name: base + scale * drawn[name] for name, scale in (("sampler", 0.5), ("proximal", 0.4), ("reference", 0.6))}
    given = LossInputs(
        logprobs=base + 0.5 * drawn["new"], weights=torch.tensor(abs(seeded("weights", tokens)) / tokens),
        advantages=drawn["advantage"], sequence=torch.arange(tokens) // 7, **near,
    )  # fmt: skip
    extreme = CorrectionConfig(low=0.5, high=2.0, veto=0.3)
    variants: dict[str, dict[str, Any]] = {
        "plain": {}, "proximal": {"ratio_to": "proximal"}, "extreme": {"correction": extreme}, "k3": {"kl_coef": 0.1},
    }  # fmt: skip
    configs = {f"{kind.__name__} {name}": kind(**more) for kind in (PpoConfig, MinirlConfig) for name, more in variants.items()}
    configs |= {"dual": PpoConfig(dual_clip=1.5), "strict": MinirlConfig(least=0.8, most=1.3, ratio_to="proximal")}
    names = ("ratio", "clipped", "masked", "vetoed", "stopped", "importance", "kl_sampler", "sampler_gap", "kl_reference")
    cases = {}
    for name, loss in {**{name: build_loss(one) for name, one in configs.items()}, "sft": sft}.items():
        own = given.logprobs.clone().requires_grad_()
        value, figures = loss(replace(given, logprobs=own))
        value.backward()
        means = [figures[key].double().mean().item() for key in names if key in figures]
        cases[f"loss: {name}"] = text_of([value.item(), *(own.grad.numpy() @ seeded("loss", tokens, 2)), *means])
    return cases


def gains(base: Path) -> dict[str, Any]:
    """What each turn of six trajectories gained, by every way of measuring it."""
    model = Qwen3ForCausalLM.from_pretrained(base).eval()
    batch = [scripted(number, script, question=number % 3) for number, script in enumerate(SCRIPTS)]
    everything = frozenset({TurnTool.SEARCH, TurnTool.VISIT, TurnTool.BOTH})
    cases = {}
    for form, answers in itertools.product(GainForm, GainAnswers):
        config = GainConfig(form=form, answers=answers, tools=everything, probe=PROBE)
        found = information_gains(batch, TOKENIZER, ModelScorer(model, TrainerConfig(temperature=0.8)), config)
        cases[f"gain: {form} last_scored observed {answers}"] = [
            [None if gain is None else float(f"{gain:.6g}") for gain in one] for one in found
        ]
    return cases


def engine(base: Path) -> dict[str, Any]:
    """Sampled tokens and their log-probabilities of twelve sessions together, and of the same one after the other."""
    plans = [
        Sampling(temperature=0.9, max_tokens=14), Sampling(temperature=0.0, max_tokens=10),
        Sampling(temperature=1.3, top_p=0.8, top_k=20, max_tokens=12),
        Sampling(presence_penalty=1.1, max_tokens=16, stop=("e", "ab")),
    ]  # fmt: skip

    async def one(policy: Any, number: int) -> list[Any]:
        prompt = TOKENIZER.encode("The tide comes in. " * (1 + number // 4) + ("" if number % 3 else f"Bird {number}?"))
        session = policy.open(SampleKey(7, f"q{number // 4}", number, 0))
        told = []
        for turn in range(3):
            mark = session.mark()
            for retry in range(1 + (turn == 1 and number % 2)):
                if retry:
                    session.rewind(mark)
                new = prompt if turn == 0 else TOKENIZER.encode(f"\nobservation {turn} {number % 2}\n")
                key = SampleKey(7, f"q{number // 4}", number, turn, retry)
                said = await session.generate(Delta(messages=(), token_ids=tuple(new)), plans[(number + turn) % 4], key)
                sure = [float(f"{value:.5g}") for value in said.logprobs]
                counted = [said.finish.value, said.prefilled_tokens, said.prompt_tokens, list(said.versions)]
                told.append([digest([list(said.token_ids), said.text, *counted]), sum(sure), sure[-1]])
            await asyncio.sleep(0)
        session.close()
        return told

    async def together(policy: Any) -> list[Any]:
        return await asyncio.gather(*(one(policy, number) for number in range(12)))

    async def apart(policy: Any) -> list[Any]:
        return [await one(policy, number) for number in range(4)]

    cases = {}
    for name, run, more in (
        ("together", together, {"prefill_tokens": 48}),
        ("few at once", together, {"max_batch": 3}),
        ("apart", apart, {}),
    ):
        policy = TransformersPolicy(Qwen3ForCausalLM.from_pretrained(base).eval(), TOKENIZER, **more)
        policy.bump_version(3)
        for number, told in enumerate(asyncio.run(run(policy))):
            cases[f"engine: {name}: {number}"] = told
    return cases


if __name__ == "__main__":
    import tokenizers
    import torch
    from goldens import digest
    from safetensors.numpy import load_file
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    from sanderling.cli.main import main
    from sanderling.core.chat import Tokenizer as FastTokenizer
    from sanderling.core.profiles import TINY
    from sanderling.core.record import Node, NodeKind, Question, ToolEvent, Trajectory
    from sanderling.core.types import Ending, Role, Sampling, ToolCall, ToolStatus
    from sanderling.policy.contract import Delta, SampleKey
    from sanderling.policy.transformers_policy import TransformersPolicy
    from sanderling.rl.config import RlConfig
    from sanderling.rl.credit import (
        Assignment,
        Discount,
        GrpoConfig,
        IgpoConfig,
        IgpoMode,
        LeaveOneOutConfig,
        PenaltyForm,
        build_estimator,
    )
    from sanderling.rl.gain import GainAnswers, GainConfig, GainForm, Probe, information_gains
    from sanderling.rl.losses import CorrectionConfig, MinirlConfig, PpoConfig, RatioTo, build_loss
    from sanderling.rl.rollouts import Actor, DenoiseConfig
    from sanderling.rl.run import run_rl
    from sanderling.rl.table import TurnTable, TurnTool
    from sanderling.runs.jsonl import write_trajectories
    from sanderling.train.config import TrainerConfig
    from sanderling.train.metrics import read_metrics
    from sanderling.train.rows import Encoding, LossInputs, sft
    from sanderling.train.scorer import ModelScorer
    from sanderling.train.team import join_team

    PROBE = Probe(prefix="That is good enough.\n</think>\n<answer>", suffix="</answer>")
    torch.set_num_threads(1)
    place = Path(sys.argv[1])
    write_base(place / "base")
    TOKENIZER = FastTokenizer(place / "base")
    (place / "cases.json").write_text(json.dumps(_everything(place)))
