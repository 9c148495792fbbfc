r"""The registry of profiles: the three systems' released 4B checkpoints, and the tiny model of the CPU recipe.

Values come from the systems' public code and papers, field by field as marked; where a source is silent the value is ours and
says so. The prompts' content is in our own words; the tool block is the Qwen3 template's. All three checkpoints descend from
Qwen3-4B-Thinking-2507, whose template ends its generation prompt with ``<think>\n``.
Knows no model and no tool's insides.
"""

import difflib
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from sanderling.core.errors import UserError
from sanderling.core.types import Sampling


class ResultLayout(StrEnum):
    """How search results are laid out as text."""

    JSON = "json"
    """DR-Venus: a JSON list of ``{"query", "web_page_info_list": [{title, url, snippet, date}]}``."""
    MARKDOWN = "markdown"
    """LiteResearcher, AgentCPM-Explore and Tongyi: numbered Markdown links under ``## Web Results``."""
    COMPACT = "compact"
    """Tiny models: number, title, URL and snippet in as few tokens as can be."""


class ToolNames(BaseModel):
    """What this family calls its tools and their arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    search: str = "search"
    search_query: str = "query"
    visit: str = "visit"
    visit_url: str = "url"
    visit_goal: str = "goal"


class Budgets(BaseModel):
    """When an episode must end."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_turns: int = Field(default=200, ge=1)
    """Model turns, the forced answer not counted."""
    max_context_tokens: int = Field(default=262_144, ge=16)
    """Most tokens the model may see, answer included."""
    answer_reserve_tokens: int = Field(default=8_192, ge=1)
    """Kept free for a forced answer."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Wall time of an episode; None: unlimited."""
    tool_timeout_s: float = Field(default=150.0, gt=0)
    force_answer: bool = True
    """Whether the agent is told to answer when a budget is used up."""


class Guards(BaseModel):
    """What counts as going round in circles, and how patient the loop is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_retries: int = Field(default=4, ge=0)
    """Further attempts at a turn that is malformed, repetitive or repeats a call. Recipes set 0 for RL."""
    max_repeated_calls: int = Field(default=8, ge=1)
    """The episode ends in REPETITION when turns that only repeat earlier calls number this many."""
    repetition_tail_chars: int = Field(default=50, ge=8)
    repetition_count: int = Field(default=5, ge=2)
    """A turn is repetitive when its last ``repetition_tail_chars`` characters occur more often than this in it."""
    max_malformed: int = Field(default=5, ge=1)
    """The episode ends in MALFORMED after this many malformed turns in a row."""


class Profile(BaseModel):
    """Everything that must be the same in data generation, training, evaluation and serving."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    source: str
    """Where these values come from."""
    system_prompt: str
    """``{tools}`` is replaced by the tool block, ``{date}`` by the clock's date."""
    question_template: str = "{question}"
    think_prefix: str = "<think>\n"
    """Put after ``<|im_start|>assistant\\n``: the model continues inside its reasoning. Empty: the model opens it itself."""
    tools: ToolNames = ToolNames()
    results: ResultLayout = ResultLayout.JSON
    results_per_query: int = Field(default=10, ge=1)
    snippet_words: int = Field(default=30, ge=4)
    """Length of one result's snippet."""
    visit_words: int = Field(default=2_000, ge=8)
    """Budget of one visited page's extract, in words."""
    visit_parts: bool = False
    """Whether long pages can be read on: what is read says how many parts there are, and ``URL#page=2`` asks for one. Off for
    checkpoints that were not trained so; a part is then no part of an address, as on the web."""
    force_hint: str
    """What the agent reads when a budget is used up; put *after* the last observation, which is kept, in the same wrapper."""
    malformed_hint: str
    """What the agent reads after a malformed turn; ``{problem}`` is replaced by one sentence."""
    sampling: Sampling = Sampling()
    budgets: Budgets = Budgets()
    guards: Guards = Guards()


_FORCE_HINT = (
    "The budget of this task is used up: no further tool call will be run. Decide now from what you have already found, "
    "and reply in this form:\n<think>your last reasoning</think>\n<answer>your answer</answer>"
)
_MALFORMED_HINT = (
    "Your last turn could not be used. {problem} Write your reasoning between <think> and </think>, and after it either "
    "exactly one <tool_call> with a JSON object, or the final answer between <answer> and </answer>."
)

DR_VENUS_4B = Profile(
    name="dr-venus-4b",
    source="DR-Venus: arXiv 2604.19859 and the inference script released with it",
    system_prompt=(
        "You are a deep research assistant. Investigate the question thoroughly, whether it is about everyday matters or a "
        "specialised field. Gather evidence from several trustworthy and independent sources, **cross-check** what they "
        "say, and weigh it into one accurate, complete and objective result. Keep researching until you have enough to be "
        "sure. Give the final result only then, and put all of it between `<answer>` and "
        "`</answer>`.\n\n{tools}\n\nCurrent date: {date}\n"
    ),
    force_hint=_FORCE_HINT,
    malformed_hint=_MALFORMED_HINT,
    results=ResultLayout.JSON,  # the cleaner and the released trajectories
    sampling=Sampling(  # inference defaults; the paper states the same
        temperature=1.0,
        top_p=0.95,
        top_k=20,
        presence_penalty=1.1,
        max_tokens=15_000,
        stop=("<tool_response>", "\n<tool_response>"),
    ),
    budgets=Budgets(
        max_turns=200,  # paper, and the step limit of the script
        max_context_tokens=262_144,  # paper: 256K
        answer_reserve_tokens=32_144,  # the released script forces an answer at 230,000 tokens
        max_seconds=18_000.0,  # the released script (9,000 is the program's own default)
        tool_timeout_s=150.0,  # RL configuration
    ),
    # At most five attempts a turn, a tail of 50 characters seen more than five times is repetition: inference script.
    # The limits that end an episode are ours: the original goes on until its 200 steps are burnt.
    guards=Guards(max_retries=4, repetition_tail_chars=50, repetition_count=5),
)

