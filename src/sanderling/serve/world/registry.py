"""All dialects by name. A new one is a module with a ``DIALECT`` and a line here."""

from sanderling.core.errors import UserError
from sanderling.serve.world import asearcher, jina, literesearcher, native, search_r1, serper
from sanderling.serve.world.dialect import Dialect

DIALECTS: dict[str, Dialect] = {
    "native": native.DIALECT,
    "serper": serper.DIALECT,
    "jina": jina.DIALECT,
    "literesearcher": literesearcher.DIALECT,
    "search_r1": search_r1.DIALECT,
    "asearcher": asearcher.DIALECT,
}
MCP = "mcp"
"""Not a dialect in the sense of `dialect`, but chosen like one."""


def chosen(names: tuple[str, ...]) -> tuple[list[Dialect], bool]:
    """The dialects of these names (none: all), and whether MCP is among them. Raises UserError for an unknown name."""
    known = [*DIALECTS, MCP]
    for name in names:
        if name not in known:
            raise UserError(f"There is no dialect {name!r}: choose among {', '.join(known)}.")
    wanted = names or tuple(known)
    return [dialect for name, dialect in DIALECTS.items() if name in wanted], MCP in wanted
