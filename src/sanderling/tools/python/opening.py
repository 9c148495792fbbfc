"""The tools that run programs and read files, as settings ask for them."""

import datetime
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile
from sanderling.tools.contract import Tool
from sanderling.tools.files import ReadFileTool
from sanderling.tools.python.limits import Rung, SandboxLimits
from sanderling.tools.python.process import bare
from sanderling.tools.python.sandbox import Sandbox, chosen
from sanderling.tools.python.sessions import Sessions
from sanderling.tools.python.tool import PythonTool

ToolsOf = Callable[[bool], dict[str, Tool]]
"""The tools of a place, by whether its world is offline: programs are deterministic there."""


@asynccontextmanager
async def opened_programs(
    rung: Rung,
    read_file: bool,
    limits: SandboxLimits,
    profile: Profile,
    files: Mapping[str, Mapping[str, Path]],
    day: datetime.date,
    notice: Callable[[str], None],
    keep: Path | None = None,
) -> AsyncIterator[ToolsOf]:
    """``python`` where a rung is asked for, ``read_file`` where that is.

    ``files``: those of questions (`sessions.files_of`). ``day``: of research in an offline world. ``keep``: folder for what
    programs wrote. At the end all that still runs is killed. Raises UserError.
    """
    noon = datetime.datetime.combine(day, datetime.time(12), datetime.UTC).timestamp()
    async with AsyncExitStack() as stack:

        def kept(sandbox: Sandbox) -> Sandbox:
            stack.push_async_callback(sandbox.close)
            return sandbox

        programs = None if rung is Rung.OFF else kept(await chosen(rung, limits, notice))
        reads = programs
        if read_file and (reads is None or not reads.files):
            try:
                reads = kept(await chosen(Rung.BUBBLEWRAP, limits))
            except UserError:
                reads = kept(bare(limits))

        def tools_of(offline: bool) -> dict[str, Tool]:
            def sessions(sandbox: Sandbox) -> Sessions:
                found = Sessions(sandbox, noon if offline else None, files, keep)
                stack.push_async_callback(found.close)
                return found

            tools, own = list[Tool](), None
            if programs is not None:
                own = sessions(programs)
                tools.append(PythonTool(own, limits))
            if reads is not None and read_file:
                tools.append(ReadFileTool(own if own is not None and reads is programs else sessions(reads), profile, limits))
            return {tool.spec.name: tool for tool in tools}

        yield tools_of
