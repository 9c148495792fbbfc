"""What the makers of judges share: the number behind a judge's name."""

from sanderling.core.errors import UserError


def without_number(name: str, number: float | None) -> None:
    """Refuse a number that a judge has no use for. Raises UserError."""
    if number is not None:
        raise UserError(f"The judge {name!r} takes no number: leave :{number:g} out.")
