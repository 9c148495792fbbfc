"""What a tool does, from its name alone: for imports, which come without a profile. Knows no tool's insides."""

_ROLES = {
    "search": "search",
    "google_search": "search",
    "web_search": "search",
    "websearch": "search",
    "search_web": "search",
    "internet_search": "search",
    "bing_search": "search",
    "serper_search": "search",
    "visit": "visit",
    "browse": "visit",
    "fetch_url": "visit",
    "visit_page": "visit",
    "visit_url": "visit",
    "visit_webpage": "visit",
    "open_url": "visit",
    "read_page": "visit",
    "read_url": "visit",
    "web_visit": "visit",
    "web_fetch": "visit",
    "jina_reader": "visit",
}


def tool_role(name: str) -> str:
    """``"search"``, ``"visit"``, or ``""`` for any other tool."""
    return _ROLES.get(name.strip().lower(), "")
