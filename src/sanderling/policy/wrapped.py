"""A policy around another one: it tells of itself what the other tells. Its sessions are its own business."""

from sanderling.core.chat import Tokenizer
from sanderling.policy.contract import Policy


class WrappedPolicy:
    """All of a policy but its sessions; whoever extends it writes ``open``."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    @property
    def name(self) -> str:
        return self._policy.name

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self._policy.tokenizer

    @property
    def context_length(self) -> int | None:
        return self._policy.context_length

    @property
    def version(self) -> int:
        return self._policy.version
