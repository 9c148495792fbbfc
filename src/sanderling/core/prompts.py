"""What the model is told: tool specifications, the tool block, and a profile's templates filled in.

Pure functions from a profile and values to text. Dates come from the clock that is handed in. Knows no tokens and no tool's
insides: a specification here is only what the model reads.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from sanderling.core.clock import Clock
from sanderling.core.messages import ToolSpec
from sanderling.core.profile import Profile, ToolNames

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
