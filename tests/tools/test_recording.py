"""Recording: the tool answers as without, a killed process loses nothing, and what becomes of a recording."""

import asyncio
import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sanderling.core.chat import unwrap
from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile, ResultLayout, ToolNames
from sanderling.core.types import ToolSpec, ToolStatus
from sanderling.runs.jsonl import TornLineWarning
from sanderling.tools.contract import ToolContext, ToolOutageError, ToolResult, tool_roles
from sanderling.tools.recording import RecordingTool, open_recording, read_recording, recorded_tools, trajectories_of
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page, answered
from sanderling.world.local import LocalWorld
from sanderling.world.recorded import pages_from_trajectories

WORLD = LocalWorld.in_memory(
    [
        Page(
            url="https://a.example/herring_(fish)",
            title="Herring [fish]",
            text="The herring is a fish of cold seas.",
            date="2020-05-01",
        ),
        Page(url="https://b.example/tern", title="Tern", text="The tern eats herring.\n\nIt crosses oceans."),
        Page(url="https://c.example/blob", title="Blob", text="\x01\x02\x03\x04\x05" * 50),
    ],
    name="w",
)
CALLS = [
    ("search", {"query": ["herring", "zzz qqq"]}),
    ("search", {"query": "tern oceans"}),
    ("visit", {"url": ["https://a.example/herring_(fish)"], "goal": "where it lives"}),
    ("visit", {"url": "https://none.example", "goal": "g"}),
    ("visit", {"url": ["https://c.example/blob"], "goal": ""}),
    ("search", {"query": 3}),
]


def profile(layout: ResultLayout, **names: str) -> Profile:
    return Profile(
        name="t", source="test", system_prompt="{tools}", force_hint="Answer.", malformed_hint="{problem}",
        results=layout, tools=ToolNames(**names),
    )  # fmt: skip


def record(path, layout=ResultLayout.MARKDOWN, episode="e", question="Which fish?"):
    """The calls through recorded tools; the results that the agent saw."""
    chosen = profile(layout)
    log = open_recording(path)
    tools = recorded_tools(world_tools(WORLD, chosen), tool_roles(chosen), log, episode=episode, question=question)
    return [asyncio.run(tools[name](args, ToolContext(ordinal=n))) for n, (name, args) in enumerate(CALLS)]


@pytest.mark.parametrize("layout", ResultLayout)
def test_from_a_recording_to_a_world_and_trajectories_with_the_same_text(layout, tmp_path):
    seen = record(tmp_path / "r.jsonl", layout)
    calls = list(read_recording(tmp_path / "r.jsonl"))
    pages, report = pages_from_trajectories(trajectories_of(calls))
    world = LocalWorld.in_memory(pages, name="again")
    assert {page.url for page in pages} == {"https://a.example/herring_(fish)", "https://b.example/tern"}
    assert report.dead_extracts == (0 if layout is ResultLayout.COMPACT else 2), "it does not tell whose miss it is"
    assert answered(world.search("herring")).hits[0].title in {"Herring [fish]", "Tern"}
    assert "cold seas" in answered(world.visit("https://a.example/herring_(fish)")).text
    (run,) = trajectories_of(calls)
    assert [unwrap(node.text) for node in run.nodes if node.events] == [result.text for result in seen]


class Backend:
    """Answers after a while, then breaks."""

    spec = ToolSpec(name="google_search", description="", parameters={})

    def __init__(self, *answers):
        self.answers = list(answers)

    async def __call__(self, arguments, context):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_outages_and_latencies_are_kept(tmp_path):
    times = iter([0.0, 2.0, 10.0, 10.5, 20.0, 21.0])
    slow = ToolResult("No results found for x", ToolStatus.EMPTY, parts=(ToolStatus.EMPTY, ToolStatus.TIMEOUT))
    backend = Backend(slow, ToolResult("ok", latency_s=7.0), ToolOutageError("refused"))
    tool = RecordingTool(backend, open_recording(tmp_path / "r"), episode="e", role="search", clock=lambda: next(times))
    asyncio.run(tool({"query": "x"}, ToolContext()))
    asyncio.run(tool({"query": "y"}, ToolContext(ordinal=1)))
    with pytest.raises(ToolOutageError, match="refused"):
        asyncio.run(tool({"query": "z"}, ToolContext(ordinal=2)))
    calls = list(read_recording(tmp_path / "r"))
    assert [call.elapsed_s for call in calls] == [2.0, 0.5, 1.0] and calls[2].outage == "refused"
    (run,) = trajectories_of(calls)
    assert [event.latency_s for node in run.nodes for event in node.events] == [2.0, 7.0]


def test_a_recording_of_an_earlier_version_is_read(tmp_path):
    record(tmp_path / "r")
    calls = list(read_recording(tmp_path / "r"))
    lines = [json.loads(line) | {"lists": [], "pages": []} for line in (tmp_path / "r").read_text().splitlines()]
    (tmp_path / "old").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(read_recording(tmp_path / "old")) == calls


def test_a_killed_process_loses_no_finished_call(tmp_path):
    path = tmp_path / "r.jsonl"
    code = f"""
        import asyncio, os, signal, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import test_recording
        test_recording.record({str(path)!r})
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert len(list(read_recording(path))) == len(CALLS)
    with path.open("ab") as file:
        file.write(b'{"recording":1,"episode":"e","te')
    with pytest.warns(TornLineWarning):
        assert len(list(read_recording(path))) == len(CALLS)
    with pytest.warns(TornLineWarning, match="cut off"):
        record(path)
    assert len(list(read_recording(path))) == 2 * len(CALLS)


def test_what_is_no_recording_is_told(tmp_path):
    (tmp_path / "other").write_text('{"schema_version":1}\n')
    with pytest.raises(UserError, match="something else"):
        open_recording(tmp_path / "other")
    (tmp_path / "torn").write_bytes(b'{"reco')
    with pytest.warns(TornLineWarning):
        record(tmp_path / "torn")
    assert len(list(read_recording(tmp_path / "torn"))) == len(CALLS)
    with pytest.raises(UserError, match="Line 1 of"):
        list(read_recording(tmp_path / "other"))
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="choose another place"):
        open_recording(tmp_path / "file" / "r")


def test_odd_characters_survive(tmp_path):
    odd = 'x\u2028\x00"\ud83d\n\n'
    tool = RecordingTool(Backend(ToolResult(odd)), open_recording(tmp_path / "r"), episode="e", role="")
    asyncio.run(tool({"q": odd}, ToolContext()))
    (call,) = read_recording(tmp_path / "r")
    assert (call.text, call.arguments) == (odd, {"q": odd})
    assert json.loads((tmp_path / "r").read_text())["recording"] == 1
