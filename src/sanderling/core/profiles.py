"""Profiles: what one family of checkpoints was trained to see, as data.

A released checkpoint is driven by naming its profile. The built-in ones are in ``profiles.toml``; anybody's own is a TOML file
with the same fields, or a `Profile` in a Python file.
"""

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field

from sanderling.core.config import Frozen, read_config
from sanderling.core.plugins import resolve
from sanderling.core.types import Clock, Sampling, ToolSpec, ToolStatus


class ResultLayout(StrEnum):
    """How search results are laid out as text."""

    JSON = "json"  # DR-Venus
    MARKDOWN = "markdown"  # LiteResearcher, AgentCPM-Explore and Tongyi: numbered links
    COMPACT = "compact"  # tiny models: as few tokens as can be
    CITED = "cited"  # general models: pages as numbered passages, which an answer can cite


class ToolNames(Frozen):
    """What this family calls its tools and their arguments."""

    search: str = "search"
    search_query: str = "query"
    visit: str = "visit"
    visit_url: str = "url"
    visit_goal: str = "goal"


class Budgets(Frozen):
    """When an episode must end."""

    max_turns: int = Field(default=200, ge=1)  # model turns, the forced answer not counted
    max_context_tokens: int = Field(default=262_144, ge=16)
    answer_reserve_tokens: int = Field(default=8_192, ge=1)  # kept free for a forced answer
    max_seconds: float | None = Field(default=None, gt=0)
    tool_timeout_s: float = Field(default=150.0, gt=0)
    force_answer: bool = True  # whether the agent is told to answer when a budget is used up


class Guards(Frozen):
    """What counts as going round in circles, and how patient the loop is."""

    max_retries: int = Field(default=4, ge=0)
    """Further attempts at a turn that is malformed, repetitive or repeats a call. Recipes set 0 for RL."""
    max_repeated_calls: int = Field(default=8, ge=1)
    """The episode ends in REPETITION when turns that only repeat earlier calls number this many."""
    repetition_tail_chars: int = Field(default=50, ge=8)
    repetition_count: int = Field(default=5, ge=2)
    """A turn is repetitive when its last ``repetition_tail_chars`` characters occur more often than this in it."""
    max_malformed: int = Field(default=5, ge=1)  # the episode ends in MALFORMED after this many malformed turns in a row


class Profile(Frozen):
    """Everything that must be the same in data generation, training, evaluation and serving."""

    name: str
    source: str
    system_prompt: str  # ``{tools}`` is replaced by the tool block, ``{date}`` by the clock's date
    question_template: str = "{question}"
    think_prefix: str = "<think>\n"
    """Put after ``<|im_start|>assistant\\n``: the model continues inside its reasoning. Empty: the model opens it itself."""
    general: bool = False
    """Whether turns are any chat model's (`core.general`): calls in fields of their own where the server takes tools, or in
    other systems' text forms, and prose as an answer. Otherwise they have the one form that the model was trained on."""
    tools: ToolNames = ToolNames()
    results: ResultLayout = ResultLayout.JSON
    results_per_query: int = Field(default=10, ge=1)
    snippet_words: int = Field(default=30, ge=4)
    visit_words: int = Field(default=2_000, ge=8)  # most words of one visited page's extract
    visit_parts: bool = False
    """Whether long pages can be read on, with ``URL#page=2``. Off for checkpoints that were not trained so."""
    force_hint: str = (
        "The budget of this task is used up: no further tool call will be run. Decide now from what you have already found, "
        "and reply in this form:\n<think>your last reasoning</think>\n<answer>your answer</answer>"
    )
    """What the agent reads when a budget is used up; put *after* the last observation, in the same wrapper."""
    malformed_hint: str = (
        "Your last turn could not be used. {problem} Write your reasoning between <think> and </think>, and after it either "
        "exactly one <tool_call> with a JSON object, or the final answer between <answer> and </answer>."
    )
    """The notice after a malformed turn; ``{problem}`` is replaced by one sentence."""
    sampling: Sampling = Sampling()
    budgets: Budgets = Budgets()
    guards: Guards = Guards()


_TABLES = tomllib.loads(files("sanderling.core").joinpath("profiles.toml").read_text(encoding="utf-8"))
PROFILES = {name: Profile(name=name, **values) for name, values in _TABLES.items()}
TINY = PROFILES["tiny"]


def get_profile(name: str) -> Profile:
    """The profile of that name. Raises UserError, with the nearest name, when there is none.

    Example: ``get_profile("tiny")``, ``get_profile("mine/profile.toml")``, ``get_profile("mine/profiles.py:TERSE")``
    """
    if name.endswith(".toml"):
        return read_config(Profile, Path(name), [f"name='{Path(name).stem}'"])
    return resolve(name, PROFILES, "profile", Profile)


