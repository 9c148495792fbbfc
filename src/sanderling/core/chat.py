r"""Tokenizers, and Qwen3's ChatML straight to token ids, piece by piece, for a conversation that only grows.

Every method of the renderer returns what one node of the record adds. Sampled ids go between the pieces as they came, so all
earlier reasoning stays in view (Qwen3's own template drops it as soon as a user message is not wrapped as a tool response).

Each stretch between two control tokens is encoded in one call (``user\n`` together with the text after it), so ids agree with
the template's; a turn begins after the think prefix, where sampling begins. Text from outside is encoded with control tokens
*off*: a page that holds ``<|im_end|>`` cannot end the turn it stands in (the `renderers` package makes it the control token).
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import tokenizers

from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile
from sanderling.core.text import without_surrogates
from sanderling.core.types import Message


class Tokenizer:
    """A `tokenizers` tokenizer from a Hugging Face directory or a ``tokenizer.json``.

    Equal fingerprints mean equal ids for equal text. Control tokens in a text that is encoded are read as plain text;
    ``token_id`` gives theirs.
    """

    def __init__(self, path: Path) -> None:
        """Raises UserError when there is none, or none that can be read."""
        self.file = file = (path / "tokenizer.json" if path.is_dir() else path).absolute()
        if not file.is_file():
            raise UserError(f"No tokenizer.json at {path}: give the directory of a Hugging Face model.")
        try:
            text = file.read_text(encoding="utf-8")
            self._tokenizer = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the library raises plain Exceptions for files that are no tokenizers
            raise UserError(f"{file} is not a readable tokenizer ({error}): copy it again from the model's source.") from error
        self._tokenizer.encode_special_tokens = True
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self.fingerprint = hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]
        self.vocab_size = self._tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(without_surrogates(text), add_special_tokens=False).ids

    def decode(self, ids: list[int] | tuple[int, ...]) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def token_id(self, token: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise UserError(f"The tokenizer has no token {token!r}: use the tokenizer of a Qwen3-style chat model.")
        return found


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a model directory. Raises UserError."""
    return Tokenizer(path)


BETWEEN_RESULTS = "\n</tool_response>\n<tool_response>\n"
"""Between the results of one turn's calls, as Qwen3's template has it."""


def wrap_observation(text: str) -> str:
    """What a tool (or the loop) says, as the content of a user message."""
    return f"<tool_response>\n{text}\n</tool_response>"


def unwrap(text: str) -> str:
    """What stands in an observation's wrapper; the text itself where the wrapper is not whole."""
    bare, opening, closing = text.strip(), "<tool_response>", "</tool_response>"
    if bare.startswith(opening) and bare.endswith(closing) and len(bare) >= len(opening) + len(closing):
        return bare[len(opening) : -len(closing)].removeprefix("\n").removesuffix("\n")
    return text


def strip_think_prefix(text: str, think_prefix: str) -> str:
    r"""A turn as it would have been sampled: without the ``<think>\n`` or ``<think>`` that the prompt already holds."""
    if text.startswith(think_prefix):
        return text.removeprefix(think_prefix)
    return text.removeprefix("<think>") if think_prefix.strip() == "<think>" else text


def conversation_ids(tokenizer: Tokenizer, messages: Sequence[Message]) -> list[int]:
    r"""A whole conversation of no profile, and ``<|im_start|>assistant\n``: for a model that is asked one thing."""
    start, end, newline = tokenizer.token_id("<|im_start|>"), tokenizer.token_id("<|im_end|>"), tokenizer.encode("\n")
    ids: list[int] = []
    for message in messages:
        ids += [start, *tokenizer.encode(f"{message.role.value}\n{message.content}"), end, *newline]
    return [*ids, start, *tokenizer.encode("assistant\n")]


class ChatRenderer:
    """Renders one profile's conversations for one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, profile: Profile) -> None:
        """Raises UserError when the tokenizer lacks ``<|im_start|>`` or ``<|im_end|>``."""
        self._tokenizer = tokenizer
        self._think_prefix = profile.think_prefix
        self._start = tokenizer.token_id("<|im_start|>")
        self.end_id = tokenizer.token_id("<|im_end|>")
        self.newline = tokenizer.encode("\n")
        self.generation_prompt = (self._start, *tokenizer.encode("assistant\n" + profile.think_prefix))
        r"""``<|im_start|>assistant\n`` and the think prefix: what stands before every sampled turn."""

    def system_ids(self, text: str) -> list[int]:
        return self._message("system", text)

    def question_ids(self, text: str) -> list[int]:
        """The first user message and the generation prompt."""
        return [*self._message("user", text), *self.generation_prompt]

    def observation_ids(self, text: str, *, previous_ended: bool | None, prompt: bool = True) -> list[int]:
        """What stands between a sampled turn and the next: close of the turn, wrapped user message, generation prompt.

        ``previous_ended``: whether the sampled ids end with ``<|im_end|>``, else it is added. None: this follows another
        observation, rendered with ``prompt=False``.
        """
        close = [] if previous_ended is None else self._close(previous_ended)
        return [*close, *self._message("user", wrap_observation(text)), *(self.generation_prompt if prompt else ())]

    def follow_up_ids(self, text: str, *, previous_ended: bool) -> list[int]:
        """A further question after a sampled turn: close of the turn, user message, generation prompt."""
        return [*self._close(previous_ended), *self.question_ids(text)]

    def turn_ids(self, text: str) -> list[int]:
        """A turn that exists as text only, ``<|im_end|>`` included, without a tag that the generation prompt already holds."""
        return [*self._tokenizer.encode(strip_think_prefix(text, self._think_prefix)), self.end_id]

    def _close(self, ended: bool) -> list[int]:
        return [*([] if ended else [self.end_id]), *self.newline]

    def _message(self, role: str, text: str) -> list[int]:
        return [self._start, *self._tokenizer.encode(f"{role}\n{text}"), self.end_id, *self.newline]
