"""The answer as it is teacher-forced: its ids inside a probe, and which of them are its own. Knows no trajectory, no model."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from sanderling.core.chat import Tokenizer


class Probe(BaseModel):
    """The text that is teacher-forced around the answer, right after a turn's prompt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefix: str
    suffix: str = ""
    """What follows it. Cannot change the answer's log-probabilities under a causal model, but decides its last token:
    ``.`` before a line break is one token with it in many vocabularies. Scorers leave out what stands behind that."""


@dataclass(frozen=True)
class Forced:
    """Teacher-forced ids, and the half-open span of the answer's."""

    ids: list[int]
    span: tuple[int, int]


def forced(tokenizer: Tokenizer, probe: Probe, answer: str) -> Forced:
    """The probe around an answer, as the tokenizer makes it of the whole text, which is how a policy has learnt to write it.

    The answer's tokens are all that hold a character of it: one that also holds the end of the prefix or the beginning of the
    suffix counts whole, since that is what would be sampled. Where decoding does not give the text back, nobody can say which
    these are, and parts are encoded apart. Raises ValueError for an empty answer.
    """
    if not answer:
        raise ValueError("an empty answer has no tokens")
    text = probe.prefix + answer + probe.suffix
    ids = tokenizer.encode(text)
    if tokenizer.decode(ids) != text:
        return _apart(tokenizer, probe, answer)
    # A token may hold half a character, so that not every place in the ids is one in the text.
    said = [tokenizer.decode(ids[:count]) for count in range(len(ids) + 1)]
    first = max(count for count, part in enumerate(said) if probe.prefix.startswith(part))
    end = min(count for count, part in enumerate(said) if part.startswith(probe.prefix + answer))
    return Forced(ids, (first, end))


def _apart(tokenizer: Tokenizer, probe: Probe, answer: str) -> Forced:
    prefix, own, suffix = (tokenizer.encode(part) for part in (probe.prefix, answer, probe.suffix))
    return Forced([*prefix, *own, *suffix], (len(prefix), len(prefix) + len(own)))
