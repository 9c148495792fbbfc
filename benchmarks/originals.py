"""Our credit, KL and check of a turn's form beside the released code of AgentCPM-Explore and DR-Venus, on random cases.

    PYTHONPATH=src python benchmarks/originals.py --agentcpm AgentCPM --dr-venus DR-Venus

Both are checkouts: github.com/OpenBMB/AgentCPM (844c007) and github.com/inclusionAI/DR-Venus (6013141). Their functions run as
they are; what they import (a database, a trainer) is replaced by a few lines here. Writes results/originals.json.

- AgentRL: which groups and rollouts are filtered, and every turn's advantage. Groups of 8 with over-long, trivially short,
  malformed and repeated turns, by the settings of the recipe; then with ``place = "out"``; then with rollouts that met an
  outage, which count as zeros there and are unscored here, on purpose.
- DR-Venus' IGPO: every turn's advantage, by the settings of the recipe with ``penalty_form = "as_released"``, of batches in
  which every turn has a gain and of sparse ones, whose groups often have one gain or equal ones; then without
  ``scale_over_flat``.
- DR-Venus' KL: each token's estimate and its gradient, with and without ``kl_limit``.
- DR-Venus' format checker: random turns, by whether both fine them. The differences are those that core/grammar.py lists.
"""

import argparse
import ast
import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime
from enum import StrEnum
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch

from sanderling.core.grammar import check_turn
from sanderling.core.profiles import Profile
from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Ending, Role
from sanderling.recipes.find import find_rl_recipe
from sanderling.rl.config import RlConfig
from sanderling.rl.credit import PenaltyForm, build_estimator
from sanderling.rl.losses import PpoConfig, build_loss
from sanderling.rl.rollouts import FinishedRollout, Group, GroupStatus, Place
from sanderling.rl.step import graded, group_status
from sanderling.rl.table import TurnTable, TurnTool, build_table
from sanderling.runs.progress import command_line, machine
from sanderling.train.rows import LossInputs

CASES = 500
SAME = 1e-6
PROFILE = Profile(name="p", source="test", system_prompt="s", force_hint="now", malformed_hint="{problem}", think_prefix="")
ANSWER = "<think>so</think><answer>Oslo</answer>"
BROKEN = "<think>x</think><tool_call>{</tool_call>"
Drawn = tuple[list[str], Ending, float]
"""A rollout's turns, how it ended and its score."""


def module(name: str, **values: Any) -> None:
    """A stand-in for what the released code imports."""
    made = ModuleType(name)
    vars(made).update(values)
    sys.modules[name] = made


def released(path: Path, package: str = "released") -> ModuleType:
    """A released file as a module, run as it is."""
    made = ModuleType(f"{package}.{path.stem}")
    made.__package__ = package
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(made))
    return made


# -- AgentRL ---------------------------------------------------------------------------------------------------------------


class Stored(SimpleNamespace):
    """A document of AgentRL's database."""

    Status = StrEnum("Status", "READY ABANDONED COMPLETED TOOLFAILED FORMATERROR REPEATERROR")
    """Of tasks, records and samples alike."""

    async def save(self) -> None: ...

    async def fetch(self, _: bool) -> "Stored":
        return self


def record_class(records: Sequence[Stored]) -> type:
    """The collection of a task's records."""

    class Found:
        async def update(self, change: dict[str, Any]) -> None:
            for one in records:
                one.status = change["$set"]["status"]

        async def to_list(self) -> list[Stored]:
            return list(records)

    class Records(Stored):
        find_many = staticmethod(lambda *_, **__: Found())
        model_validate = staticmethod(lambda one: one)

    return Records


def agentrl(root: Path) -> tuple[Any, Any]:
    """Its functions that filter a task's records, and turn a record into samples with advantages."""
    quiet = SimpleNamespace(**dict.fromkeys(("info", "debug", "warning", "error"), lambda _: None))
    module("log", logger=quiet)
    module("beanie", UpdateResponse=None)
    module("beanie.operators", In=None)
    module("configs", AgentTrainingConfig=None)
    module("databases", Record=Stored, DispatchedSamplingTask=Stored, RecordData=Stored)

    async def as_they_are(messages: Any) -> Any:
        return messages

    module("training")
    module("training.datasets", is_contained_in_prefix=lambda *_: True, preprocess_mm_messages_for_sample=as_they_are)
    module("released")
    module("released.models", MCPTask=Stored)
    folder = root / "AgentCPM-Explore/AgentRL/src/rollout/mcp"
    return released(folder / "_rewarding.py").apply_mcp_rewarding_logic, released(
        folder / "convert.py"
    ).convert_record_to_data_mcp


