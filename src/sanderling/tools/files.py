"""The read_file tool: a question's files, and those that programs wrote, read as pages are.

A file is read in the session's sandbox by a process of its own, under the same limits, so that no document can do harm.
"""

import asyncio
import time
from pathlib import PurePosixPath
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile, ResultLayout
from sanderling.core.text import visible
from sanderling.core.types import ToolSpec, ToolStatus
from sanderling.tools.contract import BadArgumentsError, Span, ToolContext, ToolOutageError, ToolResult, optional_string
from sanderling.tools.python.sandbox import SandboxError, SandboxLimits, Text
from sanderling.tools.python.sessions import Sessions
from sanderling.tools.world_tools import cited_text, visit_text
from sanderling.world.addresses import asked_part, page_address
from sanderling.world.contract import VisitReply
from sanderling.world.passages import read_page

_DESCRIPTION = (
    "Read a file as text: PDF, Word, PowerPoint, Excel, OpenDocument, HTML, CSV, or any plain text. Returns the passages that "
    "serve what you are looking for. A path that ends in #page=2 gives the second part of a long file as it stands, and so on."
)
_PROBLEMS = {
    "empty": "holds no text; it may be a scan",
    "not-text": "is not text",
    "too-large": "is too large to be read",
    "encrypted": "is encrypted",
    "damaged": "is damaged",
    "other-kind": "is of a kind that cannot be read as text",
    "seconds": "took too long to read",
    "cpu": "took too long to read",
}


class ReadFileTool:
    """Reads the files of a session."""

    def __init__(self, sessions: Sessions, profile: Profile, limits: SandboxLimits) -> None:
        self.tool, self._profile, self._limits = sessions, profile, limits  # the sessions keep what lasts, also for programs
        self.settings = {"sandbox": sessions.sandbox.name, **limits.model_dump(mode="json")}
        path = {"type": "string", "description": "The file, such as report.pdf"}
        goal = {"type": "string", "description": "What you want to learn from it."}
        self.spec = ToolSpec(
            name="read_file",
            description=_DESCRIPTION,
            parameters={"type": "object", "properties": {"path": path, "goal": goal}, "required": ["path"]},
        )

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        try:
            asked = optional_string(arguments, "path", "read_file", "report.pdf")
            goal = optional_string(arguments, "goal", "read_file", "the sum of 2023")
            if not asked:
                raise BadArgumentsError('read_file needs "path" as a string, such as {"path": "report.pdf"}.')
        except BadArgumentsError as problem:
            return ToolResult(text=str(problem), status=ToolStatus.BAD_ARGUMENTS)
        began, path = time.monotonic(), page_address(asked)
        name = path.removeprefix("file:").removeprefix("/scratch/").removeprefix("/tmp/").removeprefix("./")
        try:
            async with self.tool.held(context, self._limits.seconds) as (held, box):
                found = held.texts.get(name) or await box.read(name, held.seconds)
                held.texts = {} if found.problem else {name: found}
        except SandboxError as error:  # no document does that, which a process of its own reads
            raise ToolOutageError(f"read_file: {error}") from error
        if found.problem:
            result = self._problem(path, found, context)
        else:  # of a long text it takes seconds, in which others go on
            result = await asyncio.to_thread(self._shown, name, asked_part(asked), goal, found)
        real = time.monotonic() - began if self.tool.clock is None else 0.0
        return ToolResult(**{**vars(result), "latency_s": real})

    def _problem(self, path: str, found: Text, context: ToolContext) -> ToolResult:
        shown = visible(" ".join(path.split()))[:500]
        if found.problem == "not-found":
            names = self.tool.names(context)
            more = f" The question's files are: {', '.join(names)}." if names else ""
            return ToolResult(text=f"There is no file {shown}.{more}", status=ToolStatus.NOT_FOUND)
        other = f"cannot be read: {found.problem.rstrip('.')}" if " " in found.problem else "stopped its reader"
        why = _PROBLEMS.get(found.problem, other)
        status = ToolStatus.TIMEOUT if found.problem in ("seconds", "cpu") else ToolStatus.NOT_TEXT
        return ToolResult(text=f"{shown} {why}.", status=status)

    def _shown(self, name: str, part: int, goal: str, found: Text) -> ToolResult:
        """The passages for a goal, or a part, as pages of the same profile are shown."""
        page = read_page(found.text, goal, part, self._profile.visit_words)
        title, parts = found.title or PurePosixPath(name).name, page.parts
        if page.part > parts:
            text = f"{visible(name)} has no part {page.part}; the last is {visible(name)}#page={parts}."
            return ToolResult(text=text, status=ToolStatus.NOT_FOUND)
        reply = VisitReply(url=f"file:{name}", title=title, text=page.text, part=page.part, parts=parts)
        spans = tuple[Span, ...]()
        if self._profile.results is ResultLayout.CITED:
            text, spans = cited_text([reply])
        else:
            text = visit_text([reply], goal, self._profile.results, parts=True)
        return ToolResult(text=text, provenance=(reply.url,), spans=spans)


def extracted(name: str, data: bytes, most: int) -> tuple[dict[str, str], str]:
    """A document's title, or the ``problem``, and its text: what the process in the sandbox does."""
    from sanderling.world.sources.base import Limits, Reason
    from sanderling.world.sources.documents import ENDINGS, Kind, read_document

    kind = ENDINGS.get(PurePosixPath(name).suffix.lower(), Kind.TEXT)
    kind = Kind.TEXT if kind is Kind.CODE else kind  # also one that a program wrote is asked for by name
    try:
        found = read_document(kind, data, f"file:{name}", Limits(document_bytes=most))
    except UserError as error:  # what reads it is not installed
        return {"problem": str(error)}, ""
    return ({"problem": found.value}, "") if isinstance(found, Reason) else ({"title": found.title}, found.text)
