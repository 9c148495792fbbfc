"""Errors that reach a person, and what has to be installed for what."""

from collections.abc import Callable
from importlib.util import find_spec

EXTRAS = {
    "local": ("torch", "transformers", "safetensors"),
    "train": ("torch", "transformers", "safetensors", "peft"),
    "merge": ("torch", "transformers", "safetensors", "mergekit"),
    "serve": ("starlette", "uvicorn", "mcp"),
    "milvus": ("pymilvus",),
    "inspect": ("inspect_ai",),
}
"""The packages that an extra brings and the core does without."""


class UserError(Exception):
    """Something the user can cause or mend: one sentence on what is wrong and what to do, printed before status 2."""


def check_all(*checks: Callable[[], object]) -> None:
    """Make every check, and raise one UserError that tells what all of them refuse."""
    wrong: list[str] = []
    for check in checks:
        try:
            check()
        except UserError as error:
            whole, *each = str(error).split("\n  ")
            wrong += each or [whole]
    if wrong:
        raise UserError("\n  ".join([f"{len(wrong)} things are wrong:", *wrong] if len(wrong) > 1 else wrong))


def need(extra: str) -> None:
    """Raise UserError unless the packages of an extra are installed; nothing is imported.

    Example: ``need("train")``, first thing in a command: what is missing is told before anything begins.
    """
    missing = [package for package in EXTRAS[extra] if find_spec(package) is None]
    if missing:
        raise UserError(f"This needs {' and '.join(missing)}: run pip install '.[{extra}]' in sanderling's own folder.")
