"""The optimizers a trainer can use, as one: AdamW for everything, or Muon for the hidden matrices and AdamW for the rest.

Muon orthogonalises the momentum of a matrix (Jordan et al., 2024; `torch.optim.Muon`). Embedding and head are no hidden
matrices, and norms and biases no matrices at all: AdamW keeps those.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from transformers import PreTrainedModel

from sanderling.train.config import OptimizerKind, TrainerConfig
from sanderling.train.parallel.sharding import load_optimizer_state, optimizer_state


class Muon(torch.optim.Muon):
    """torch's, which multiplies in bfloat16; on a CPU in float32: most processors emulate 16 bits, at ten times the cost."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One update."""
        if any(p.device.type != "cpu" for group in self.param_groups for p in group["params"]):
            return super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group)
        return None

    def _move(self, parameter: Parameter, gradient: Tensor, group: dict[str, Any]) -> None:
        """Momentum, its nearest orthogonal matrix, and a step along it: as torch's ``_single_tensor_muon``."""
        momentum = self.state[parameter].setdefault("momentum_buffer", torch.zeros_like(gradient))
        momentum.lerp_(gradient, 1.0 - group["momentum"])
        update = gradient.lerp(momentum, group["momentum"]) if group["nesterov"] else momentum
        update = orthogonal(update.float(), group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = parameter.shape
        parameter.mul_(1.0 - group["lr"] * group["weight_decay"])
        parameter.add_(update.to(parameter.dtype), alpha=-group["lr"] * max(1.0, rows / columns) ** 0.5)


def orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Near the orthogonal factor of a matrix's polar decomposition, by Newton-Schulz iterations: singular values of 0.7 to 1.2.

    X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X, from X = matrix / its Frobenius norm (Jordan et al., 2024).
    """
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    found = matrix.T if tall else matrix
    found = found / found.norm().clamp(min=eps)
    for _ in range(steps):
        gram = found @ found.T
        found = torch.addmm(found, torch.addmm(gram, gram, gram, beta=b, alpha=c), found, beta=a)
    return found.T if tall else found


class Optimizers:
    """Torch optimizers over disjoint parameters of one model, stepped together."""

    def __init__(self, model: PreTrainedModel, config: TrainerConfig) -> None:
        hidden = _hidden_matrices(model) if config.optimizer is OptimizerKind.MUON else []
        taken = {id(parameter) for parameter in hidden}
        rest = [p for p in model.parameters() if p.requires_grad and id(p) not in taken]
        groups = [
            {"params": [p for p in rest if p.ndim >= 2], "weight_decay": config.weight_decay},
            {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0},
        ]
        self._model = model
        self._all: list[torch.optim.Optimizer] = [
            torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)
        ]
        if hidden:
            self._all.append(Muon(hidden, lr=config.muon_lr, weight_decay=config.weight_decay))
        self._full = [config.lr, config.muon_lr]

    def step(self, lr_share: float) -> None:
        """One update, with ``lr_share`` of each optimizer's full learning rate; gradients are cleared."""
        for optimizer, full in zip(self._all, self._full, strict=False):
            for group in optimizer.param_groups:
                group["lr"] = full * lr_share
            optimizer.step()
        self.zero_grad()

    def zero_grad(self) -> None:
        for optimizer in self._all:
            optimizer.zero_grad()

    def state_dict(self) -> list[dict[str, Any]]:
        """By the names of parameters, whole, on rank 0: the same however the model lies over ranks. Collective."""
        return [optimizer_state(self._model, optimizer) for optimizer in self._all]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        """Continue from :meth:`state_dict`. Collective."""
        for optimizer, state in zip(self._all, states, strict=True):
            load_optimizer_state(self._model, optimizer, state)


def _hidden_matrices(model: PreTrainedModel) -> list[Parameter]:
    """Two-dimensional weights between embedding and head."""
    ends = {id(module.weight) for module in (model.get_input_embeddings(), model.get_output_embeddings()) if module is not None}
    return [p for p in model.parameters() if p.requires_grad and p.ndim == 2 and id(p) not in ends]
