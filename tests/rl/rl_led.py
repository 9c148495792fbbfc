"""A served model that is led: it says what a plan has it say, with the log-probabilities that its weights give to that.

A model of random weights never writes a call or an answer, so of a recipe's settings only those of format would ever be met.
Led, each of a group's rollouts goes its own way (right, wrong, malformed, over-long, asked to stop), in the recipe's own
profile over a real small world, and everything behind the server's HTTP is real: what it is led to say counts as sampled.
"""

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import vllm_double
from safetensors.torch import load_file, save_file
from torch import Tensor
from vllm_double import Double

from sanderling.core.chat import load_tokenizer
from sanderling.core.profiles import PROFILES, Profile
from sanderling.core.record import Question
from sanderling.data.questions import write_questions
from sanderling.policy.contract import SampleKey
from sanderling.policy.endpoint import seed_of
from sanderling.synth.chains import chain_questions
from sanderling.train.random_model import ModelShape, train_tokenizer, write_random_model
from sanderling.world.disk.building import build_world
from sanderling.world.encyclopedia import Names, generate_encyclopedia

SHAPE = ModelShape(hidden=32, layers=2, heads=4, kv_heads=2, head_dim=8, intermediate=48, max_positions=8192)
_SHARPER = 20.0
"""Random embeddings of the usual size make every token equally likely: neither temperature nor precision would show."""
_TURN = "<|im_start|>assistant"
_WAY = re.compile(r"I go way (\d+)\.")
_ADDRESS = re.compile(r"https?://[^\s\"<>)\]\\,]+")
_NOISE_TOKENS = 12
_MOST_ATTEMPTS = 512


@dataclass(frozen=True)
class Way:
    """What one rollout does, turn by turn; the last move is made again and again."""

    moves: tuple[str, ...]
    told: Callable[[Tensor], Tensor] = lambda logprobs: logprobs
    """What the server says of its log-probabilities: one whose arithmetic is not the trainer's may say something else."""


