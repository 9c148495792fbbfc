"""The python tool: a session's programs, and what became of each as text."""

import time
from typing import Any

from sanderling.core.text import counted_as, visible
from sanderling.core.types import ToolSpec, ToolStatus
from sanderling.tools.contract import ToolContext, ToolResult
from sanderling.tools.python.sandbox import Ran, SandboxError, SandboxLimits
from sanderling.tools.python.sessions import Sessions

_MOST_CODE = 200_000
_MOST_NAMED, _LONGEST_NAME = 20, 200  # files of a call, and letters of a name
_DESCRIPTION = (
    "Run a Python program. Returns what it prints, the value of its last expression, its error, and the files that it wrote. "
    "{about} Variables{files} last from call to call. {network} A call may take {seconds:g} seconds and {memory:,} MB."
)


class PythonTool:
    """Runs programs."""

    def __init__(self, sessions: Sessions, limits: SandboxLimits) -> None:
        self.tool, self._limits = sessions, limits  # the first keeps what lasts
        sandbox = sessions.sandbox
        self.settings = {"sandbox": sandbox.name, **limits.model_dump(mode="json")}
        about = _DESCRIPTION.format(
            about=sandbox.about,
            files=" and files" if sandbox.files else "",
            network="The network can be reached." if limits.network and sandbox.files else "There is no network.",
            seconds=limits.seconds,
            memory=limits.memory_mb,
        )
        code = {"type": "string", "description": "The program, such as: sum(n * n for n in range(10))"}
        self.spec = ToolSpec(
            name="python",
            description=about,
            parameters={"type": "object", "properties": {"code": code}, "required": ["code"]},
        )

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        code = arguments.get("code")
        if not isinstance(code, str) or not code.strip() or len(code) > _MOST_CODE:
            text = f'python needs "code" as a string of 1 to {_MOST_CODE:,} characters, such as {{"code": "2 ** 10"}}.'
            return ToolResult(text=text, status=ToolStatus.BAD_ARGUMENTS)
        code = code.encode("utf-8", "replace").decode()
        began, seconds, anew = time.monotonic(), 0.0, False
        try:
            async with self.tool.held(context, self._limits.seconds) as (held, box):
                seconds, anew, held.lost = held.seconds, held.lost, False
                held.texts.clear()  # programs may change files
                ran = await box.run(code, seconds)
                held.written |= {name for name, _ in ran.files}
        except SandboxError:
            ran = Ran("lost")
        status = {"ok": ToolStatus.OK, "seconds": ToolStatus.TIMEOUT, "cpu": ToolStatus.TIMEOUT}.get(
            ran.status, ToolStatus.FAILED
        )
        text = _shown(ran, self._limits, seconds, anew and ran.status != "lost", self.tool.sandbox.files)
        real = time.monotonic() - began if self.tool.clock is None else 0.0  # an offline world's time is its own
        return ToolResult(text=text, status=status, latency_s=real)


def _shown(ran: Ran, limits: SandboxLimits, seconds: float, anew: bool, files: bool) -> str:
    """What the agent reads; control characters are shown as their pictures."""
    ends = {
        "seconds": f"Stopped after {round(seconds, 1):g} seconds.",
        "cpu": f"Stopped after {limits.cpu_seconds:g} seconds of processor time.",
        "memory": f"Stopped for taking more than {limits.memory_mb:,} MB of memory.",
        "files": "Stopped for making too many files.",
        "lost": "The program brought its sandbox down.",
        "ended": "The program ended by itself.",
    }
    parts = [ran.output.strip("\n"), ran.value, ran.error]
    if ran.status not in ("ok", "failed"):
        gone = "Variables and files are gone." if ran.status == "lost" else "Variables are gone, files are kept."
        gone = gone if files else "Variables are gone."
        parts.append(f"{ends.get(ran.status, f'The program ended by itself ({ran.status}).')} {gone}")
    if anew:
        parts.append(f"(A new sandbox: variables {'and files ' if files else ''}of earlier calls are gone.)")
    if ran.files:
        names = [
            f"{' '.join(name.split())[-_LONGEST_NAME:]} ({counted_as(size, 'byte')})" for name, size in ran.files[:_MOST_NAMED]
        ]
        more = [f"and {len(ran.files) - _MOST_NAMED} more"] if len(ran.files) > _MOST_NAMED else []
        parts.append(f"Files written: {', '.join([*names, *more])}")
    return "\n".join(map(visible, filter(None, parts))) or "(Nothing was printed, and the last line has no value.)"
