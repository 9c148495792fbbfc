"""Prompts as data, the models they are put to, and the settings that name these."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from sanderling.core.asking import ModelClient, Reply, first_readable
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import Message, Role
from sanderling.data.questions import read_questions
from sanderling.policy.budget import BudgetConfig, Spending
from sanderling.runs.settings import all_placed

T = TypeVar("T")


@dataclass(frozen=True)
class Prompt:
    """What a model is told before it gets its material; the version changes with every letter of the words."""

    name: str
    system: str

    @property
    def version(self) -> str:
        return hashlib.sha256(self.system.encode()).hexdigest()[:12]

    def messages(self, material: str) -> tuple[Message, ...]:
        """The conversation about some material."""
        return (Message(role=Role.SYSTEM, content=self.system), Message(role=Role.USER, content=material))

    async def ask(
        self,
        clients: Sequence[ModelClient],
        material: str,
        read: Callable[[str], T | None],
        *,
        tries: int = 1,
        max_tokens: int = 1_024,
        temperature: float = 0.0,
    ) -> tuple[T | None, dict[str, Any]]:
        """What the first readable reply says (None: none could be read), and the provenance of all replies.

        One client after the other is asked, each up to ``tries`` times. Raises AskingOutageError.
        """
        found = await first_readable(
            clients, self.messages(material), read, tries=tries, max_tokens=max_tokens, temperature=temperature
        )
        return found.value, self.provenance(*found.replies)

    def provenance(self, *replies: Reply) -> dict[str, Any]:
        """Who answered, to which version, and at what cost (``estimated``: at most), for a question's ``meta``."""
        estimated = {"estimated": True} if any(reply.usage.is_estimated for reply in replies) else {}
        return {
            "prompt": self.name,
            "version": self.version,
            "models": list(dict.fromkeys(reply.usage.model for reply in replies)),
            "replies": len(replies),
            "prompt_tokens": sum(reply.usage.prompt_tokens for reply in replies),
            "sampled_tokens": sum(reply.usage.sampled_tokens for reply in replies),
            "cost": sum(reply.usage.cost for reply in replies),
            **estimated,
        }


class AskingConfig(Frozen):
    """Which models are asked, and what they may cost: the base of every stage's settings that asks any."""

    models: tuple[str, ...] = ()
    """``http://host:port/v1#model`` or a model's directory; several stand in for one another."""
    prices: tuple[str, ...] = ()
    """What they cost per million tokens, as ``0.15,0.60``: one for all, or one for each in their order."""
    concurrency: int = Field(default=8, ge=1)
    """Pages or questions worked on at the same time."""
    budget: BudgetConfig = BudgetConfig()


def opened_models(
    config: AskingConfig, spending: Spending, on_retry: Callable[[str], None] | None = None
) -> AbstractAsyncContextManager[Sequence[ModelClient]]:
    """The models of these settings, paid from the account of a run. Entering it raises UserError."""
    from sanderling.policy.request_client import opened_clients

    return opened_clients(config.models, config.prices, spending, concurrency=config.concurrency, on_retry=on_retry)


def some_questions(path: Path) -> list[Question]:
    """The questions of a file. Raises UserError where it holds none."""
    questions = read_questions(path)
    if not questions:
        raise UserError(f"{path} holds no question: give a file with at least one.")
    return questions


@dataclass(frozen=True)
class Models:
    """Whom a maker of questions asks: of each list, one after the other until a reply can be read."""

    writers: Sequence[ModelClient]
    judges: Sequence[ModelClient]


def made_with(
    maker: str, prompts: Sequence[Prompt], models: Models, settings: Frozen, origin: Mapping[str, Any]
) -> dict[str, Any]:
    """All that a maker's questions depend on beside their pages, as JSON."""
    return {
        "maker": maker,
        "settings": settings.model_dump(mode="json"),
        "origin": dict(origin),
        "prompts": [prompt.version for prompt in prompts],
        "models": [all_placed(models.writers), all_placed(models.judges)],
    }


def fenced(tag: str, text: str) -> str:
    """Material between tags that nothing in it can close."""
    return f"<{tag}>\n{text.replace(f'</{tag}', f'< /{tag}')}\n</{tag}>"


def one_line(value: Any, longest: int | None = None) -> str:
    """A value from a model's reply as text on one line, a number too; empty for anything else, and for what is too long."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    line = " ".join(value.split()) if isinstance(value, str) else ""
    return line if longest is None or len(line) <= longest else ""
