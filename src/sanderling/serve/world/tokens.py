"""Who may ask: tokens compared in constant time, and no other site's pages where there is no token. Pure functions."""

import base64
import binascii
import hashlib
import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from sanderling.serve.world.refusal import RefusalError
from sanderling.serve.world.settings import ServerSettings, is_loopback


def check_client(headers: Headers, settings: ServerSettings) -> None:
    """Raises RefusalError for a client that may not ask.

    With a token it is presented as ``Authorization: Bearer``, as ``X-API-KEY`` (Serper's clients), or as the password in the
    base URL (``http://any:TOKEN@host``, for clients that send no header of their own). Without one, on a loopback address, the
    ``Host`` and ``Origin`` must be this machine's: otherwise any web page in a browser here could read the world.
    """
    if settings.token is not None:
        wanted = _digest(settings.token)
        matches = [hmac.compare_digest(_digest(token), wanted) for token in _presented(headers)]
        if not any(matches):
            raise RefusalError(401, "The token is missing or wrong: send it as Authorization: Bearer TOKEN.", "token")
        return
    if not settings.loopback:
        return
    origin = headers.get("origin")
    if not is_loopback(_host_of(f"//{headers.get('host', '')}")) or (origin is not None and not is_loopback(_host_of(origin))):
        raise RefusalError(403, "Without a token only this machine may ask: use 127.0.0.1 or localhost in the address.", "host")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _presented(headers: Headers) -> list[str]:
    tokens = [headers.get("x-api-key", "")]
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        tokens.append(value.strip())
    elif scheme.lower() == "basic":
        tokens.append(_password(value.strip()))
    return [token for token in tokens if token]


def _password(credentials: str) -> str:
    try:
        return base64.b64decode(credentials, validate=True).decode("utf-8", "replace").partition(":")[2]
    except binascii.Error:
        return ""


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
