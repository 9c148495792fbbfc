import copy

import pytest
import torch
from tiny_qwen3 import random_rows, tiny_model

from sanderling.core.errors import UserError
from sanderling.train.config import OptimizerKind, Schedule, TrainerConfig
from sanderling.train.loss import sft
from sanderling.train.optimizers import Muon, Optimizers
from sanderling.train.trainer import Trainer


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


def test_the_state_of_another_optimizer_is_refused():
    with pytest.raises(UserError, match="another optimizer"):
        Optimizers(tiny_model(), config(OptimizerKind.MUON)).load_state_dict(
            Optimizers(tiny_model(), config(OptimizerKind.ADAMW)).state_dict()
        )


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
        parameter = torch.nn.Parameter(begun.clone())
        optimizer = kind([parameter], lr=0.1, weight_decay=0.2)
        for gradient in gradients:
            parameter.grad = gradient.clone()
            optimizer.step()
        ended.append((parameter.detach() - begun, optimizer.state[parameter]["momentum_buffer"]))
    (ours, own), (theirs, torchs) = ended
    torch.testing.assert_close(own, torchs)
    assert (ours - theirs).norm() < 0.03 * theirs.norm(), "bfloat16 has 8 bits"


def test_both_learning_rates_follow_the_schedule():
    model = tiny_model()
    before = [p.detach().clone() for p in model.parameters()]
    Optimizers(model, config(OptimizerKind.MUON)).step(0.0)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
