"""How a server says no: one sentence in JSON with the right status. Nothing that goes wrong inside is shown to a client."""

from collections.abc import Sequence

from starlette.responses import JSONResponse

from sanderling.core.types import ToolStatus


class RefusalError(Exception):
    """A request that is not answered.

    Attributes:
        status: of HTTP.
        sentence: what is wrong and what to do.
        reason: one word for the counters.

    """

    def __init__(self, status: int, sentence: str, reason: str = "bad_request") -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.reason = reason


FAILURE = RefusalError(500, "Something went wrong in the server: its log says what.", "failure")
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}, 503: {"Retry-After": "1"}}

_OF_STATUS = {
    ToolStatus.NOT_FOUND: (404, "No page was found at this address."),
    ToolStatus.GONE: (410, "The page no longer exists."),
    ToolStatus.TIMEOUT: (504, "The request for the page timed out."),
    ToolStatus.BLOCKED: (403, "The site refused access to the page."),
    ToolStatus.PAYWALLED: (402, "The page is behind a paywall."),
    ToolStatus.NOT_TEXT: (415, "The page is not readable text."),
    ToolStatus.RATE_LIMITED: (429, "Too many requests at once; try again later."),
    ToolStatus.OUTAGE: (503, "The service is unreachable."),
}


def refuse(error: RefusalError) -> JSONResponse:
    """The reply for a refusal."""
    return JSONResponse({"error": error.sentence}, status_code=error.status, headers=_HEADERS.get(error.status))


def no_route(method: str) -> RefusalError:
    """For an address where nothing is served by this method."""
    return RefusalError(404, f"There is no such route for {method}: see docs/worlds-serving.md.", "no_route")


def sentence_of(status: ToolStatus) -> str:
    """What a world's failure means, in one sentence; empty for what is no failure."""
    if status in (ToolStatus.OK, ToolStatus.EMPTY):
        return ""
    return _OF_STATUS.get(status, (502, "The call failed."))[1]


def require_any_served(statuses: Sequence[ToolStatus]) -> None:
    """For a batch: raises RefusalError when every part failed.

    A part that failed beside others has no results: the clients of batches know no failure of a part, and one fault must not
    cost the rest.
    """
    if not any(status in (ToolStatus.OK, ToolStatus.EMPTY) for status in statuses):
        require_served(statuses[0])


def require_served(status: ToolStatus) -> None:
    """Raises RefusalError for a failure of the world, with the status that the live web would give."""
    if status not in (ToolStatus.OK, ToolStatus.EMPTY):
        raise RefusalError(*_OF_STATUS.get(status, (502, "The call failed.")), reason="world")
