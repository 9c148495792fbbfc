"""Many episodes: bounded, in order, and one failure stops nobody else."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from loop_fakes import CLOCK_DAY, FakeTool, answer, call, echo, fake_profile

from sanderling.agent.agent import Agent, Job
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import FixedClock, Message
from sanderling.policy.contract import Policy, SampleKey, ScriptedPolicy

JOBS = [Job(Question(id=f"q{n}", text=f"question {n}"), Seeds(episode=n), f"t{n}") for n in range(6)]


async def run(
    jobs: Sequence[Job] = JOBS, policy: Policy | None = None, tools: dict[str, FakeTool] | None = None, **changed: Any
) -> list[Trajectory]:
    """The jobs, two at a time."""
    agent = Agent(
        policy or ScriptedPolicy(search_then_answer), tools or {"search": echo()}, fake_profile(), FixedClock(CLOCK_DAY)
    )
    return await agent.run_many(jobs, **{"concurrency": 2, **changed})


def search_then_answer(messages: Sequence[Message], key: SampleKey) -> str:
    return "<think>" + (call(key.question) if key.turn == 0 else answer(key.question))


async def test_results_are_in_job_order_and_never_more_than_the_limit_run() -> None:
    running, most = 0, 0

    async def slow(arguments: dict[str, list[str]], context: object) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        # the first job takes longest, so completion order differs from job order
        await asyncio.sleep(0.05 if arguments["query"] == ["q0"] else 0.001)
        running -= 1
        return "found"

    ended: list[str] = []
    tools = {"search": FakeTool("search", slow)}
    done = await run(tools=tools, on_done=lambda t: ended.append(t.id))
    assert [t.id for t in done] == [f"t{n}" for n in range(6)] and most == 2
    assert [t.answer for t in done] == [f"q{n}" for n in range(6)] and ended[-1] == "t0"
    assert all(t.seeds.episode == n for n, t in enumerate(done))


async def test_a_crash_does_not_stop_the_others_and_is_raised_afterwards() -> None:
    def reply(messages: Sequence[Message], key: SampleKey) -> str:
        if key.question == "q1":
            raise ZeroDivisionError("bug")
        return search_then_answer(messages, key)

    ended: list[str] = []
    with pytest.raises(ExceptionGroup, match="episodes failed") as failure:
        await run(policy=ScriptedPolicy(reply), on_done=lambda t: ended.append(t.id))
    assert sorted(ended) == ["t0", "t2", "t3", "t4", "t5"]
    assert isinstance(failure.value.exceptions[0], ZeroDivisionError)
    assert failure.value.exceptions[0].__notes__ == ["in the episode 't1'"]
