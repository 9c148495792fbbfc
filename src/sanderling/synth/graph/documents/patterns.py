"""Sentences that state a relation to what they link to, by the words before the link. A table of patterns, and their reader.

The subject is what the sentence's definition is about: a pattern only takes sentences that begin with a verb, or with "This
…", "It", or the subject's own name. A sentence that denies, or tells of an old state, states nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sanderling.synth.graph.documents.relations import Relation

_M = r"⟦(\d+)⟧(?!\.\w)"
_THE = r"(?:the |an? )?(?:new |built-in |abstract base |low-level )?(?:class |function |method |module |exception )?"
_DENIED = re.compile(
    r"\b(?:not|never|no longer|instead of|rather than|without|unlike|except|unless|whether|previously|formerly|used to"
    r"|may be|might)\b|n[’']t\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\bparti?(?:al)?ly (?:re|su)|^(?:If|When|To|For|On|In|Where|While|Usually|Do not|Sometimes)\b")
_DEFINED = r"(?:functions|methods|classes|exceptions|constants|attributes|types|variables|macros|decorators|objects)\b"
_INTRODUCES = re.compile(
    rf"^(?:(?:the|all|each|both)(?: of)?(?: the)? )?(?:\w+ )?(?:following|remaining|below) (?:[\w-]+ ){{0,3}}?{_DEFINED}"
    rf"|^(?:the|these) (?:[\w-]+ )?{_DEFINED}(?: \w+)? below\b",
    re.IGNORECASE,
)
_THIS = r"(?:This (?:\w+ )?(?:is )?|The \w+ |It (?:is )?|Is )?"
_CLASSES = ("class", "exception")


@dataclass(frozen=True, slots=True)
class Pattern:
    """Words that state a relation."""

    relation: Relation
    regex: re.Pattern[str]
    objects: frozenset[str] = frozenset()
    """Kinds that the object may have; empty: any."""

    def fits(self, subject: str, object: str) -> bool:
        """Whether things of these kinds can stand in the relation: what is not called raises nothing."""
        return (not self.objects or object in self.objects) and (self.relation is not Relation.RAISES or subject in _CALLED)


def _pattern(relation: Relation, regex: str, *objects: str) -> Pattern:
    return Pattern(relation, re.compile(regex), frozenset(objects))


PATTERNS: tuple[Pattern, ...] = (
    _pattern(Relation.RAISES, rf"\b[Rr]ais(?:es?|ing) {_THE}{_M}", "exception"),
    _pattern(Relation.RAISES, rf"(?:^|, |then )(?:[Aa]n? )?{_M}(?: exception)? (?:is|will be) raised\b", "exception"),
    _pattern(Relation.RAISES, rf"\b(?:fails?|failing) with {_THE}{_M}", "exception"),
    _pattern(Relation.SUBCLASS, rf"^(?:This is |It is )?(?:[Aa] |[Tt]he )?(?:\w+ )?[Ss]ubclass of {_THE}{_M}", *_CLASSES),
    _pattern(Relation.SUBCLASS, rf"^{_THIS}(?:[Ii]nherits(?: from)?|[Dd]erived from|[Dd]erives from) {_THE}{_M}", *_CLASSES),
    _pattern(Relation.EQUIVALENT, rf"^{_THIS}(?:[Rr]oughly |[Ff]unctionally |[Aa]lmost )?[Ee]quivalent to {_THE}{_M}"),
    _pattern(
        Relation.SIMILAR,
        rf"^{_THIS}(?:very |much )?(?:[Ss]imilar to|[Ll]ike|(?:[Tt]he )?[Ss]ame as|[Ii]dentical to) {_THE}{_M}",
    ),
    _pattern(Relation.VARIANT, rf"^{_THIS}(?:[Aa]n? )?[A-Za-z]+ (?:version|variant|counterpart) of {_THE}{_M}"),
    _pattern(Relation.IMPLEMENTS, rf"^{_THIS}[Cc]alled (?:by|to implement) {_THE}{_M}", "function", "statement", "class"),
    _pattern(Relation.ALIAS, rf"\b[Aa]lias (?:for|of|to) {_THE}{_M}"),
    _pattern(Relation.RETURNS, rf"^(?:[Cc]reates? and )?[Rr]eturns? {_THE}{_M}(?: object| instance)?\b", "class"),
    _pattern(
        Relation.CONSULT,
        rf"^(?:See|Refer to|Please read|Also see)(?: the)?(?: documentation (?:of|for))? {_THE}{_M} (?:for|on)\b",
    ),
    _pattern(Relation.CALLS, rf"^{_THIS}(?:[Cc]alls|[Ii]nvokes) {_THE}{_M}", "function", "method"),
    _pattern(Relation.CALLS, rf"\b(?:wrapper|shorthand|shortcut) (?:for|around) {_THE}{_M}", "function", "method", "class"),
    _pattern(Relation.USES, rf"^{_THIS}(?:internally )?[Uu]ses {_THE}{_M}"),
    _pattern(Relation.BASED, rf"\b(?:based|built|implemented) on(?: top of)? {_THE}{_M}"),
    _pattern(Relation.REPLACED, rf"\b[Uu]se {_THE}{_M}(?: (?:class|function|method|module|package|exception))? instead\b"),
    _pattern(Relation.REPLACED, rf"\b(?:superseded by|in favou?r of|[Rr]eplaced by) {_THE}{_M}"),
    _pattern(Relation.CORRESPONDS, rf"\b(?:mapped|[Cc]orresponds?) to {_THE}{_M}", "exception", "constant", "class"),
    _pattern(Relation.SEE, rf"^See also {_THE}{_M}\.?$"),
)  # fmt: skip
_CALLED = frozenset({"function", "method", "class"})
_REPLACEMENTS = frozenset({Relation.REPLACED})
_UNCONDITIONAL = frozenset({Relation.REPLACED, Relation.ALIAS, Relation.EQUIVALENT})
"""What holds on some platform, or for some purpose, is not said of the thing as such."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A relation that a sentence states, and which of its links is the object."""

    pattern: Pattern
    link: int


def introduces(sentence: str) -> bool:
    """Whether a sentence is about the definitions that come next: "The following functions …"."""
    return _INTRODUCES.search(sentence) is not None


def stated(sentence: str) -> Iterator[Stated]:
    """What a sentence with marked links states."""
    for pattern in PATTERNS:
        found = pattern.regex.search(sentence)
        if found is None:
            continue
        if pattern.relation not in _REPLACEMENTS and _DENIED.search(sentence[: found.end()]):
            continue
        if pattern.relation is Relation.USES and sentence.count("⟦") > 1:
            continue  # it may use the one here and the other there
        if pattern.relation in _UNCONDITIONAL and _CONDITION.search(sentence):
            continue
        yield Stated(pattern, int(found[1]))
