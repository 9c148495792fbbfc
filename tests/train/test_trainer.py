"""One optimizer step: exact however it is cut, by every optimizer, with every weighting."""

import copy
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from tiny_qwen3 import random_rows, tiny_model
from transformers import MistralConfig, MistralForCausalLM, get_constant_schedule_with_warmup, get_cosine_schedule_with_warmup

from sanderling.core.errors import UserError
from sanderling.runs.progress import Report
from sanderling.train.config import Aggregation, OptimizerKind, ParallelConfig, ParallelKind, Schedule, TrainerConfig
from sanderling.train.launch import Job, Launch
from sanderling.train.metrics import WATCHERS, check_watchers
from sanderling.train.packing import collate, head_logprobs
from sanderling.train.rows import Row, sft
from sanderling.train.trainer import Muon, Trainer, lr_at, row_weights


def test_a_model_with_a_sliding_window_is_one_sentence():
    sizes = {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}
    model = MistralForCausalLM(MistralConfig(**sizes, num_key_value_heads=2, sliding_window=8))
    with pytest.raises(UserError, match="sliding window"):
        Trainer(model, TrainerConfig()).step(random_rows(2), sft)


def test_many_chunks_of_the_head_lose_nothing_in_bfloat16():
    """A gradient summed in bfloat16 over 500 chunks is off by a tenth."""
    torch.manual_seed(0)
    hidden, target = torch.randn(4000, 16) + 0.3, torch.randint(0, 61, (4000,))

    def gradient(chunk: int, bfloat16: bool, autocast: bool) -> torch.Tensor:
        torch.manual_seed(1)
        head = torch.nn.Linear(16, 61, bias=False)
        weight = head.weight.to(torch.bfloat16) if bfloat16 and not autocast else head.weight
        model = SimpleNamespace(get_output_embeddings=lambda: head)
        head.weight = torch.nn.Parameter(weight.detach())
        given_hidden = hidden.to(head.weight.dtype)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            scores = head_logprobs(model, given_hidden, target, temperature=1.0, entropy=False, logit_chunk=chunk)  # pyright: ignore[reportArgumentType]
        (-scores.logprobs.mean()).backward()
        assert head.weight.grad is not None
        return head.weight.grad.double()

    exact = gradient(10**9, bfloat16=False, autocast=False)
    for autocast in (True, False):
        off = gradient(8 * 61, bfloat16=True, autocast=autocast) - exact
        assert float(off.norm() / exact.norm()) < 0.01


@pytest.mark.parametrize("aggregation", [Aggregation.TOKEN_MEAN, Aggregation.TRAJECTORY_MEAN])
def test_the_cut_into_micro_batches_changes_nothing(aggregation: Aggregation):
    rows = random_rows(6)
    states = []
    for budget in (1, 60, 10_000):
        model = tiny_model()
        config = TrainerConfig(lr=0.01, micro_batch_tokens=budget, aggregation=aggregation, eps=1e-3)
        metrics = Trainer(model, config).step(rows, sft)
        states.append((metrics, torch.cat([p.detach().flatten() for p in model.parameters()])))
    for metrics, weights in states[1:]:
        assert metrics["loss"] == pytest.approx(states[0][0]["loss"], rel=1e-5)
        torch.testing.assert_close(weights, states[0][1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_a_step_that_is_not_finite_names_its_rows_and_changes_nothing(what: str):
    rows, model = random_rows(3), tiny_model()

    def broken(tokens):
        """Also where only the slope is: of a root at zero."""
        return (tokens.logprobs * (float("nan") if what == "loss" else 0.0)).sum().sqrt(), {}

    before = [p.detach().clone() for p in model.parameters()]
    trainer = Trainer(model, TrainerConfig())
    with pytest.raises(UserError, match=f"{what}.*t0"):
        trainer.step(rows, broken)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())
    assert trainer.steps == 0


def test_learning_rate_warms_up_and_decays():
    cosine = TrainerConfig(lr=1.0, warmup_steps=4, total_steps=14, schedule=Schedule.COSINE, final_lr_share=0.2)
    assert [lr_at(s, cosine) for s in (0, 3, 4, 9, 14, 99)] == pytest.approx([0.25, 1.0, 1.0, 0.6, 0.2, 0.2])
    assert [lr_at(s, TrainerConfig(lr=1.0, warmup_steps=2)) for s in (0, 1, 9)] == [0.5, 1.0, 1.0]
    with pytest.raises(UserError, match="total_steps"):
        lr_at(9, cosine.model_copy(update={"total_steps": None}))


def test_a_warm_up_from_zero_is_hugging_faces():
    """A recipe's schedule, step by step, against transformers' own."""
    for schedule, of in ((Schedule.COSINE, get_cosine_schedule_with_warmup), (Schedule.CONSTANT, constant_schedule)):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2e-5)
        theirs = of(optimizer, 9, 85)
        config = TrainerConfig(lr=2e-5, warmup_share=0.1, total_steps=85, schedule=schedule, warmup_from_zero=True)
        for step in range(85):
            assert lr_at(step, config) == pytest.approx(theirs.get_last_lr()[0], abs=1e-18)
            optimizer.step()
            theirs.step()


