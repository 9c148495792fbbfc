"""The words of the relations that pages of documentation state. Pure data."""

from sanderling.synth.graph.documents.relations import Relation
from sanderling.synth.graph.words.contract import RelationWords

_PLACE, _VERSION, _READING = "place", "version", "reading"

DOCUMENTS: dict[str, RelationWords] = {
    Relation.DESCRIPTION: RelationWords(
        ("whose description reads “{o}”", "that is described as “{o}”"),
        ("that describes {s}",),
        value="description", is_answer=False, is_step=False,
    ),
    Relation.MEMBER: RelationWords(
        ("that belongs to {o}", "that is documented in {o}"),
        ("that documents {s}", "that has among its members {s}"),
        is_functional=True, is_exhaustive=True, family=_PLACE,
    ),
    Relation.LISTED: RelationWords(
        ("that is documented in {o}",), ("that documents {s}",), is_functional=True, family=_PLACE
    ),
    Relation.APPEARS: RelationWords(
        ("that is documented in {o}",), ("that documents {s}",), is_functional=True, is_weak=True, family=_PLACE
    ),
    Relation.PART: RelationWords(
        ("that is a direct part of {o}", "that stands directly in {o}"),
        ("that directly contains {s}", "of which {s} is a direct part"),
        is_functional=True, is_exhaustive=True, is_of_one_kind=True,
    ),
    Relation.WITHIN: RelationWords(
        ("that is a direct part of {o}", "that stands directly in {o}"),
        ("that directly contains {s}", "of which {s} is a direct part"),
        is_functional=True, is_weak=True, family=Relation.PART,
    ),
    Relation.SECTION: RelationWords(
        ("that has a section called “{o}”",), ("that is a section of {s}",),
        value="section", is_answer=False, is_step=False,
    ),
    Relation.NEW: RelationWords(
        ("that was added in {o}", "that first appeared in {o}"),
        ("that introduced {s}", "that brought {s}"),
        ("the release that introduced {s}",),
        is_functional=True, is_weak=True, family=_VERSION,
    ),
    Relation.CHANGED: RelationWords(  # several releases change a thing: none is told by it
        ("that was changed in {o}",), (), is_weak=True, family=_VERSION
    ),
    Relation.DEPRECATED: RelationWords(
        ("that has been deprecated since {o}",), ("that deprecated {s}",),
        is_functional=True, is_weak=True, family=_VERSION,
    ),
    Relation.RELEASED: RelationWords(
        ("that was released on {o}", "that came out on {o}"),
        ("on which {s} was released",),
        ("the release date of {s}",),
        value="date",
        inquiry=("When was {s} released?", "On which date was {s} released?"),
        is_functional=True,
    ),
    Relation.COVERS: RelationWords(
        ("that covers {o}", "that tells what is new in {o}"),
        ("that is covered by {s}",),
        is_functional=True,
    ),
    Relation.CONTRIBUTOR: RelationWords(
        ("that is credited to {o}", "that was contributed by {o}"),
        ("who is credited with {s}", "who contributed {s}"),
        ("the contributor of {s}",),
    ),
    Relation.AUTHOR: RelationWords(
        ("that was written by {o}", "whose author is {o}"),
        ("who wrote {s}", "who is the author of {s}"),
        ("the author of {s}",),
    ),
    Relation.EDITOR: RelationWords(
        ("that was edited by {o}", "whose editor is {o}"),
        ("who edited {s}", "who is the editor of {s}"),
        ("the editor of {s}",),
    ),
    Relation.DEVELOPER: RelationWords(
        ("that was developed by {o}",), ("that developed {s}",), ("the developer of {s}",)
    ),
    Relation.SOURCE: RelationWords(
        ("whose source code is in the file {o}",),
        ("that holds the source code of {s}",),
        value="file",
        inquiry=("In which file is the source code of {s}?", "Which file holds the source code of {s}?"),
        is_functional=True,
    ),
    Relation.AVAILABLE: RelationWords(
        ("whose availability is given as “{o}”",),
        ("that is given as the availability of {s}",),
        value="availability",
        inquiry=("What does the documentation say of the availability of {s}?",),
        is_functional=True, is_weak=True,
    ),
    Relation.RAISES: RelationWords((), ("that can be raised by {s}", "that {s} may raise"), is_weak=True),
    Relation.SUBCLASS: RelationWords(
        ("that is a direct subclass of {o}", "that inherits directly from {o}"),
        ("that is a direct base class of {s}", "that is extended directly by {s}"),
    ),
    Relation.EQUIVALENT: RelationWords(
        ("that is documented as equivalent to {o}",), ("that is given as the equivalent of {s}",)
    ),
    Relation.SIMILAR: RelationWords(
        ("that is described by its likeness to {o}",), ("that is named as the like of {s}",)
    ),
    Relation.VARIANT: RelationWords(
        ("that is called a version of {o}",), ("of which {s} is called a version",)
    ),
    Relation.IMPLEMENTS: RelationWords(
        ("that is called to implement {o}",), ("that is implemented by {s}",)
    ),
    Relation.ALIAS: RelationWords(("that is an alias of {o}",), ("that has as an alias {s}",)),
    Relation.RETURNS: RelationWords(
        ("that returns an instance of {o}",), ("that is returned by {s}", "whose instances are returned by {s}")
    ),
    Relation.CALLS: RelationWords(("that calls {o}",), ("that is called by {s}",)),
    Relation.USES: RelationWords(("that uses {o}",), ("that is used by {s}",)),
    Relation.BASED: RelationWords(("that is based on {o}", "that builds on {o}"), ("that underlies {s}",)),
    Relation.REPLACED: RelationWords(
        ("in whose place readers are told to use {o}",), ("that is recommended in place of {s}",)
    ),
    Relation.CORRESPONDS: RelationWords(("that corresponds to {o}",), ("that corresponds to {s}",)),
    Relation.SEE: RelationWords(
        ("whose “See also” notes name {o}",), ("that is named in the “See also” notes of {s}",), family=_READING
    ),
    Relation.CONSULT: RelationWords(
        ("whose description sends its readers on to {o}",), ("to which the description of {s} sends its readers on",),
        is_weak=True, family=_READING,
    ),
    Relation.CITES: RelationWords(
        ("whose documentation cites {o}",), ("that is cited in the documentation of {s}",), is_weak=True
    ),
    Relation.REFERS: RelationWords(
        ("that refers its readers to {o}",), ("to which readers are referred by {s}",), is_weak=True, family=_READING
    ),
}  # fmt: skip