class Led(Double):
    """A double whose rollouts go ways. ``choose(question, attempt, taken)`` says which, ``taken`` being as many weights."""

    def __init__(
        self,
        model_dir: Path,
        end: int,
        *,
        profile: Profile,
        ways: Sequence[Way],
        questions: Sequence[Question],
        choose: Callable[[Question, int, int], int],
    ) -> None:
        self.sampling: set[tuple[Any, ...]] = set()
        """How many weights it had taken, and the temperature and cuts that it was then asked for."""
        self.doubts: defaultdict[int, dict[int, float]] = defaultdict(dict)
        """How far what it told was from its own log-probabilities: by how many weights it had taken, and by the turn's seed."""
        self.taken: list[dict[str, Tensor]] = []
        """All weights that it was handed, in their order, those it was started with first."""
        self._tokenizer, self._profile, self._ways, self._choose = load_tokenizer(model_dir), profile, ways, choose
        self._questions = questions
        every = itertools.product(questions, range(_MOST_ATTEMPTS))
        self._attempts = {seed_of(SampleKey(0, one.id, attempt, 0, 0)): attempt for one, attempt in every}
        """By what a rollout's first turn brings as its seed: asked again after a kill, it goes the same way."""
        super().__init__(model_dir, end)

    def _load(self, model_dir: Path) -> None:
        super()._load(model_dir)
        self.taken.append({name: value.clone() for name, value in self._model.state_dict().items()})

    def _speak(self, body: dict[str, Any]) -> dict[str, Any]:
        asked = (body.get(name) for name in ("temperature", "top_p", "top_k", "min_p", "presence_penalty"))
        self.sampling.add((len(self.taken), *asked))
        text = self._tokenizer.decode(body["prompt"])
        (question,) = (one for one in self._questions if one.text in text)
        number = way_of(text)
        if number is None:
            number = self._choose(question, self._attempts[body["seed"]], len(self.taken))
        way, turn = self._ways[number], text.count(_TURN) - 1
        move = way.moves[min(turn, len(way.moves) - 1)]
        if self._profile.force_hint.split(":")[0] in text:
            move = "right"
        if move == "noise":
            return super()._speak({**body, "max_tokens": min(_NOISE_TOKENS, body["max_tokens"])})
        return self._led(body, f"I go way {number}.{self._said(move, question, text, turn)}", way)

    def _said(self, move: str, question: Question, text: str, turn: int) -> str:
        """What follows on a turn's first words."""
        tools = self._profile.tools
        match move:
            case "right" | "wrong":
                return f"\n</think>\n<answer>{question.answers[0] if move == 'right' else 'nobody'}</answer>"
            case "search" | "again":
                # The question once; then what finds nothing.
                asked = question.text if text.count(question.text) == 1 else f"step {'none' if move == 'again' else turn}"
                return self._call(tools.search, {tools.search_query: [asked]})
            case "visit":
                heard = text.split(_TURN)
                read = {url for own in heard[1:] for url in _ADDRESS.findall(own.split("<|im_end|>")[0])}
                seen = [url for url in _ADDRESS.findall(text.split(question.text, 1)[1]) if url not in read]
                return self._call(tools.visit, {tools.visit_url: [seen[0]], tools.visit_goal: "read"})
            case "broken":
                return '\n<tool_call>\n{"name": \n</tool_call>'
        raise ValueError(f"{move!r} is no move")

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        return f"\n</think>\n<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"

    @torch.no_grad()
    def _led(self, body: dict[str, Any], text: str, way: Way) -> dict[str, Any]:
        """The reply that says ``text``, as far as there is room."""
        self.spoke_asleep |= self.asleep
        ids, room = list(body["prompt"]), body["max_tokens"]
        whole = [*self._tokenizer.encode(text), self._end]
        said = whole[:room]
        logits = self._model(torch.tensor([ids + said]), logits_to_keep=len(said) + 1).logits[0, :-1].float()
        found = torch.log_softmax(logits / body["temperature"], -1).gather(-1, torch.tensor(said)[:, None])[:, 0]
        told = way.told(found)
        self.doubts[len(self.taken)][body["seed"]] = float((told - found).abs().sum())
        choice = {
            "text": "", "token_ids": said, "logprobs": {"token_logprobs": told.tolist()},
            "finish_reason": "stop" if len(whole) <= room else "length", "stop_reason": None,
        }  # fmt: skip
        return {"choices": [choice], "usage": {"prompt_tokens": len(ids), "completion_tokens": len(said)}}


def way_of(text: str) -> int | None:
    """Which way a rollout goes that has said so; None where it has not."""
    found = _WAY.search(text)
    return int(found[1]) if found else None


@contextmanager
def led(given: Path, **settings: Any) -> Iterator[tuple[str, Led]]:
    """The server's address, and who is behind it."""
    end = load_tokenizer(given / "base").token_id("<|im_end|>")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vllm_double, "Double", partial(Led, **settings))
        with vllm_double.served(given / "base", end) as (address, double):
            assert isinstance(double, Led)
            yield address, double


def write_led(place: Path, count: int) -> list[Question]:
    """A directory with ``base/``, whose tokenizer knows the three profiles' words, and a world ``world/``; its questions."""
    world = generate_encyclopedia(40, 1, Names.TRAIN)
    build_world(place / "world", (one.page for one in world.pages), name=world.name, source="encyclopedia", seed=1)
    texts = [f"{profile.system_prompt} {profile.force_hint} {profile.malformed_hint}" for profile in PROFILES.values()]
    tokenizer = train_tokenizer([*texts * 20, *(f"{one.page.url} {one.page.text}" for one in world.pages)], 1500)
    write_random_model(place / "base", tokenizer, SHAPE, 1)
    file = place / "base" / "model.safetensors"
    weights = load_file(file)
    weights["model.embed_tokens.weight"] *= _SHARPER
    save_file(weights, file, {"format": "pt"})
    return chain_questions(world, count, 1, {1: 1.0})


def asked(place: Path, name: str, questions: Sequence[Question]) -> Path:
    """A file of questions."""
    write_questions(place / name, questions)
    return place / name
