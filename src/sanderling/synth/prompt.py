"""A prompt as data: a name, the words, and a version that follows from the words. Knows no model and no reply."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sanderling.core.asking import Reply
from sanderling.core.types import Message, Role


@dataclass(frozen=True)
class Prompt:
    """What a model is told before it gets its material."""

    name: str
    system: str

    @property
    def version(self) -> str:
        """Changes with every letter of the words."""
        return hashlib.sha256(self.system.encode()).hexdigest()[:12]

    def messages(self, material: str) -> tuple[Message, ...]:
        """The conversation about some material."""
        return (Message(role=Role.SYSTEM, content=self.system), Message(role=Role.USER, content=material))

    def provenance(self, replies: Sequence[Reply]) -> dict[str, Any]:
        """Who answered this prompt, in which version, and at what cost (``estimated``: at most), for ``meta``."""
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


def fenced(tag: str, text: str) -> str:
    """Material between tags that nothing in it can close."""
    return f"<{tag}>\n{text.replace(f'</{tag}', f'< /{tag}')}\n</{tag}>"
