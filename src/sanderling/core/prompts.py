"""What the model is told: tool specifications, the system prompt, a profile's templates filled in, and search results as text.

The JSON and Markdown layouts of results have the shapes that the released checkpoints saw in training. Tools lay out what they
found with it, and cleaning what was recorded: one renderer, so that training and serving show the same.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from sanderling.core.observations import SearchBlock
from sanderling.core.profiles import Profile, ResultLayout
from sanderling.core.types import Clock, ToolSpec

_SLOT = re.compile(r"\{(tools|date)\}")


def default_specs(profile: Profile) -> tuple[ToolSpec, ToolSpec]:
    """Search, with a list of queries, and visit, with a list of URLs and what is wanted of them, under the profile's names."""
    names = profile.tools
    visits = "Read web pages. Returns the passages of each page that serve what you are looking for."
    if profile.visit_parts:
        visits += " A URL that ends in #page=2 gives the second part of a long page as it stands, and so on."
    several = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    queries = {**several, "description": "One or more search queries; each is searched on its own."}
    urls = {**several, "description": "One or more URLs of pages to read."}
    goal = {"type": "string", "description": "What you want to learn from these pages."}
    searches = "Search the web. Returns the top results of every query: title, URL and snippet."

    def spec(name: str, description: str, properties: dict[str, Any]) -> ToolSpec:
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        return ToolSpec(name=name, description=description, parameters=schema)

    visit = spec(names.visit, visits, {names.visit_url: urls, names.visit_goal: goal})
    return spec(names.search, searches, {names.search_query: queries}), visit


_TOOLS = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{lines}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>"""
"""As Qwen3's own chat template lays it out (Hermes form), to the letter: the models were trained on it."""


def render_system(profile: Profile, specs: Sequence[ToolSpec], clock: Clock) -> str:
    """The system prompt of one episode: ``{tools}`` becomes the tool block, ``{date}`` the clock's date (ISO 8601)."""
    functions = [{"type": "function", "function": spec.model_dump()} for spec in specs]
    lines = "\n".join(json.dumps(function, ensure_ascii=False) for function in functions)
    # One pass, so that a tool description containing "{date}" stays as it is.
    values = {"tools": _TOOLS.replace("{lines}", lines), "date": clock.today().isoformat()}
    return _SLOT.sub(lambda slot: values[slot[1]], profile.system_prompt)


def render_question(profile: Profile, question: str) -> str:
    """The first user message."""
    return profile.question_template.replace("{question}", question)


def render_malformed(profile: Profile, problem: str) -> str:
    """The notice after a malformed turn; ``problem`` is one sentence."""
    return profile.malformed_hint.replace("{problem}", problem)


BETWEEN = "\n=======\n"
"""Stands between the blocks of one call in the JSON and Markdown layouts."""


def results_text(lists: Sequence[SearchBlock], layout: ResultLayout, *, empty: str) -> str:
    """The results of one call, a block for each query, in order. ``empty``: what the compact layout says of no results."""
    if layout is ResultLayout.JSON:
        blocks: list[dict[str, object]] = []
        for found in lists:
            pages = [{"title": one_line(h.title), "url": h.url, "snippet": h.snippet, "date": h.date} for h in found.hits]
            error = {"error": found.error} if found.error else {}
            blocks.append({"query": found.query, "web_page_info_list": pages, **error})
        return json.dumps(blocks, ensure_ascii=False)
    texts: list[str] = []
    for found in lists:
        if layout is ResultLayout.MARKDOWN and found.error:
            texts.append(f"A Google search for '{found.query}' failed. {found.error}")
        elif layout is ResultLayout.MARKDOWN:
            entries = []
            for number, hit in enumerate(found.hits, start=1):
                date = f"\nDate published: {hit.date}" if hit.date else ""
                entries.append(f"{number}. [{one_line(hit.title)}]({hit.url}){date}\n\n{hit.snippet}")
            head = f"A Google search for '{found.query}' found {len(entries)} results:\n\n## Web Results\n"
            texts.append(head + "\n\n".join(entries))
        elif found.hits:
            numbered = enumerate(found.hits, start=1)
            texts.append("\n".join(f"[{number}] {one_line(hit.title)}\n{hit.url}\n{hit.snippet}" for number, hit in numbered))
        else:
            texts.append(found.error or empty)
    return (BETWEEN if layout is ResultLayout.MARKDOWN else "\n\n").join(texts)


def one_line(text: str) -> str:
    """The text with every run of white space as one blank, as titles are shown."""
    return " ".join(text.split())
