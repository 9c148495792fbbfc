"""Where in a record a question, its answers and their kin stand, whatever the file calls them.

A name is looked up exactly, then in any case; one with dots (``info.level``, ``prompt.0.content``) goes into nested values, of
which some files hold JSON as text. Knows no file format and no benchmark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from sanderling.core.errors import UserError
from sanderling.evaluate.benchmarks.values import opened, plain_text, text_list

ROLES = ("question", "answer", "id", "level", "topic")


class MissingColumnError(KeyError):
    """A record has none of the names under which something is looked for."""

    def __init__(self, role: str, names: Sequence[str]) -> None:
        super().__init__(role)
        self.role = role
        self.names = tuple(names)


@dataclass(frozen=True)
class Columns:
    """A person's word on which column plays which role.

    Example: ``Columns.parse("question=Prompt,answer=Gold,level=meta.level")``
    """

    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def parse(cls, text: str) -> "Columns":
        """Raises UserError for a role that there is not, one given twice, or an empty name."""
        found: dict[str, str] = {}
        for part in filter(str.strip, text.split(",")):
            role, sign, name = (piece.strip() for piece in part.partition("="))
            if not sign or not name:
                raise UserError(f"{part.strip()!r} names no column: write for example question=Prompt,answer=Gold.")
            if role not in ROLES:
                near = get_close_matches(role, ROLES, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"choose of {', '.join(ROLES)}."
                raise UserError(f"There is no role {role!r} for a column: {hint}")
            if role in found:
                raise UserError(f"The role {role!r} is given to two columns, {found[role]!r} and {name!r}: keep one.")
            found[role] = name
        return cls(MappingProxyType(found))


class Fields:
    """One record of a file, looked up by roles.

    Args:
        line: its number among the rows of the file.
        values: what stands in it, by column.
        columns: which overrule the names that a benchmark knows.

    """

    def __init__(self, line: int, values: Mapping[str, Any], columns: Columns) -> None:
        self.line = line
        self.values = values
        self.columns = columns

    def has(self, name: str) -> bool:
        """Whether there is a column of that name, empty or not."""
        return bool(_looked_up(self.values, name))

    def get(self, *names: str) -> Any:
        """The value of the first name that the record has; None when it has none."""
        return next((value for name in names for value in _looked_up(self.values, name)), None)

    def role(self, role: str, *names: str) -> Any:
        """As `get`, under the name that a person gave to the role, or else the known names."""
        chosen = self.columns.names.get(role)
        return self.get(chosen) if chosen else self.get(*names)

    def need(self, role: str, *names: str) -> Any:
        """As `role`. Raises MissingColumnError when there is no such column at all."""
        known = (self.columns.names[role],) if role in self.columns.names else names
        if not any(_looked_up(self.values, name) for name in known):
            raise MissingColumnError(role, known)
        return self.get(*known)

    def text(self, role: str, *names: str) -> str:
        """A value as text without blanks around it; empty where there is none."""
        return plain_text(self.role(role, *names))

    def texts(self, role: str, *names: str) -> tuple[str, ...]:
        """A text, or a list of them, as a list without blanks. Raises RowError for what is neither."""
        return text_list(self.role(role, *names))


def _looked_up(value: Any, name: str) -> tuple[Any, ...]:
    """The value of a name in a tuple; empty when there is none."""
    value = opened(value)
    if isinstance(value, list | tuple):
        first, _, rest = name.partition(".")
        inside = first.isdecimal() and int(first) < len(value)
        return () if not inside else (_looked_up(value[int(first)], rest) if rest else (value[int(first)],))
    if not isinstance(value, Mapping):
        return ()
    if name in value:
        return (value[name],)
    folded = [key for key in value if isinstance(key, str) and key.strip().casefold() == name.casefold()]
    if len(folded) == 1:
        return (value[folded[0]],)
    if "." not in name:
        return ()
    first, _, rest = name.partition(".")
    return next((found for inner in _looked_up(value, first) if (found := _looked_up(inner, rest))), ())
