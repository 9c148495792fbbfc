"""What a tool does, from its name alone: for imports, which come without a profile. Knows no tool's insides."""

_ROLES = {
    "search": "search",
    "google_search": "search",
    "web_search": "search",
    "visit": "visit",
    "browse": "visit",
    "fetch_url": "visit",
}


def tool_role(name: str) -> str:
    """``"search"``, ``"visit"``, or ``""`` for any other tool."""
    return _ROLES.get(name.strip().lower(), "")
