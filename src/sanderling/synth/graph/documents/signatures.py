"""Lines that introduce a definition: "json.dump(obj, fp)", "class bool(x=False)", "int PyList_Check(PyObject *p)".

Pure functions.
"""

import re
from dataclasses import dataclass

_PREFIXES = frozenset(
    [
        "class",
        "exception",
        "async",
        "awaitable",
        "classmethod",
        "staticmethod",
        "static",
        "abstractmethod",
        "coroutine",
        "function",
        "method",
        "final",
        "property",
        "def",
        "decorator",
        "macro",
        "type",
        "struct",
        "public",
        "interface",
        "enum",
    ]
)
_METHODS = frozenset({"classmethod", "staticmethod", "abstractmethod", "method"})
_PLAIN = re.compile(
    r"(?P<prefix>(?:[a-z]+ )*)@?(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?P<args>\(.*\))?"
    r"(?P<tail>\s*(?:→|->|:|=)\s*\S.{0,60})?"
)
_TYPED = re.compile(
    r"(?:(?:const|unsigned|static|struct)\s)*[A-Za-z_]\w*(?:\s*\*+\s*|\s)(?P<name>[A-Za-z_]\w*)(?P<args>\(.*\))"
)
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Signature:
    """What a line defines."""

    name: str
    """With "()" behind what is called."""
    kind: str
    """In a word; empty: unknown."""
    is_qualified: bool
    """Whether the name is a dotted one, or said to be a class's: hardly a word of prose, or the name of several things."""

    @property
    def is_type(self) -> bool:
        """Whether it is a class, which has members."""
        return self.kind in ("class", "exception")


def signature_of(line: str) -> Signature | None:
    """The signature that a whole line is; None for prose."""
    if len(line) > _LONGEST or line.endswith((".", ",", ";")) or "⟦" in line:
        return None
    found = _PLAIN.fullmatch(line)
    prefixes = found["prefix"].split() if found else []
    if found is None or not set(prefixes) <= _PREFIXES:
        typed = _TYPED.fullmatch(line)
        if typed is None or not ("_" in typed["name"] or typed["name"][0].isupper()):
            return None
        return Signature(f"{typed['name']}()", "function", False)
    name, args = found["name"], found["args"]
    if args is not None and not _is_one_group(args):
        return None
    if args is None and not prefixes and not ("." in name or "_" in name.strip("_")):
        return None
    kind = _kind(name, args is not None, prefixes)
    called = args is not None and kind in ("function", "method")
    return Signature(f"{name}()" if called else name, kind, "." in name or kind in ("class", "exception"))


def _is_one_group(args: str) -> bool:
    """Whether the first bracket is closed by the last: "(x) - f(y)" is an expression."""
    depth = 0
    for place, char in enumerate(args):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return place == len(args) - 1
    return True


def _kind(name: str, has_args: bool, prefixes: list[str]) -> str:
    for told in ("exception", "class", "macro", "decorator"):
        if told in prefixes:
            return told
    owner, _, last = name.rpartition(".")
    owned = owner.rpartition(".")[2][:1].isupper()
    if has_args:
        return "method" if owned or _METHODS & set(prefixes) else "function"
    if last.isupper() and len(last) > 1:
        return "constant"
    return "attribute" if owned else ""
