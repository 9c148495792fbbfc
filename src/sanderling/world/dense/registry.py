"""Embedders by the names they have on the command line.

- ``hashed`` or ``hashed:256``: no model, see `hashed`
- ``callable:module:function``: a function of this machine, see `local`
- ``http(s)://host:port/v1#model``: an endpoint, see `endpoint`; ``?key_env=NAME`` names the variable with its key
"""

from sanderling.errors import UserError
from sanderling.world.dense.embedder import Embedder
from sanderling.world.dense.hashed import DIMENSION, HashedEmbedder

FORMS = "hashed[:DIMENSION], callable:MODULE:FUNCTION, or http://host:port/v1#model"


def open_embedder(spec: str) -> Embedder:
    """The embedder of a name. Raises UserError."""
    kind, _, rest = spec.partition(":")
    if kind == "hashed":
        if rest and not (rest.isdigit() and int(rest) >= 16):
            raise UserError(f"{spec!r} has no dimension of 16 or more: write hashed or, for example, hashed:{DIMENSION}.")
        return HashedEmbedder(int(rest) if rest else DIMENSION)
    raise UserError(f"There is no embedder {spec!r}: give {FORMS}.")
