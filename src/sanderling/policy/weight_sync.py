"""How updated weights reach a sampler: in place, into a copy beside the trainer, or through files to a vLLM server.

Each way is a `contract.WeightSync`. Turns under way live on.
"""

import asyncio
import copy
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import torch
from safetensors.torch import save_file

from sanderling.core.errors import UserError
from sanderling.policy.model_directory import TOKENIZER_FILES
from sanderling.policy.transformers_policy import TransformersPolicy
from sanderling.runs.files import or_cannot, sync

if TYPE_CHECKING:
    from sanderling.policy.endpoint import CompletionEndpointPolicy, HttpClient

_VERSIONS = "weights-" + 8 * "[0-9]"
_PAUSES_S = (0.0, 0.1, 0.5, 2.0)  # before each time that cached keys and values are asked to go


class InPlace:
    """The policy samples with the very module that is trained, in turns with the trainer: nothing is copied."""

    def __init__(self, policy: TransformersPolicy) -> None:
        self._policy = policy

    @property
    def version(self) -> int:
        return self._policy.version

    def training(self) -> AbstractAsyncContextManager[None]:
        return self._policy.paused()

    async def publish(self, weights: Mapping[str, Any] | None, version: int) -> None:
        self._policy.bump_version(version)


class Copying(InPlace):
    """Copies into the policy's own module beside the one that is trained: it samples on while an update is computed."""

    def training(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def publish(self, weights: Mapping[str, Any] | None, version: int) -> None:
        """Without an await: a step of the engine has either all of the old weights or all of the new ones."""
        if weights is not None:
            copy_into(self._policy.model, weights)
        self._policy.bump_version(version)


def copied(model: Any) -> Any:
    """A module of its own with the same weights, to sample with: without gradients, in evaluation mode."""
    other = copy.deepcopy(model).requires_grad_(False).eval()
    for module in other.modules():
        # A trainer that saves memory gives its layers another ``forward``, a function that copying leaves theirs.
        vars(module).pop("forward", None)
    return other


def copy_into(module: torch.nn.Module, weights: Mapping[str, Any]) -> None:
    """Copy ``weights`` into the module's own tensors, in their dtype and on their device; of tied ones, one name is enough."""
    named = module.state_dict(keep_vars=True)  # live tensors, a tied one under each of its names
    with torch.no_grad():
        for name, tensor in weights.items():
            named[name].copy_(tensor)


class WeightFiles:
    """Versions on a disk that trainer and samplers share: a directory for each, there whole or not at all."""

    def __init__(self, directory: Path, like: Path | None = None) -> None:
        """``like``: a model directory whose configuration and tokenizer stand beside the weights."""
        self._directory, self._like = directory, like

    def write(self, weights: Mapping[str, Any], version: int) -> Path:
        """Store a version and return its directory; later ones go, as of a past that was undone. Raises UserError."""
        path = self._directory / f"weights-{version:08}"
        partial = path.with_name(path.name + ".partial")
        with or_cannot(f"store weights in {self._directory}", "choose another place"):
            self._directory.mkdir(parents=True, exist_ok=True)
            for left in self._directory.glob("weights-*.partial"):  # half written by a process that was killed
                shutil.rmtree(left)
            for later in self._directory.glob(_VERSIONS):
                if later.name >= path.name:  # renamed at once: nobody shall find half of it
                    shutil.rmtree(later.rename(later.with_name(later.name + ".partial")))
            partial.mkdir()
            for name in ("config.json", "generation_config.json", *TOKENIZER_FILES):
                if self._like is not None and (self._like / name).is_file():
                    shutil.copyfile(self._like / name, partial / name)
            file = partial / "model.safetensors"
            save_file(_untied(weights), file, metadata={"format": "pt"})
            file.chmod(0o644)  # safetensors lets nobody but the owner read
            sync(file)
            partial.rename(path)
            sync(self._directory)
        for old in sorted(self._directory.glob(_VERSIONS))[:-2]:  # whoever is still reading the one before can finish
            shutil.rmtree(old, ignore_errors=True)
        return path


class VllmServer:
    """A vLLM server (run against 0.32, on a CPU) takes over weights from files, by the endpoints of its development mode.

    For an update new turns are kept back, the server freezes those under way, reloads, forgets all keys and values (it would
    hand them, as a cached prefix, to turns begun after the update), and goes on. With ``sleeps`` (never run: not on a CPU)
    server and trainer have one GPU in turns.
    """

    def __init__(
        self, root: "HttpClient", policy: "CompletionEndpointPolicy", files: WeightFiles, *, sleeps: bool = False
    ) -> None:
        """``root`` is the server's address without ``/v1``."""
        self._root, self._policy, self._files, self._sleeps = root, policy, files, sleeps

    @property
    def version(self) -> int:
        return self._policy.version

    @asynccontextmanager
    async def training(self) -> AsyncIterator[None]:
        """Nothing, or with ``sleeps``: the server sleeps inside, once the turns under way have ended."""
        if not self._sleeps:
            yield
            return
        async with self._policy.gate.closed(empty=True):
            await self._ask("sleep", level=1)
            try:
                yield
            finally:
                await self._ask("wake_up")

    async def publish(self, weights: Mapping[str, Any] | None, version: int) -> None:
        """When the server fails midway it stays paused: nobody samples with half of an update, and the next one resumes it."""
        if weights is not None:
            path = await asyncio.to_thread(self._files.write, weights, version)
            async with self._policy.gate.closed(empty=False):
                await self._ask("pause", mode="keep")
                try:
                    await self._ask("collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(path)}})
                except UserError:  # refused: it still has what it had
                    await self._ask("resume")
                    raise
                for pause_s in _PAUSES_S:
                    await asyncio.sleep(pause_s)
                    # It says ``success: false`` where something still holds keys; older versions say nothing.
                    if (await self._ask("reset_prefix_cache", reset_running_requests="true")).get("success", True):
                        break
                else:
                    raise UserError(
                        f"{self._root.base_url} has the new weights and keeps cached keys and values of those before (its log "
                        "says why): see that nobody else uses it, or start it with --no-enable-prefix-caching."
                    )
                await self._ask("resume")
                self._policy.version = version
        self._policy.version = version

    async def _ask(self, path: str, body: Mapping[str, Any] | None = None, **query: object) -> dict[str, Any]:
        try:
            return await self._root.json(f"{path}?{urlencode(query)}" if query else path, dict(body or {}), answered=False)
        except UserError as error:
            flag = " --enable-sleep-mode" if path in ("sleep", "wake_up") else ""
            raise UserError(
                f"The vLLM server did not take the weights at /{path} ({error}): start it with VLLM_SERVER_DEV_MODE=1{flag}, "
                "where it can read the files."
            ) from error


def _untied(weights: Mapping[str, Any]) -> dict[str, torch.Tensor]:
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
