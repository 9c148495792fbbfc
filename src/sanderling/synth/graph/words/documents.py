"""The words of the relations that pages of documentation state. Pure data."""

from sanderling.synth.graph.documents.relations import Relation
from sanderling.synth.graph.words.contract import RelationWords

DOCUMENTS: dict[str, RelationWords] = {
    Relation.DESCRIPTION: RelationWords(
        ("whose description reads “{o}”", "that is described as “{o}”"),
        ("that describes {s}",),
        value="description",
        is_answer=False,
    ),
    Relation.MEMBER: RelationWords(
        ("that belongs to {o}", "that is documented with {o}"),
        ("that documents {s}", "that has among its members {s}"),
        is_functional=True,
        is_exhaustive=True,
    ),
    Relation.LISTED: RelationWords(
        ("that is documented with {o}",), ("that documents {s}",), is_functional=True
    ),
    Relation.APPEARS: RelationWords(
        ("that is documented with {o}",), ("that documents {s}",), is_functional=True, is_weak=True
    ),
    Relation.PART: RelationWords(
        ("that is part of {o}",), ("that contains {s}", "that includes {s}"), is_functional=True
    ),
    Relation.SECTION: RelationWords(
        ("that has a section called “{o}”",), ("that is a section of {s}",), value="section", is_answer=False
    ),
    Relation.NEW: RelationWords(
        ("that was added in {o}", "that first appeared in {o}"),
        ("that introduced {s}", "that brought {s}"),
        ("the release that introduced {s}",),
        is_functional=True, is_weak=True),
    Relation.CHANGED: RelationWords(("that was changed in {o}",), ("that changed {s}",), is_weak=True),
    Relation.DEPRECATED: RelationWords(
        ("that has been deprecated since {o}",), ("that deprecated {s}",), is_functional=True, is_weak=True),
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
        ("that is credited to {o}",), ("who is credited with {s}",), ("the person who is credited with {s}",)
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
    Relation.RAISES: RelationWords((), ("that can be raised by {s}",)),
    Relation.SUBCLASS: RelationWords(
        ("that is a direct subclass of {o}", "that inherits directly from {o}"),
        ("that is a direct base class of {s}", "that is extended directly by {s}"),
    ),
    Relation.EQUIVALENT: RelationWords(
        ("that is documented as equivalent to {o}",), ("that is given as the equivalent of {s}",)
    ),
    Relation.SIMILAR: RelationWords(
        ("that is described by its likeness to {o}",), ()
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
        ("whose “See also” notes name {o}",), ("that is named in the “See also” notes of {s}",)
    ),
    Relation.CITES: RelationWords(
        ("whose documentation cites {o}",), ("that is cited in the documentation of {s}",), is_weak=True),
    Relation.REFERS: RelationWords(
        ("that refers its readers to {o}",), ("to which readers are referred by {s}",), is_weak=True),
}  # fmt: skip
