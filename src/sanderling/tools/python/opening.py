"""From settings to tools: the ladder of sandboxes, and the tools that run programs and read files in the one that is chosen."""

import datetime
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile
from sanderling.tools.contract import Tool
from sanderling.tools.files import ReadFileTool
from sanderling.tools.python.monty import Monty
from sanderling.tools.python.rungs import bare, bubblewrap, oci, runtimes
from sanderling.tools.python.sandbox import Rung, Sandbox, SandboxError, SandboxLimits
from sanderling.tools.python.sessions import Sessions
from sanderling.tools.python.tool import PythonTool

ToolsOf = Callable[[bool], dict[str, Tool]]
"""The tools of a place, by whether its world is offline: programs are deterministic there."""


async def chosen(rung: Rung, limits: SandboxLimits, notice: Callable[[str], None] = lambda line: None) -> Sandbox:
    """The sandbox of a rung that works here. Raises UserError with what to install."""
    if rung is Rung.OCI:
        return await _first(oci(limits, runtime) for runtime in runtimes())
    if rung is Rung.MONTY:
        return Monty(limits)
    try:
        return await _first([bubblewrap(limits)])
    except UserError as error:
        if rung is Rung.BUBBLEWRAP:
            raise
        without = str(error)
    try:
        found = Monty(limits)
    except UserError:
        raise UserError(f"{without} Or pip install pydantic-monty, for a part of Python.") from None
    notice(f"python: only a part of the language (pydantic-monty). {without}")
    return found


async def _first(sandboxes: Iterable[Sandbox]) -> Sandbox:
    """The first that runs a program. Raises UserError with what each said."""
    said: list[str] = []
    for sandbox in sandboxes:
        try:
            box = await sandbox.open(None)
            try:
                ran = await box.run("1", 10)
            finally:
                await box.close()
            if ran.value == "1":
                return sandbox
            said.append(f"{sandbox.name}: programs do not begin ({ran.status}).")
        except SandboxError as error:
            said.append(f"{sandbox.name}: {error}")
        await sandbox.close()
    raise UserError(f"Programs cannot be run here ({' '.join(said).rstrip('.')}).")


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
        if read_file and (programs is None or not programs.files):
            alone = limits.model_copy(update={"network": False})
            try:
                reads = kept(await chosen(Rung.BUBBLEWRAP, alone))
            except UserError:
                reads = kept(bare(alone))

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
