"""Keeps the questions of a run apart: no form, no kind of last step, no fact and no given name in too many of them.

From documents only: an encyclopedia's relations are all alike in number, while a manual has a thousand "changed in" for each
"equivalent to", and a few facts that very many ways lead through.
"""

from collections import Counter
from dataclasses import dataclass, field

from sanderling.synth.graph.draft import Draft
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.query import subject_of

_Key = tuple[str, ...]
_FORM, _STEP, _THING, _ITEMS = 33, 15, 60, 200
"""One question in so many may have the same form, the same last step, the same fact, given name or answer, or
the same list behind it; two always may."""
_LOOSENED = ("form", "step")
"""Where there is nothing else, more may be alike, but never more be about the same thing."""
_LOOSEST = 8
"""How many times as many may be alike at last."""


@dataclass
class Quotas:
    """What was asked so far."""

    ground: Ground
    count: int
    """Questions that are wished for."""
    most: int = 1
    """How often it was loosened, as a factor."""
    _asked: Counter[_Key] = field(default_factory=Counter)

    def has_room(self, draft: Draft) -> bool:
        """Whether a question more of this form, and about these facts, is not too many."""
        if self.ground.graph.complete:
            return True
        return all(
            self._asked[key] < (self.most if key[0] in _LOOSENED else 1) * max(2, self.count // share)
            for key, share in self._keys(draft).items()
        )

    def loosen(self) -> bool:
        """Let twice as many be alike where there are no others; false when that was done too often."""
        self.most *= 2
        return self.most <= _LOOSEST

    def take(self, draft: Draft) -> None:
        """Count a question in."""
        self._asked.update(self._keys(draft).keys())

    def _keys(self, draft: Draft) -> dict[_Key, int]:
        """What is counted of a draft, each with its share. The members of a group are one fact."""
        words = [self.ground.words.of(fact.relation) for fact in draft.facts]
        relations = sorted(each.family or fact.relation for each, fact in zip(words, draft.facts, strict=True) if each.is_step)
        is_group = "items" in draft.extra
        keys: dict[_Key, int] = {("form", draft.form, *(sorted(set(relations)) if is_group else relations)): _FORM}
        if not is_group:
            keys.update({("fact", fact.subject, fact.relation, fact.object): _THING for fact in draft.facts})
        keys.update({("name", name): _THING for name in draft.named})
        items = sorted(names[0] for names in draft.extra.get("items", ()))
        keys[("answer", *(items or draft.answers[:1]))] = _ITEMS if items else _THING
        for fact in draft.touching[:1]:
            is_subject = self.ground.answers(subject_of(fact)) == draft.answers
            keys[("step", self.ground.words.of(fact.relation).family or fact.relation, str(is_subject))] = _STEP
        return keys