def turn(query: str) -> str:
    """A search, as a turn."""
    return f'<think>about {query}</think><tool_call>{{"name": "search", "arguments": {{"query": "{query}"}}}}</tool_call>'


def drawn_rollout(rng: random.Random, outages: bool) -> Drawn:
    """A rollout of up to five turns."""
    kinds = [turn("a"), turn("b"), turn("c"), BROKEN]
    texts = [rng.choice(kinds) for _ in range(rng.randrange(5))]
    ending = rng.choice(
        [Ending.ANSWERED] * 3 + [Ending.TURN_LIMIT, Ending.CONTEXT_EXHAUSTED] + [Ending.POLICY_OUTAGE] * outages
    )
    if ending is Ending.ANSWERED:
        return [*texts, ANSWER], ending, rng.choice([0.0, 0.0, 1.0, 1.0, 0.3])
    return texts or [turn("a")], ending, 0.0


def agentrl_credit(functions: tuple[Any, Any], rollouts: Sequence[Drawn]) -> list[float]:
    """Every turn's advantage; all zero where nothing is trained."""
    names = {Ending.TURN_LIMIT: "turns_limit_error", Ending.CONTEXT_EXHAUSTED: "length_limit_error"}
    names |= {Ending.ANSWERED: "Oslo", Ending.POLICY_OUTAGE: "failed_error"}
    settings = SimpleNamespace(adv_scaling=2.0, drop_zero_advantage=False, minimal_advantage=None, min_turns=1)
    task = Stored(id=0, scores=[score for *_, score in rollouts], status=None)
    records = []
    for number, (texts, ending, score) in enumerate(rollouts):
        infos = {"final_answer": names[ending], "turns": len(texts)}
        samples = []
        for at, text in enumerate(texts):
            marked = text in texts[:at] or text == BROKEN
            status = Stored.Status.REPEATERROR if marked else Stored.Status.COMPLETED
            advantage = 0 if marked else None
            asked, said = {"messages": [None] * at}, {"choices": [{"message": text}]}
            samples.append(
                Stored(id=at, status=status, advantage=advantage, score=score, request=asked, response=said, created_at_step=0)
            )
        records.append(Stored(id=number, task=task, score=score, status=Stored.Status.READY, meta_infos=infos, traj=samples))

    async def run() -> list[float]:
        reward, convert = functions
        await reward(task, record_class(records), Stored, settings)
        found: list[float] = []
        for record in records:
            own = dict.fromkeys(range(len(record.traj)), 0.0)
            async for data in convert(record, settings):
                own |= data.advantages
            found += own.values()
        return found

    return asyncio.run(run())


def our_credit(rollouts: Sequence[Drawn], config: RlConfig) -> list[float]:
    """The same by us."""
    question = Question(id="q", text="?", answers=("Oslo",))
    finished = []
    for texts, ending, score in rollouts:
        nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text="?", token_ids=(1,))]
        nodes += [
            Node(parent=at, role=Role.ASSISTANT, kind=NodeKind.TURN, text=text, token_ids=(2,)) for at, text in enumerate(texts)
        ]
        trajectory = Trajectory(id="t", question=question, nodes=tuple(nodes), leaf=len(texts), ending=ending)
        finished.append(FinishedRollout(trajectory, score if ending.scored else None))
    group = Group(0, question, tuple(finished))
    if group_status(group, 0, config) is not GroupStatus.USED:
        return [0.0] * sum(len(texts) for texts, *_ in rollouts)
    return build_estimator(config.estimator)(build_table(list(graded(group, 0, config, PROFILE)))).tolist()


def check_agentrl(root: Path) -> dict[str, Any]:
    """Random groups by the recipe's settings, and with one thing otherwise."""
    functions, recipe = agentrl(root), find_rl_recipe("agentcpm-explore-4b").rl
    out = recipe.model_copy(update={"denoise": recipe.denoise.model_copy(update={"place": Place.OUT})})
    cases = {"recipe": (recipe, False), "place = out": (out, False), "with outages": (recipe, True)}
    found = {}
    for name, (config, outages) in cases.items():
        rng = random.Random(26)
        drawn = [[drawn_rollout(rng, outages) for _ in range(8)] for _ in range(CASES)]
        pairs = [(agentrl_credit(functions, group), our_credit(group, config)) for group in drawn]
        found[name] = {
            "groups": CASES,
            "groups that are trained": sum(any(theirs) for theirs, _ in pairs),
            "groups whose advantages differ": sum(not np.allclose(theirs, ours, atol=SAME) for theirs, ours in pairs),
            "largest gap": max(float(np.abs(np.subtract(theirs, ours)).max()) for theirs, ours in pairs),
        }
    return found


