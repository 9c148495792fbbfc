"""The words of every known relation, and plain ones for a relation that no file here names (a language model's, say)."""

from collections.abc import Mapping

from sanderling.synth.graph.words.contract import RelationWords, as_claim, claimed, literally
from sanderling.synth.graph.words.encyclopedia import ENCYCLOPEDIA


class RelationBook:
    """Looks relations up; see `words.contract.Words`."""

    def __init__(self, *tables: Mapping[str, RelationWords]) -> None:
        self._words: dict[str, RelationWords] = {
            name: words for table in tables or (ENCYCLOPEDIA,) for name, words in table.items()
        }

    def of(self, relation: str) -> RelationWords:
        """Of one relation; plain words for an unknown one."""
        if relation not in self._words:
            base, site = claimed(relation)
            self._words[relation] = as_claim(self.of(base), site) if site else plain_words(relation)
        return self._words[relation]


def plain_words(relation: str) -> RelationWords:
    """Words made of a relation's name alone: "whose LABEL is {o}", "that is the LABEL of {s}"."""
    value = " ".join(relation.replace("_", " ").replace("-", " ").split()).lower()
    label = literally(value)
    return RelationWords(
        (f"whose {label} is {{o}}",),
        (f"that is the {label} of {{s}}",),
        (f"the {label} of {{s}}",),
        value=value,
        inquiry=(f"What is the {label} of {{s}}?",),
    )
