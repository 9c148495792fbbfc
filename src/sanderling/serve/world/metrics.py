"""Counters of one server, and their text for Prometheus (exposition format 0.0.4). Counters only; touched by one thread."""

from collections import Counter
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Counters:
    """What one server has done since it started."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By route (its pattern, never what a client wrote) and HTTP status."""
    request_seconds: float = 0.0
    refused: Counter[str] = field(default_factory=Counter)
    """Requests that failed, or were turned away before they reached a route, by reason."""
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Calls to the world, by kind and status."""
    call_seconds: float = 0.0

    def text(self) -> str:
        """All counters, sorted, in the exposition format."""
        lines: list[str] = []
        refused = {(reason,): count for reason, count in self.refused.items()}
        for name, help_text, labels, counts in (
            ("http_requests", "Requests answered.", ("route", "status"), self.requests),
            ("http_refused", "Requests that failed, or were turned away before their route.", ("reason",), refused),
            ("world_calls", "Searches and visits.", ("call", "status"), self.calls),
        ):
            lines += _header(f"sanderling_{name}_total", help_text)
            for key, count in sorted(counts.items()):
                label = ",".join(f'{label}="{value}"' for label, value in zip(labels, key, strict=True))
                lines.append(f"sanderling_{name}_total{{{label}}} {count}")
        for name, help_text, seconds in (
            ("http_request", "Seconds spent on requests.", self.request_seconds),
            ("world_call", "Seconds waited for the world, all calls together.", self.call_seconds),
        ):
            lines += _header(f"sanderling_{name}_seconds_total", help_text)
            lines.append(f"sanderling_{name}_seconds_total {seconds:.6f}")
        return "\n".join(lines) + "\n"


def _header(name: str, help_text: str) -> list[str]:
    return [f"# HELP {name} {help_text}", f"# TYPE {name} counter"]
