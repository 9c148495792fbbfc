"""The contract of a tool: an async callable with a JSON schema, handed a context, returning text with its status.

A tool never raises for what the world does (dead links, time-outs, wrong arguments): those are statuses with a text. It raises
:class:`ToolOutageError` when its own backend is broken, which ends the episode unscored. A plain function becomes one:

    @tool
    def tides(place: str, days: int = 1) -> str:
        '''When the sand of a place is dry.'''
        return f"at noon, for {days} days"
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic import ConfigDict, ValidationError, create_model

from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile
from sanderling.core.types import ToolSpec, ToolStatus

if TYPE_CHECKING:
    from sanderling.world.contract import VisitReply


class ToolOutageError(Exception):
    """The tool's backend is broken or unreachable: the episode ends unscored, and may be tried again."""


@dataclass(frozen=True)
class ToolContext:
    """What a tool may know of the episode it serves."""

    episode_seed: int = 0  # keys faults and latencies; shared by the rollouts of one group
    masked_urls: frozenset[str] = frozenset()  # pages hidden from this episode, in search and visit alike
    ordinal: int = 0  # which call of the episode this is, from 0
    occurrence: int = 0  # how often the very same call was made before in this episode
    deadline_s: float | None = None  # seconds left for this call; None: no limit
    question: str = ""  # id of what the episode researches; empty: nobody said. Guards hide what gives it away (`world.guard`).
    attempt: int = 0  # which attempt at the question this is; for logs
    session: str = ""  # whose files a tool keeps apart from others': one run of one episode
    tell: Callable[[str], None] | None = field(default=None, compare=False, repr=False)  # for a person: how a long call goes on


@dataclass(frozen=True)
class Span:
    """A passage of a page within a result: characters ``start`` to ``end`` of its text, before which its number is put."""

    start: int
    end: int
    url: str
    title: str


@dataclass(frozen=True)
class ToolResult:
    """What a call returned."""

    text: str  # what the agent reads, without the ``<tool_response>`` wrapper
    status: ToolStatus = ToolStatus.OK
    latency_s: float = 0.0  # seconds; virtual in a world, real on a live backend
    provenance: tuple[str, ...] = ()  # URLs of the pages whose text is in ``text``, in order of appearance
    parts: tuple[ToolStatus, ...] = ()  # one status for each query or URL of the call, in order
    spans: tuple[Span, ...] = ()  # passages that an answer can cite, in order; they do not overlap


@runtime_checkable
class Tool(Protocol):
    """An async callable with a schema."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and JSON schema of the arguments."""
        ...

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run one call. Wrong arguments are answered with status ``BAD_ARGUMENTS``; raises ToolOutageError when broken."""
        ...


@runtime_checkable
class Keeper(Protocol):
    """A tool that keeps something for a session between its calls, such as files."""

    async def leave(self, session: str) -> None:
        """The session is over: drop what was kept for it. One that never called is no mistake."""
        ...


def keeper_of(tool: Tool | None) -> Keeper | None:
    """What keeps something behind a tool and those it stands before (their attribute ``tool``); None: nothing does."""
    while (inner := getattr(tool, "tool", None)) is not None:
        tool = inner
    return tool if isinstance(tool, Keeper) else None


def settings_of(tool: Tool) -> Any:
    """JSON of what a tool's results depend on beside its arguments (its ``settings``, or those of one it stands before)."""
    while (found := getattr(tool, "settings", None)) is None and (inner := getattr(tool, "tool", None)) is not None:
        tool = inner
    return found


def tool_roles(profile: Profile) -> dict[str, str]:
    """What each of the profile's tools is: its name -> ``"search"`` or ``"visit"``."""
    return {profile.tools.search: "search", profile.tools.visit: "visit"}


class BadArgumentsError(Exception):
    """The arguments cannot be read; the message is one sentence that names the right shape."""


def string_list(arguments: Mapping[str, Any], name: str, tool: str, example: str) -> list[str]:
    """A non-empty list of non-blank strings; a string is a list of one. Raises BadArgumentsError."""
    value = arguments.get(name)
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        items = [_plain(item) for item in value]
        if all(items):
            return items
    raise BadArgumentsError(
        f'{tool} needs "{name}" as a list of one or more non-empty strings, such as {{"{name}": ["{example}"]}}.'
    )


