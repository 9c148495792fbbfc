"""A server on loopback that behaves as vLLM in its development mode, and samples with a real model from what it was handed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from loopback import Quiet, listening
from transformers import AutoModelForCausalLM

KEEPS = {"paths": {"/pause": {"post": {"parameters": [{"name": "mode"}, {"name": "clear_cache"}]}}}}


class Double:
    """The served model, and what was asked."""

    def __init__(self, model_dir: Path, end: int) -> None:
        self.paths: list[str] = []
        self.asleep = False
        self.spoke_asleep = False
        self.cuts: set[float] = set()
        """Each top_p that it was asked for."""
        self.room = 1 << 20
        """Longest context that it says it takes; it takes any."""
        self._end = end
        self._lock = threading.Lock()
        self._load(model_dir)

    def _load(self, model_dir: Path) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()

    def reply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            name = path.partition("?")[0]
            self.paths.append(name)
            if name == "/openapi.json":
                return KEEPS
            if name == "/v1/models":
                return {"data": [{"id": "m", "max_model_len": self.room}]}
            if name in ("/sleep", "/wake_up"):
                self.asleep = name == "/sleep"
            if name == "/collective_rpc":
                self._load(Path(body["kwargs"]["weights_path"]))
            return self._speak(body) if name == "/v1/completions" else {}

    @torch.no_grad()
    def _speak(self, body: dict[str, Any]) -> dict[str, Any]:
        """Plain sampling and top-p, with the log-probabilities of what was sampled from."""
        self.spoke_asleep |= self.asleep
        self.cuts.add(body["top_p"])
        ids, said, logprobs = list(body["prompt"]), [], []
        generator = torch.Generator().manual_seed(body["seed"])
        while len(said) < body["max_tokens"] and (not said or said[-1] != self._end):
            logits = self._model(torch.tensor([ids + said])).logits[0, -1].float() / body["temperature"]
            found = torch.log_softmax(logits, -1)
            if body["top_p"] < 1:
                values, order = found.exp().sort(descending=True)
                found[order[values.cumsum(-1) - values >= body["top_p"]]] = -torch.inf
                found = torch.log_softmax(found, -1)
            said.append(int(torch.multinomial(found.exp(), 1, generator=generator)))
            logprobs.append(float(found[said[-1]]))
        ended = said[-1] == self._end
        choice = {
            "text": "", "token_ids": said, "logprobs": {"token_logprobs": logprobs},
            "finish_reason": "stop" if ended else "length", "stop_reason": None,
        }  # fmt: skip
        return {"choices": [choice], "usage": {"prompt_tokens": len(ids), "completion_tokens": len(said)}}


@contextmanager
def served(model_dir: Path, end: int) -> Iterator[tuple[str, Double]]:
    """The server's address up to ``/v1``, and the double."""
    double = Double(model_dir, end)

    class Handler(Quiet):
        def do_POST(self) -> None:
            self.say(double.reply(self.path, self.body()))

        def do_GET(self) -> None:
            self.say(double.reply(self.path, {}))

    with listening(Handler) as url:
        yield f"{url}/v1", double
