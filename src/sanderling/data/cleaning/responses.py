"""The tools' replies of one turn as one message: a block in tags for each call, in the calls' order.

That is how the loop writes them, and Qwen3's template. Blocks are only told apart where there are as many as calls; nothing is
guessed. Knows no layout of results.
"""

from sanderling.core.chat import wrap_observation
from sanderling.core.observations import unwrap

BETWEEN = "\n</tool_response>\n<tool_response>\n"
_OPEN, _CLOSE = "<tool_response>\n", "\n</tool_response>"


def is_wrapped(text: str) -> bool:
    """Whether a response stands in its tags, as the loop writes them."""
    return text.startswith(_OPEN) and text.endswith(_CLOSE) and len(text) >= len(_OPEN) + len(_CLOSE)


def wrapped(text: str) -> str:
    """The response in its tags."""
    return text if is_wrapped(text) else wrap_observation(unwrap(text))


def split_blocks(text: str) -> list[str]:
    """The blocks of a wrapped response; one where it holds a single call's result."""
    return unwrap(text).split(BETWEEN)


def join_blocks(blocks: list[str]) -> str:
    """A response of these blocks."""
    return wrap_observation(BETWEEN.join(blocks))


def joined(texts: list[str]) -> str:
    """Several responses in a row as one; each in its tags."""
    return "\n".join(wrapped(text) for text in texts)
