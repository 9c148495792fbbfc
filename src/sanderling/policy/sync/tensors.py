"""Weights by name, put into a module in place. Knows no policy and no version."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from sanderling.core.errors import UserError


def put(module: torch.nn.Module, weights: Mapping[str, Any]) -> None:
    """Copy ``weights`` into the module's own tensors, in their dtype and on their device.

    Names are those of its ``state_dict``; of tensors that the module ties, one name is enough. Everything is checked before
    anything is changed. Raises UserError for a name that is unknown, missing or given twice with different values, and for
    another shape.
    """
    named = named_tensors(module)
    by_tensor: dict[int, list[str]] = {}
    for name, tensor in named.items():
        by_tensor.setdefault(id(tensor), []).append(name)
    strangers = sorted(weights.keys() - named.keys())
    if strangers:
        raise _unfit(f"it has no {_some(strangers)}")
    lacking = [names[0] for names in by_tensor.values() if not weights.keys() & set(names)]
    lacking = [name for name in lacking if isinstance(named[name], torch.nn.Parameter)]
    if lacking:
        raise _unfit(f"{_some(lacking)} was not handed over")
    chosen: dict[str, torch.Tensor] = {}
    for names in by_tensor.values():
        given = [name for name in names if name in weights]
        for name in given:
            if weights[name].shape != named[name].shape:
                raise _unfit(f"{name} is of shape {tuple(weights[name].shape)} and not {tuple(named[name].shape)}")
            if not _same(weights[name], weights[given[0]]):
                raise _unfit(f"it ties {given[0]} and {name}, which differ")
        if given:
            chosen[given[0]] = weights[given[0]]
    with torch.no_grad():
        for name, tensor in chosen.items():
            named[name].copy_(tensor)


def named_tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and stored buffers by name: the live tensors, a tied one under each of its names."""
    return dict(module.state_dict(keep_vars=True))


def untied(weights: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The weights on the CPU as files take them: contiguous, none sharing memory, a tied one under its first name alone."""
    kept: dict[str, torch.Tensor] = {}
    seen: set[tuple[object, ...]] = set()
    for name, tensor in weights.items():
        live = tensor.detach()
        place = (live.device, live.data_ptr(), live.shape, live.stride(), live.dtype)
        if live.numel() and place in seen:
            continue
        seen.add(place)
        held = live.cpu().contiguous()
        kept[name] = held.clone() if held.untyped_storage().nbytes() != held.nbytes else held
    return kept


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one is other or one.data_ptr() == other.data_ptr() or torch.equal(one, other)


def _unfit(why: str) -> UserError:
    return UserError(f"These weights do not fit the model that samples ({why}): sample with the model that is trained.")


def _some(names: Iterable[str]) -> str:
    first, *others = names
    return f"{first} and {len(others)} more" if others else first