# -- what the model is told -----------------------------------------------------------------------------------------------

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
    """The system prompt of one episode: ``{tools}`` becomes their block (none: nothing), ``{date}`` the clock's date."""
    functions = [{"type": "function", "function": spec.model_dump()} for spec in specs]
    lines = "\n".join(json.dumps(function, ensure_ascii=False) for function in functions)
    # One pass, so that a tool description containing "{date}" stays as it is.
    values = {"tools": _TOOLS.replace("{lines}", lines) if specs else "", "date": clock.today().isoformat()}
    return _SLOT.sub(lambda slot: values[slot[1]], profile.system_prompt).strip("\n" if not specs else "")


def render_question(profile: Profile, question: str) -> str:
    """The first user message."""
    return profile.question_template.replace("{question}", question)


@dataclass(frozen=True)
class ListedPage:
    """One entry of a list of results."""

    title: str
    url: str
    snippet: str
    date: str = ""
    source: str = ""


@dataclass(frozen=True)
class SearchBlock:
    """The results of one query, or what was said of its failure."""

    query: str
    hits: tuple[ListedPage, ...]
    error: str = ""


BETWEEN = "\n=======\n"  # stands between the blocks of one call in the JSON and Markdown layouts


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
        if layout is ResultLayout.MARKDOWN and found.error and not found.hits:
            texts.append(f"A Google search for '{found.query}' failed. {found.error}")
        elif layout is ResultLayout.MARKDOWN:
            entries = []
            for number, hit in enumerate(found.hits, start=1):
                date = f"\nDate published: {hit.date}" if hit.date else ""
                entries.append(f"{number}. [{one_line(hit.title)}]({hit.url}){date}\n\n{hit.snippet}")
            head = f"A Google search for '{found.query}' found {len(entries)} results:\n\n## Web Results\n"
            texts.append(head + "\n\n".join(entries))
        elif layout is ResultLayout.CITED:
            entries = [f"Results for {found.query!r}:"]
            for hit in found.hits:
                about = ", ".join(filter(None, (hit.source, hit.date)))
                entries.append(f"- {one_line(hit.title)}{f' ({about})' if about else ''}\n  {hit.url}\n  {hit.snippet}")
            said = found.error or ("" if found.hits else empty)
            texts.append("\n".join([*entries, *([said] if said else [])]))
        elif found.hits:
            numbered = enumerate(found.hits, start=1)
            texts.append("\n".join(f"[{number}] {one_line(hit.title)}\n{hit.url}\n{hit.snippet}" for number, hit in numbered))
        else:
            texts.append(found.error or empty)
    return (BETWEEN if layout is ResultLayout.MARKDOWN else "\n\n").join(texts)


MISSES = {
    ToolStatus.EMPTY: ("The search found nothing; try other words.", "No results."),
    ToolStatus.NOT_FOUND: ("No page was found at this address; check the URL or try another page.", "Page not found."),
    ToolStatus.GONE: ("The page no longer exists; try another page.", "Page gone."),
    ToolStatus.TIMEOUT: ("The request timed out; try again or try something else.", "Timed out."),
    ToolStatus.BLOCKED: ("The site refused access; try another page.", "Page blocked."),
    ToolStatus.FORBIDDEN: ("This address may not be read from here; try another page.", "Address not allowed."),
    ToolStatus.PAYWALLED: ("The page is behind a paywall; try another page.", "Page paywalled."),
    ToolStatus.NOT_TEXT: ("The page is not readable text; try another page.", "Page not readable."),
    ToolStatus.RATE_LIMITED: ("Too many requests at once; try again later.", "Try later."),
    ToolStatus.SPENT: ("No more searches and pages can be paid for: answer from what you have read.", "Budget spent."),
    ToolStatus.HELD: (
        "Not sent to the web, since it repeats words of private pages: search in words of your own, without their contents.",
        "Not sent: private words.",
    ),
    ToolStatus.OUTAGE: ("The service is unreachable.", "Unreachable."),
}
"""What is said of a part that failed, in a sentence and in the compact layout."""


def status_sentence(status: ToolStatus, layout: ResultLayout) -> str:
    """What the agent reads for a part that failed; a word or two in the compact layout."""
    sentence, short = MISSES.get(status, ("The call failed.", "The call failed."))
    return short if layout is ResultLayout.COMPACT else sentence


def one_line(text: str) -> str:
    """The text with every run of white space as one blank, as titles are shown."""
    return " ".join(text.split())
