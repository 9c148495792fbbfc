"""How numbers are written for people, the same on the page, in the terminal and in Markdown."""

from collections.abc import Callable

Interval = tuple[float, float]  # from the lower to the upper end

MISSING = "–"  # there is none
UNKNOWN = "not known"  # nobody wrote it down


def percent(share: float | None, digits: int = 1) -> str:
    """A share in 0 .. 1 as a percentage."""
    return MISSING if share is None else f"{100 * share:.{digits}f}%"


def points(difference: float) -> str:
    """A difference of shares in percentage points, signed (with a true minus); what rounds to zero is +0.0."""
    return f"{100 * difference:+z.1f}".replace("-", "−")


def chance(p_value: float) -> str:
    """A p-value in words."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def span(interval: Interval | None) -> str:
    """An interval of shares, in percent."""
    return MISSING if interval is None else f"{100 * interval[0]:.1f}–{100 * interval[1]:.1f}"


def mean(value: float | None, digits: int = 1) -> str:
    """A mean count."""
    return MISSING if value is None else f"{value:,.{digits}f}"


def money(value: float | None) -> str:
    """An amount, to three digits."""
    return UNKNOWN if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def known(value: float | None, write: Callable[[float], str]) -> str:
    """As it is written, or that it is not known."""
    return UNKNOWN if value is None else write(value)


def duration(seconds: float) -> str:
    """Wall time, to two units: ``38 s``, ``4 min 05 s``, ``2 h 10 min``; below ten seconds with one decimal."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def ending_words(ending: str) -> str:
    """An ending's code as words."""
    return ending.replace("_", " ")
