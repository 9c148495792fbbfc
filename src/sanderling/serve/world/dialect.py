"""The contract of a dialect: some routes, each an async function from a request to a reply, over `calls.WorldCalls`.

Two dialects may share a path; each route then says which bodies are its own. A dialect knows the shapes of its clients and
nothing of limits, tokens or other dialects.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from sanderling.serve.world.calls import WorldCalls
from sanderling.serve.world.refusal import RefusalError
from sanderling.serve.world.settings import ServerSettings

Body = TypeVar("Body", bound=BaseModel)
MOST_QUERIES = 100
MOST_URLS = 1_000


@dataclass(frozen=True)
class Asked:
    """A request as a route sees it."""

    calls: WorldCalls
    settings: ServerSettings
    request: Request
    body: Any
    """The JSON of a POST; None for a GET."""


def _any_body(_: Any) -> bool:
    return True


@dataclass(frozen=True)
class DialectRoute:
    """One path of a dialect."""

    method: str
    path: str
    """As Starlette writes paths."""
    answer: Callable[[Asked], Awaitable[Response]]
    """May raise RefusalError."""
    claims: Callable[[Any], bool] = _any_body
    """Whether a body is meant for this route, where several dialects share its path."""
    shape: str = ""
    """What such a body looks like, for the refusal of one that nobody claims."""


@dataclass(frozen=True)
class Dialect:
    """A way of speaking that some clients know."""

    name: str
    summary: str
    routes: tuple[DialectRoute, ...]


class ForeignBody(BaseModel):
    """A body of others' clients: keys that we have no use for are ignored, as their own servers do."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


def parse(model: type[Body], body: Any) -> Body:
    """The body as a model. Raises RefusalError (400) that names the first wrong field."""
    if not isinstance(body, dict):
        raise RefusalError(400, "The body must be one JSON object: send an object with this route's fields.")
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        raise RefusalError(400, f"In the body, {where}: {what[:1].lower()}{what[1:]}.") from None
