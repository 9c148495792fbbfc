"""Embedders by the names they have on the command line.

- ``hashed`` or ``hashed:256``: no model, see `hashed`
- ``callable:module:function``: a function of this machine, see `local`
- ``http(s)://host:port/v1#model``: an endpoint, see `endpoint`. Options: ``?key_env=NAME`` (environment variable with the API
  key; otherwise ``OPENAI_API_KEY``, if set), ``batch=64`` (most texts of a request) and ``retries=5``
"""

import os
from urllib.parse import parse_qsl, urlsplit

from sanderling.core.errors import UserError
from sanderling.world.dense.embedder import Embedder
from sanderling.world.dense.endpoint import EndpointEmbedder
from sanderling.world.dense.hashed import DIMENSION, SMALLEST, HashedEmbedder
from sanderling.world.dense.local import CallableEmbedder, import_function

FORMS = "hashed[:DIMENSION], callable:MODULE:FUNCTION, or http://host:port/v1#model"
_DEFAULT_KEY = "OPENAI_API_KEY"
_NUMBERS = {"batch": (64, 1), "retries": (5, 0)}
"""Options of an endpoint that are numbers: the usual and the smallest."""


def opens_socket(spec: str) -> bool:
    """Whether an embedder lives on a server, so that a world that asks it does not answer by itself."""
    return spec.partition(":")[0].lower() in ("http", "https")


def open_embedder(spec: str, dimension: int = 0) -> Embedder:
    """The embedder of a name; ``dimension`` spares asking an endpoint for it. Raises UserError."""
    if opens_socket(spec):
        return _endpoint(spec, dimension)
    kind, _, rest = spec.partition(":")
    if kind == "hashed":
        if rest and not (rest.isdecimal() and int(rest) >= SMALLEST):
            raise UserError(
                f"{spec!r} has no dimension of {SMALLEST} or more: write hashed or, for example, hashed:{DIMENSION}."
            )
        return HashedEmbedder(int(rest) if rest else DIMENSION)
    module, _, function = rest.partition(":")
    if kind == "callable" and module and function:
        return CallableEmbedder(import_function(module, function), spec)
    raise UserError(f"There is no embedder {spec!r}: give {FORMS}.")


def _endpoint(spec: str, dimension: int) -> EndpointEmbedder:
    try:
        parts = urlsplit(spec)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that nothing closes, or a port that is no number
        raise UserError(f"{spec!r} is no address: write http://host:port/v1#model.") from None
    if not usable or not parts.fragment:
        raise UserError(f"{spec!r} names no model of a server: write http://host:port/v1#model.")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    variable = options.pop("key_env", "")
    if not all(name in _NUMBERS and text.isdecimal() and int(text) >= _NUMBERS[name][1] for name, text in options.items()):
        raise UserError(f"{spec!r} has an option that there is not: write ?key_env=NAME&batch=64&retries=5 before the #.")
    key = os.environ.get(variable or _DEFAULT_KEY, "")
    if variable and not key:
        raise UserError(f"The environment variable {variable} is not set: put the embedder's API key there.")
    base = parts._replace(query="", fragment="").geturl()
    batch, retries = (int(options.get(name, usual)) for name, (usual, _) in _NUMBERS.items())
    return EndpointEmbedder(base, parts.fragment, key=key, dimension=dimension, batch=batch, retries=retries)
