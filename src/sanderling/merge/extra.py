"""Whether mergekit is there. It comes with the extra ``[merge]``."""

import os
from importlib.metadata import version

from sanderling.core.errors import UserError


def require_mergekit() -> str:
    """The version of mergekit. Raises UserError when the extra is not installed."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when mergekit's libraries are first imported
    try:
        import mergekit.merge  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"Merging needs {error.name or 'mergekit'}: run pip install '.[merge]' in sanderling's own folder."
        ) from error
    return version("mergekit")