LITERESEARCHER_4B = Profile(
    name="literesearcher-4b",
    source="LiteResearcher: arXiv 2604.17931, released inference and RL data code",
    system_prompt=(
        "You are a research assistant for hard questions that need *deep research*. Two tools help you: one searches the "
        "web, the other reads web pages for you. There is no need to answer at once: first think about what is asked, what "
        "is still missing and what to look up next.\n\nEvery reply has one of two forms. To look something "
        "up:\n<think>\nyour reasoning\n</think>\n<tool_call>\nyour tool call\n</tool_call>\n\nOnce you know "
        "enough:\n<think>\nyour reasoning\n</think>\n<answer>\nyour answer\n</answer>\n\n{tools}\n\nNever leave these two "
        "forms. Between the answer tags write nothing but the answer itself: a word, a number or a phrase, and for a "
        "yes-or-no question only yes or no.\n\nCurrent date: {date}"
    ),
    question_template=" Question: {question}",  # RL data code, leading space included; its inference sends the bare question
    force_hint=_FORCE_HINT,
    malformed_hint=_MALFORMED_HINT,
    results=ResultLayout.MARKDOWN,
    sampling=Sampling(  # inference defaults
        temperature=0.6,
        top_p=0.95,
        top_k=20,
        presence_penalty=1.1,
        max_tokens=10_000,
        stop=("<tool_response>", "\n<tool_response>"),
    ),
    budgets=Budgets(
        max_turns=100,  # inference default: model calls a question
        max_context_tokens=90_000,  # inference default
        answer_reserve_tokens=11_000,  # one turn and the 1,000 tokens of slack that inference keeps
        max_seconds=9_000.0,  # inference default
        tool_timeout_s=150.0,  # ours: the source sets no limit for a call
    ),
    guards=Guards(),  # ours: the source has no guards at inference
)

AGENTCPM_EXPLORE_4B = Profile(
    name="agentcpm-explore-4b",
    source="AgentCPM-Explore: arXiv 2602.06485, evaluation scripts and tool configuration released with it",
    system_prompt=(
        "You are an agent that explores the web to answer difficult questions. Take the question apart, plan, and work "
        "through it step by step with the tools below; change your plan when the evidence says so. Do not trust a single "
        "page: confirm each fact that the answer rests on. Think before every tool call. When the answer is certain, give "
        "it between <answer> and </answer>, short and to the point.\n\n{tools}\n\nDate today is {date}."
    ),
    tools=ToolNames(visit="fetch_url", visit_goal="purpose"),  # tool configuration of the released node
    force_hint=_FORCE_HINT,
    malformed_hint=_MALFORMED_HINT,
    results=ResultLayout.MARKDOWN,
    sampling=Sampling(temperature=1.0, top_p=1.0, top_k=0, presence_penalty=0.0, max_tokens=16_384),  # evaluation scripts
    budgets=Budgets(
        max_turns=200,  # evaluation scripts (the README says 50)
        max_context_tokens=128_000,  # evaluation code
        answer_reserve_tokens=17_408,  # evaluation code: one turn of 16,384 and 1,024 of slack
        tool_timeout_s=180.0,  # the node's own limit for a call
    ),
    # 20 turns without a call before an answer is forced: evaluation code. Four repeats: RL scripts. Retries are ours.
    guards=Guards(max_malformed=20, max_repeated_calls=4),
)

TINY = Profile(
    name="tiny",
    source="This project: models of a few million parameters on a CPU",
    # No schemas: they would cost such a model a third of its context and teach it nothing.
    system_prompt="You are a research agent. Tools: search, visit. Think, then call one tool or answer.",
    force_hint="Budget used up. Answer now.",
    malformed_hint="Malformed turn: {problem}",
    results=ResultLayout.COMPACT,
    results_per_query=3,
    snippet_words=14,
    visit_words=60,
    sampling=Sampling(temperature=0.6, max_tokens=96),
    budgets=Budgets(max_turns=12, max_context_tokens=1_536, answer_reserve_tokens=64),
    guards=Guards(max_retries=0, max_malformed=3, max_repeated_calls=4),
)

PROFILES: dict[str, Profile] = {
    "dr-venus-4b": DR_VENUS_4B,
    "literesearcher-4b": LITERESEARCHER_4B,
    "agentcpm-explore-4b": AGENTCPM_EXPLORE_4B,
    "tiny": TINY,
}


def get_profile(name: str) -> Profile:
    """The profile of that name. Raises UserError, with the nearest name, when there is none."""
    found = PROFILES.get(name)
    if found is not None:
        return found
    near = difflib.get_close_matches(name, PROFILES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(PROFILES)}."
    raise UserError(f"There is no profile {name!r}: {hint}")
