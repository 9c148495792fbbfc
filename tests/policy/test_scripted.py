"""Scripted policies keep the branch they were told, and follow the session contract."""

import pytest

from sanderling.core.types import Message, Role, Sampling
from sanderling.policy.contract import Delta, SampleKey, ScriptedPolicy

KEY = SampleKey(seed=0, question="q", attempt=0, turn=0)


def said(*texts: str) -> Delta:
    return Delta(messages=tuple(Message(role=Role.USER, content=text) for text in texts))


async def test_rewind_forgets_and_close_is_idempotent():
    policy = ScriptedPolicy(lambda messages, key: "|".join(message.content for message in messages))
    session = policy.open(KEY)
    await session.generate(said("a"), Sampling(), KEY)
    mark = session.mark()
    await session.generate(said("b"), Sampling(), KEY)
    session.rewind(mark)
    assert (await session.generate(said("c"), Sampling(), KEY)).text == "a|a|c"
    with pytest.raises(ValueError):
        session.rewind(99)
    session.close()
    session.close()
    with pytest.raises(RuntimeError):
        await session.generate(said("d"), Sampling(), KEY)
