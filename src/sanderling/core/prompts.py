"""What the model is told: tool specifications, the system prompt, a profile's templates filled in, and search results as text.

The JSON and Markdown layouts of results have the shapes that the released checkpoints saw in training (checked against recorded
trajectories); the compact one spends as few tokens as can be. Tools lay out what they found with it, and cleaning lays out what
was recorded: one renderer, so that training and serving show the same.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from sanderling.core.observations import ListedPage, SearchBlock
from sanderling.core.profiles import Profile, ResultLayout, ToolNames
from sanderling.core.types import Clock, ToolSpec

_SLOT = re.compile(r"\{(tools|date)\}")


def search_spec(names: ToolNames) -> ToolSpec:
    """The search tool: a list of queries, at least one."""
    queries = {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "description": "One or more search queries; each is searched on its own.",
    }
    return ToolSpec(
        name=names.search,
        description="Search the web. Returns the top results of every query: title, URL and snippet.",
        parameters=_object_schema({names.search_query: queries}),
    )


def visit_spec(names: ToolNames, *, parts: bool = False) -> ToolSpec:
    """The page reader: a list of URLs and what is wanted from them; ``parts``: long pages can be read on."""
    urls = {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "One or more URLs of pages to read."}
    goal = {"type": "string", "description": "What you want to learn from these pages."}
    return ToolSpec(
        name=names.visit,
        description="Read web pages. Returns the passages of each page that serve what you are looking for."
        + (" A URL that ends in #page=2 gives the second part of a long page as it stands, and so on." if parts else ""),
        parameters=_object_schema({names.visit_url: urls, names.visit_goal: goal}),
    )


def default_specs(profile: Profile) -> tuple[ToolSpec, ...]:
    """Search and visit under the profile's names."""
    return (search_spec(profile.tools), visit_spec(profile.tools, parts=profile.visit_parts))


def tool_block(specs: Sequence[ToolSpec]) -> str:
    """The tool section of a Qwen3 system prompt, as the model's own chat template lays it out (Hermes form).

    One JSON line per tool between ``<tools>`` tags, then how a call is written. This wording is an interface: Qwen3 models
    were trained on it, so it is kept to the letter.
    """
    lines = "\n".join(_spec_line(spec) for spec in specs)
    return (
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n"
        f"<tools>\n{lines}\n</tools>\n\n"
        "For each function call, return a json object with function name and arguments "
        "within <tool_call></tool_call> XML tags:\n"
        '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
    )


def render_system(profile: Profile, specs: Sequence[ToolSpec], clock: Clock) -> str:
    """The system prompt of one episode: ``{tools}`` becomes the tool block, ``{date}`` the clock's date (ISO 8601)."""
    # One pass, so that a tool description containing "{date}" stays as it is.
    values = {"tools": tool_block(specs), "date": clock.today().isoformat()}
    return _SLOT.sub(lambda slot: values[slot[1]], profile.system_prompt)


def render_question(profile: Profile, question: str) -> str:
    """The first user message."""
    return profile.question_template.replace("{question}", question)


def render_malformed(profile: Profile, problem: str) -> str:
    """The notice after a malformed turn; ``problem`` is one sentence."""
    return profile.malformed_hint.replace("{problem}", problem)


def _object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _spec_line(spec: ToolSpec) -> str:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return json.dumps({"type": "function", "function": function}, ensure_ascii=False)


BETWEEN = "\n=======\n"
"""Stands between the blocks of one call in the JSON and Markdown layouts."""


def results_text(lists: Sequence[SearchBlock], layout: ResultLayout, *, empty: str) -> str:
    """The results of one call, a block for each query, in order. ``empty``: what the compact layout says of no results."""
    match layout:
        case ResultLayout.JSON:
            return json.dumps([_json_block(found) for found in lists], ensure_ascii=False)
        case ResultLayout.MARKDOWN:
            return BETWEEN.join(_markdown_block(found) for found in lists)
        case ResultLayout.COMPACT:
            return "\n\n".join(_compact_block(found, empty) for found in lists)


def one_line(text: str) -> str:
    """The text with every run of white space as one blank, as titles are shown."""
    return " ".join(text.split())


def _json_block(found: SearchBlock) -> dict[str, object]:
    pages = [{"title": one_line(hit.title), "url": hit.url, "snippet": hit.snippet, "date": hit.date} for hit in found.hits]
    block: dict[str, object] = {"query": found.query, "web_page_info_list": pages}
    return block | {"error": found.error} if found.error else block


def _markdown_block(found: SearchBlock) -> str:
    if found.error:
        return f"A Google search for '{found.query}' failed. {found.error}"
    entries = [_markdown_entry(number, hit) for number, hit in enumerate(found.hits, start=1)]
    head = f"A Google search for '{found.query}' found {len(entries)} results:\n\n## Web Results\n"
    return head + "\n\n".join(entries)


def _markdown_entry(number: int, hit: ListedPage) -> str:
    date = f"\nDate published: {hit.date}" if hit.date else ""
    return f"{number}. [{one_line(hit.title)}]({hit.url}){date}\n\n{hit.snippet}"


def _compact_block(found: SearchBlock, empty: str) -> str:
    if not found.hits:
        return found.error or empty
    return "\n".join(
        f"[{number}] {one_line(hit.title)}\n{hit.url}\n{hit.snippet}" for number, hit in enumerate(found.hits, start=1)
    )