def constant_schedule(optimizer: torch.optim.Optimizer, warmup: int, _: int) -> Any:
    return get_constant_schedule_with_warmup(optimizer, warmup)


def row(trained: int, name: str = "") -> Row:
    return Row(ids=np.zeros(trained + 1, dtype=np.int64), loss_mask=np.arange(trained + 1) > 0, trajectory=name)


def test_tokens_trajectories_and_micro_batches_weigh_the_same() -> None:
    rows = [row(1, "a"), row(4, "b"), row(5, "b"), row(0, "c")]
    assert row_weights(rows, Aggregation.TOKEN_MEAN) == pytest.approx([0.1, 0.1, 0.1, 0.0])
    assert row_weights(rows, Aggregation.TRAJECTORY_MEAN) == pytest.approx([0.5, 0.5 / 9, 0.5 / 9, 0.0])
    found = row_weights([row(1), row(3), row(6), row(0)], Aggregation.MICRO_BATCH_MEAN, [[0, 1], [2], [3]])
    assert found == pytest.approx([1 / 8, 1 / 8, 1 / 12, 0.0])
    with pytest.raises(UserError, match="no token to train"):
        Trainer(tiny_model(), TrainerConfig()).step([row(0)], sft)
    with pytest.raises(ValueError, match="nothing precedes"):
        collate([Row(ids=np.arange(3), loss_mask=np.ones(3, dtype=bool))])


