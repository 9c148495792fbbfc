"""The contract of a dialect: some routes, each an async function from a request to a reply, over `calls.WorldCalls`.

Two dialects may share a path; each route then says which bodies are its own.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request

from sanderling.serve.calls import RefusalError, WorldCalls
from sanderling.serve.settings import ServerSettings

Body = TypeVar("Body", bound=BaseModel)
MAX_QUERIES = 100
MAX_URLS = 1_000


@dataclass(frozen=True)
class Call:
    """A request as a route sees it; ``body``: the JSON of a POST, None for a GET."""

    world: WorldCalls
    settings: ServerSettings
    request: Request
    body: Any


@dataclass(frozen=True)
class Route:
    """One path of a dialect, as Starlette writes paths.

    ``answer`` gives a Response, or plain data that is sent as JSON; it may raise RefusalError. ``claims``: whether a body is
    meant for this route, where several dialects share its path; ``shape``: what such a body looks like.
    """

    method: str
    path: str
    answer: Callable[[Call], Awaitable[object]]
    claims: Callable[[Any], bool] = lambda _: True
    shape: str = ""


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


def no_route(method: str) -> RefusalError:
    """For an address where nothing is served by this method."""
    return RefusalError(404, f"There is no such route for {method}: see docs/worlds-serving.md.", "no_route")