def optional_string(arguments: Mapping[str, Any], name: str, tool: str, example: str) -> str:
    """A string; absent or null is empty. Raises BadArgumentsError."""
    value = arguments.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return _plain(value)
    raise BadArgumentsError(f'{tool} needs "{name}" as a string, such as {{"{name}": "{example}"}}.')


def _plain(text: str) -> str:
    """Stripped, and without lone surrogates (JSON escapes can smuggle them in), which no page and no tokenizer knows."""
    return text.encode("utf-8", "replace").decode().strip()


CONTEXT = "context"  # a parameter of this name is handed the call's `ToolContext` and is no argument of the model's


class FunctionTool:
    """A function, or an async one where it waits, as a tool; it returns a text or a `ToolResult`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Raises ValueError for a function that a model could not know how to use: without a docstring, or with ``*args``."""
        description = inspect.getdoc(function)
        if not description:
            raise ValueError(f"{function.__name__} needs a docstring: it is what the model is told about the tool")
        parameters = inspect.signature(function, eval_str=True).parameters
        if open_ended := [name for name, one in parameters.items() if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]:
            raise ValueError(f"{function.__name__} takes any {open_ended[0]}: name each argument, so that a model can be told")
        fields: dict[str, Any] = {
            name: (Any if one.annotation is one.empty else one.annotation, ... if one.default is one.empty else one.default)
            for name, one in parameters.items()
            if name != CONTEXT
        }
        self._function, self._takes_context = function, CONTEXT in parameters
        self._arguments = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
        schema = self._arguments.model_json_schema()
        self.spec = ToolSpec(name=function.__name__, description=description, parameters=_without_titles(schema))

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run it. Arguments that do not fit the signature are answered with BAD_ARGUMENTS.

        Raises ToolOutageError where the function raises anything but a UserError: its backend is broken, or it is.
        """
        try:
            given = self._arguments.model_validate(arguments)
        except ValidationError as error:
            found = [(".".join(map(str, one["loc"])), one["msg"].removeprefix("Value error, ")) for one in error.errors()]
            wrong = "; ".join(f"{place}: {what.lower()}" for place, what in found)
            return ToolResult(text=f"{self.spec.name} cannot read its arguments ({wrong}).", status=ToolStatus.BAD_ARGUMENTS)
        values = {name: getattr(given, name) for name in type(given).model_fields}
        if self._takes_context:
            values[CONTEXT] = context
        try:
            found = self._function(**values)
            if inspect.isawaitable(found):
                found = await found
        except (UserError, ToolOutageError):
            raise
        except Exception as error:
            raise ToolOutageError(f"{self.spec.name} raised {type(error).__name__}: {error}") from error
        if found is None:
            raise ToolOutageError(f"{self.spec.name} returned nothing: let it return a text.")
        return found if isinstance(found, ToolResult) else ToolResult(text=str(found))


tool = FunctionTool
"""The decorator; the tool goes to ``open_agent(..., tools=[tides])``, or as ``file.py:tides`` wherever tools are named."""


def _without_titles(schema: Any) -> Any:
    """A JSON schema without the titles that pydantic gives everything: they tell a model nothing."""
    if isinstance(schema, dict):
        return {key: _without_titles(value) for key, value in schema.items() if key != "title" or not isinstance(value, str)}
    return [_without_titles(one) for one in schema] if isinstance(schema, list) else schema


# -- reading visited pages -----------------------------------------------------------------------------------------------

Visit = Callable[[str, int], Awaitable["VisitReply"]]  # the visit of an address with a budget of words, on the occasion at hand


class OnOutage(StrEnum):
    """What an unreachable model does to a visit: it is read without, and counted; or the episode ends unscored."""

    FALL_BACK = "fall-back"
    REFUSE = "refuse"


@runtime_checkable
class Reader(Protocol):
    """What reads visited pages for the agent: `PageReader`, or a reader of one's own."""

    async def read_visits(
        self, visit: Visit, replies: "Sequence[tuple[str, VisitReply]]", goal: str, max_words: int, seconds: float | None
    ) -> "list[VisitReply]":
        """Replies by the addresses asked for, in the same order and each within ``max_words``, read for the goal.

        ``visit`` makes the same visits with another budget of words; ``seconds`` is the real time left for all of it. Raises
        AskingOutageError where the episode is to end unscored.
        """
        ...