def config(kind: OptimizerKind, **more: object) -> TrainerConfig:
    return TrainerConfig(optimizer=kind, lr=0.01, muon_lr=0.02, **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", list(OptimizerKind))
def test_a_resumed_trainer_goes_on_bit_for_bit(kind: OptimizerKind):
    rows = random_rows(6)
    settings = config(kind, warmup_steps=2, total_steps=6, schedule=Schedule.COSINE)
    whole = Trainer(tiny_model(), settings)
    for step in range(3):
        whole.step(rows[step : step + 3], sft)
    second = tiny_model(seed=9)
    second.load_state_dict(copy.deepcopy(whole.model.state_dict()))
    resumed = Trainer(second, settings)
    resumed.load_state(copy.deepcopy(whole.state()))
    for trainer in (whole, resumed):
        trainer.step(rows[3:], sft)
    assert all(torch.equal(a, b) for a, b in zip(whole.model.parameters(), second.parameters(), strict=True))


def test_muon_takes_the_hidden_matrices_only_and_makes_their_updates_orthogonal():
    model = tiny_model()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    trainer = Trainer(model, config(OptimizerKind.MUON, weight_decay=0.0))
    trainer.step(random_rows(6), sft)
    for name, parameter in model.named_parameters():
        moved = parameter.detach() - before[name]
        if parameter.ndim == 2 and "embed" not in name:
            singular = torch.linalg.svdvals(moved)
            # Five Newton-Schulz iterations leave them between 0.7 and 1.2 of the step's size, wherever the gradient has rank.
            assert singular[0] < 1.4 * 0.02 * max(1, moved.shape[0] / moved.shape[1]) ** 0.5
            assert singular[len(singular) // 2] > 0.4 * singular[0]
        else:  # AdamW's first step is its learning rate, wherever there is a gradient
            assert moved.abs().max() == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("shape", [(6, 6), (40, 8), (8, 40)])
def test_muon_is_torch_s_but_for_the_coarseness_of_16_bits(shape: tuple[int, int]):
    torch.manual_seed(3)
    begun, gradients = torch.randn(shape), [torch.randn(shape) for _ in range(4)]
    ended = []
    for kind in (Muon, torch.optim.Muon):
        parameter, idle = (torch.nn.Parameter(begun.clone()) for _ in range(2))
        optimizer = kind([parameter, idle], lr=0.1, weight_decay=0.2)
        for gradient in gradients:
            parameter.grad = gradient.clone()
            optimizer.step()
        assert torch.equal(idle, begun), "it has no gradient"
        ended.append((parameter.detach() - begun, optimizer.state[parameter]["momentum_buffer"]))
    (ours, own), (theirs, torchs) = ended
    torch.testing.assert_close(own, torchs)
    assert (ours - theirs).norm() < 0.03 * theirs.norm(), "bfloat16 has 8 bits"


# -- Views of a run, through the libraries themselves where they are installed ---------------------------------------------


def test_unknown_and_missing_views_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(UserError, match="tensorboard, trackio, wandb"):
        check_watchers(["paper"])
    monkeypatch.setattr("sanderling.train.metrics.find_spec", lambda name: None)
    for name in WATCHERS:
        with pytest.raises(UserError, match=f"pip install {name}"):
            check_watchers([name])


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_a_run_that_goes_on_is_the_same_one_to_who_watches_and_a_fresh_one_is_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Over a double of the library, with the calls that are made of it."""
    begun: list[str] = []
    logged: list[tuple[int, dict[str, float]]] = []
    double: Any = ModuleType(name)
    double.__spec__ = ModuleSpec(name, None)

    def init(*project: str, **how: Any) -> SimpleNamespace:
        begun.append(how["name"])
        return SimpleNamespace(log=lambda values, step: logged.append((step, values)), finish=lambda: None)

    double.init = init
    monkeypatch.setitem(sys.modules, name, double)
    check_watchers([name])

    def run(step: int) -> bool:
        job = Job(step, "run", 3, done=step - 1, watch=(name,))
        launch = Launch(tmp_path, ParallelConfig(kind=ParallelKind.NONE), bfloat16=False)
        return launch.run(lambda _: job, report_step, str, Report(Console(quiet=True)))

    assert run(1) and run(2)
    (tmp_path / "watched_as.txt").unlink()  # as --fresh leaves nothing
    run(3)
    assert begun[0] == begun[1] != begun[2] and logged == [(step, {"loss": 0.5}) for step in (1, 2, 3)]


def report_step(team: object, device: object, step: int, watch: Any) -> None:
    watch(step, {"loss": 0.5})


def test_tensorboard_has_every_step_once_after_a_resume(tmp_path: Path):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed"
    )
    for first, last in ((1, 5), (4, 6)):  # killed after step 5, whose checkpoint was step 3
        watcher = WATCHERS["tensorboard"](tmp_path, {}, first - 1)
        for step in range(first, last + 1):
            watcher.log(step, {"loss": step + first / 10})
        watcher.close()
    written = reader.EventAccumulator(str(tmp_path / "tensorboard"))
    written.Reload()
    seen = [(event.step, round(event.value, 1)) for event in written.Scalars("loss")]
    assert seen == [(1, 1.1), (2, 2.1), (3, 3.1), (4, 4.4), (5, 5.4), (6, 6.4)]