# -- DR-Venus --------------------------------------------------------------------------------------------------------------


def igpo_function(root: Path) -> Any:
    """Its estimator of turn-level advantages."""
    module("verl")
    module("verl.trainer")
    module("verl.trainer.config", AlgoConfig=Any)
    module("verl.trainer.ppo")
    module("verl.trainer.ppo.core_algos", register_adv_est=lambda _: lambda function: function)
    return released(root / "RL/verl/trainer/ppo/info_gain_advantage.py").compute_grpo_info_gain_advantage


def drawn_batch(rng: random.Random, sparse: bool) -> TurnTable:
    """A step of 4 groups of 8 rollouts of 1 to 9 turns; sparse: at most one turn of few rollouts has a gain."""
    columns: dict[str, list[Any]] = {name: [] for name in TurnTable.__dataclass_fields__}
    for trajectory in range(32):
        size, outcome, lucky = rng.randrange(1, 10), float(rng.random() < 0.4), rng.random() < 0.15
        place = rng.randrange(size)
        for number in range(size):
            scored = number < size - 1 and ((lucky and number == place) if sparse else rng.random() < 0.5)
            penalty = -1.0 if not sparse and rng.random() < 0.1 else 0.0
            values = {"trajectory": trajectory, "group": trajectory // 8, "turn": number, "state": len(columns["state"])}
            values |= {"tokens": 1, "outcome": outcome}
            values |= {"tool": TurnTool.VISIT, "scored": True, "gain": rng.gauss(0.1, 0.5), "gain_scored": scored}
            values |= {"penalty": penalty, "trained": True, "capped": False}
            for name, value in values.items():
                columns[name].append(value)
    return TurnTable(**{name: np.array(values) for name, values in columns.items()})


def igpo_credit(function: Any, table: TurnTable) -> np.ndarray:
    """One token a turn: its gain, or the penalty in its place; the last has the outcome."""
    begins = np.flatnonzero(np.diff(table.trajectory, prepend=-1))
    places = np.arange(len(table)) - np.repeat(begins, np.diff(np.append(begins, len(table))))
    rewards, mask = torch.zeros(2, len(begins), int(places.max()) + 1, dtype=torch.float64)
    gains = np.where(table.gain_scored, table.gain, 0.0)
    last = np.append(np.diff(table.trajectory), 1) > 0
    rewards[table.trajectory, places] = torch.tensor(
        np.where(table.penalty < 0, table.penalty, np.where(last, table.outcome, gains))
    )
    mask[table.trajectory, places] = 1
    config = SimpleNamespace(gamma=0.95, info_gain_norm_mode="scaled_separate")
    with redirect_stdout(StringIO()):  # it says so where a batch has no gain
        found, *_ = function(rewards, mask, table.group[begins], config=config)
    return found[table.trajectory, places].numpy()


def check_igpo(root: Path) -> dict[str, Any]:
    """Random steps, with and without groups of equal gains in the scale."""
    function, recipe = igpo_function(root), find_rl_recipe("dr-venus-4b").rl.estimator
    config = recipe.model_copy(update={"penalty_form": PenaltyForm.AS_RELEASED})
    found = {}
    for kind in ("dense", "sparse"):
        for over in (True, False):
            rng = random.Random(26)
            estimate = build_estimator(config.model_copy(update={"scale_over_flat": over}))
            tables = [drawn_batch(rng, kind == "sparse") for _ in range(CASES)]
            gaps = [float(np.abs(igpo_credit(function, table) - estimate(table)).max()) for table in tables]
            found[f"{kind}, scale_over_flat = {str(over).lower()}"] = {
                "batches": CASES,
                "batches that differ by more than 1e-4": sum(gap > 1e-4 for gap in gaps),
                "largest gap, median over batches": float(np.median(gaps)),
                "largest gap": max(gaps),
            }
    return found


def check_kl(root: Path) -> dict[str, Any]:
    """Every log-ratio from -30 to 30."""
    path = root / "RL/verl/trainer/ppo/core_algos.py"
    wanted = [one for one in ast.parse(path.read_text()).body if getattr(one, "name", "") == "kl_penalty_forward"]
    space: dict[str, Any] = {"torch": torch}
    exec(compile(ast.Module(wanted, []), str(path), "exec"), space)
    gaps = torch.linspace(-30, 30, 2_401)
    reference = torch.full_like(gaps, -40.0)

    none = torch.zeros_like(gaps)
    logprobs = (reference + gaps).requires_grad_()
    values = space["kl_penalty_forward"](logprobs, reference, "low_var_kl")
    (slopes,) = torch.autograd.grad(values.sum(), logprobs)
    found = {}
    for limit in (10.0, None):
        loss = build_loss(PpoConfig(kl_coef=1.0, kl_limit=limit))
        value, metrics = loss(LossInputs(logprobs, none + 1, advantages=none, sampler=reference, reference=reference))
        (own,) = torch.autograd.grad(value, logprobs)
        off = ((metrics["kl_reference"] - values).abs() > SAME) | ((own - slopes).abs() > SAME)
        found[f"kl_limit = {limit}"] = {"log-ratios, -30 to 30": len(gaps), "values or gradients that differ": int(off.sum())}
    return found


# -- the form of a turn ----------------------------------------------------------------------------------------------------

BODIES = [
    '{"name": "search", "arguments": {"query": ["a"]}}', "{'name': 'a', 'arguments': {x: ['b',]}}",
    '{"name": null, "arguments": {}}', '{"name": 3, "arguments": {"x": NaN}}', '{"arguments": {}}', '{"name": "a"}',
    '{"name": "a", "arguments": "{}"}', "[]", "null", "{", "", '{"name": "a", "arguments": {}} // c',
    '{"name": "PythonInterpreter", "arguments": {}}\n<code>print(1)</code>', '{"name": "a", "arguments": {}}<code>1</code>',
    '{"name": "a", "arguments": {"x": "a\nb"}}', '{"name": "a", "arguments": {"t": "<answer>"}}',
    '{"name": "a", "arguments": {"x": 0x1F, "y": +1, "z": .5}}',
]  # fmt: skip
TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<answer>", "</answer>", "<tool_response>"]


def drawn_turn(rng: random.Random) -> str:
    """A well-formed turn with up to three faults."""
    parts = ["<think>", rng.choice(["why"] * 6 + ["", " "]), "</think>", rng.choice(["", "\n"])]
    if rng.random() < 0.7:
        parts += ["<tool_call>", rng.choice(BODIES), "</tool_call>"]
    else:
        parts += ["<answer>", rng.choice(["x"] * 4 + ["", " "]), "</answer>"]
    for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
        at = rng.randrange(len(parts))
        parts[at : at + 1] = rng.choice([["y"], [rng.choice(TAGS), parts[at]], [parts[at], parts[at]], [parts[at], "y"]])
    return "".join(parts)


def listed(text: str) -> str:
    """Which line of the grammar's list a difference is on; empty: none."""
    first, _, rest = text.partition("</think>")
    if "<tool_response>" in text:
        return "<tool_response>"
    if any(tag in first for tag in TAGS[2:6]):
        return "an action's tag within the reasoning"
    if "<think>" in rest or not first.removeprefix("<think>").strip():
        return "reasoning that is empty, or comes twice"
    return ""


def check_form(root: Path) -> dict[str, Any]:
    """Either of their two checks may pass a turn: which it is depends on its place, which has a line of its own in the list."""
    theirs, rng = released(root / "RL/verl/utils/reward_score/format_checker.py"), random.Random(26)
    agree, differ = Counter[str](), Counter[str]()
    for _ in range(20_000):
        text = drawn_turn(rng)
        passes = theirs.check_turn_format(text, False) or theirs.check_turn_format(text, True)
        if passes is not bool(check_turn(text, think_open=False)):
            agree["passed by both" if passes else "fined by both"] += 1
        else:
            differ[listed(text) or f"not listed: {text!r}"] += 1
    return {**agree, "differ": dict(differ.most_common())}


def main() -> None:
    """Compare all, and write it down."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--agentcpm", type=Path, required=True)
    parser.add_argument("--dr-venus", type=Path, required=True)
    given = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    found = {
        "AgentRL's advantages": check_agentrl(given.agentcpm),
        "DR-Venus' advantages": check_igpo(given.dr_venus),
        "DR-Venus' KL": check_kl(given.dr_venus),
        "DR-Venus' format checker": check_form(given.dr_venus),
    }
    origin = {"command": command_line(), "machine": machine(), "date": datetime.now(UTC).date().isoformat()}
    text = json.dumps(origin | found, indent=1, ensure_ascii=False)
    (Path(__file__).parent / "results" / "originals.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
