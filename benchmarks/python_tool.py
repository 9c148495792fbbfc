"""How long programs take to begin in each sandbox that is here, cold and from the pool, and what a call costs then.

    python benchmarks/python_tool.py

A session is opened, and a program runs that has a value: cold (nothing was started before), and warm (the pool had the time to
start one). Then calls of a session that is open. Each is repeated, one after another.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.runs.progress import command_line, machine
from sanderling.tools.contract import ToolContext
from sanderling.tools.python.monty import Monty
from sanderling.tools.python.rungs import bubblewrap, oci, runtimes
from sanderling.tools.python.sandbox import Sandbox, SandboxLimits
from sanderling.tools.python.sessions import Sessions
from sanderling.tools.python.tool import PythonTool

LIMITS = SandboxLimits()


def quantiles(seconds: list[float]) -> dict[str, float]:
    """Milliseconds: the median, and what nine of ten stay below."""
    return {
        "p50": round(1_000 * statistics.median(seconds), 1),
        "p90": round(1_000 * statistics.quantiles(seconds, n=10)[-1], 1),
    }


async def timed(tool: PythonTool, session: str, code: str) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    result = await tool({"code": code}, ToolContext(session=session))
    assert not result.text.startswith("Traceback"), result.text
    return time.perf_counter() - began


async def measure(make: Callable[[int], Sandbox], times: int) -> dict[str, dict[str, float]]:
    """One row; ``make`` makes a sandbox with so many kept warm."""
    cold: list[float] = []
    for number in range(times):
        sandbox = make(0)
        tool = PythonTool(Sessions(sandbox, None, {}), LIMITS)
        cold.append(await timed(tool, str(number), "6 * 7"))
        await tool.tool.leave(str(number))
        await sandbox.close()
    sandbox = make(1)
    tool = PythonTool(Sessions(sandbox, None, {}), LIMITS)
    await timed(tool, "first", "6 * 7")
    warm: list[float] = []
    for number in range(times):
        await asyncio.sleep(0.5)
        warm.append(await timed(tool, str(number), "6 * 7"))
        await tool.tool.leave(str(number))
    calls = [await timed(tool, "first", f"{number} * 7") for number in range(10 * times)]
    await tool.tool.leave("first")
    await sandbox.close()
    return {"cold_ms": quantiles(cold), "warm_ms": quantiles(warm), "call_ms": quantiles(calls)}


async def measured(times: int) -> dict[str, dict[str, dict[str, float]]]:
    """All sandboxes that are here, by name."""
    makes: dict[str, Callable[[int], Sandbox]] = {}
    for name, make in (("bubblewrap", lambda warm: bubblewrap(LIMITS, warm=warm)), ("monty", lambda warm: Monty(LIMITS))):
        try:
            await make(0).close()
            makes[name] = make
        except UserError as error:
            print(f"{name}: {error}")
    try:
        runtime = runtimes()[0]
        makes[Path(runtime).name] = lambda warm: oci(LIMITS, runtime, warm=warm)
    except UserError as error:
        print(f"oci: {error}")
    return {name: await measure(make, times) for name, make in makes.items()}


def main() -> None:
    """Measure, print, write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/python_tool.json"))
    chosen = parser.parse_args()
    rows = asyncio.run(measured(chosen.times))
    for name, row in rows.items():
        print(f"{name:>12}", *(f"{what} {one['p50']:>6} {one['p90']:>6}" for what, one in row.items()), sep="   ")
    record = {"command": command_line(), "machine": machine(), "date": datetime.now(UTC).date().isoformat(), "rows": rows}
    chosen.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
