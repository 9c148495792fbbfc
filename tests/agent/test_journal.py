"""Killed at any moment, an episode goes on: nothing finished is done again, and the record is that of an uninterrupted run."""

import asyncio
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_fakes import GUARDS, PLAIN, PROFILE, TWO, Killed, Life, Script, Speaker, live, lives
from loop_fakes import BOTH, CLOCK_DAY, LOOP, NEITHER, FakeTool, answer, call, fake_profile

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal, JournalWarning
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import FixedClock, Message, Role, Sampling
from sanderling.policy.contract import Delta, SampleKey, Session
from sanderling.tools.contract import ToolContext, ToolResult

ATTEMPT = st.sampled_from([call("a"), call("b"), call("c"), TWO, BOTH, NEITHER, LOOP, answer("x")])
SCRIPT = st.lists(st.lists(ATTEMPT, min_size=3, max_size=3), max_size=5)


@settings(max_examples=60)
@given(SCRIPT, st.lists(st.integers(0, 25), max_size=5), st.booleans(), st.sampled_from([None, 2.0, 4.25]))
def test_any_kills_leave_the_record_of_an_uninterrupted_run(
    script: Script, lengths: list[int], tokens: bool, seconds: float | None
) -> None:
    budgets = PROFILE.budgets.model_copy(update={"max_seconds": seconds})
    profile = PROFILE.model_copy(update={"budgets": budgets})
    whole = asyncio.run(live(Speaker(script, Life(), tokens=tokens), profile=profile))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "journal"
        done, lived = asyncio.run(lives(script, lengths, path, tokens=tokens, profile=profile))
        assert not path.exists()
    assert repr(done) == repr(whole)
    assert all((node.sampled_tokens == 0) is tokens and node.prompt_tokens for node in whole.turns())
    for finished in ([place for life in lived for place in life.said], [n for life in lived for n in life.called]):
        assert len(finished) == len(set(finished))  # nothing that was finished is done again


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        ({"question": "When?"}, 0),
        ({"profile": fake_profile(guards=GUARDS, max_tokens=399)}, 0),
        ({"about": "other weights"}, 0),
        ({"seeds": Seeds(run=1, attempt=2, episode=9)}, 1),  # the tools' seed: the first turn was asked the same
    ],
)
async def test_what_was_asked_otherwise_is_left_out(tmp_path: Path, changed: dict[str, Any], kept: int) -> None:
    path = tmp_path / "j"
    with Journal(path) as journal, pytest.raises(Killed):
        await live(Speaker(PLAIN, Life(15)), journal)
    about, name = changed.pop("about", ""), changed.pop("name", "speaker")
    life = Life()
    with Journal(path, about) as journal:
        with pytest.warns(JournalWarning, match="done anew"):
            done = await live(Speaker(PLAIN, life, name=name), journal, **changed)
        assert repr(done) == repr(await live(Speaker(PLAIN, Life(), name=name), **changed))
        assert len(life.said) == 6 - kept and len(life.called) == 4
        once_more = Life()
        await live(Speaker(PLAIN, once_more, name=name), journal, **changed)  # the new entries have taken the old ones' place
        assert once_more.said == once_more.called == []


async def test_marks_reach_across_the_border(tmp_path: Path) -> None:
    """A branch may be rewound to any mark, wherever the recorded turns end; the session then says what a whole one says."""

    async def talk(session: Session, said: dict[int, str], turns: Sequence[int], rewinds: dict[int, int]) -> None:
        marks: dict[int, int] = {}
        for turn in turns:
            marks[turn] = session.mark()
            delta = Delta((Message(role=Role.USER, content=str(turn)),), (turn,))
            said[turn] = (await session.generate(delta, Sampling(), SampleKey(0, "q", 0, turn))).text
            if turn in rewinds:
                session.rewind(marks[rewinds[turn]])

    script = [["x"]] * 9
    for tokens in (True, False):
        for kill in range(9):
            for place, to in ((3, 1), (3, 0), (5, 4), (6, 2), (3, 3)):
                rewinds = {place: to, 7: 7}
                whole: dict[int, str] = {}
                await talk(Speaker(script, Life(), tokens=tokens).open(SampleKey(0, "q", 0, 0)), whole, range(9), rewinds)
                found: dict[int, str] = {}
                with Journal(tmp_path / "j") as journal:
                    for last in (kill, 9):
                        policy = Speaker(script, Life(), tokens=tokens)
                        means = journal.episode(f"{tokens}.{kill}.{place}.{to}", policy, FixedClock(CLOCK_DAY), "")
                        session = means.policy.open(SampleKey(0, "q", 0, 0))
                        await talk(session, found, range(last), rewinds)
                        with pytest.raises(ValueError, match="mark 99"):
                            session.rewind(99)
                        session.close()
                        assert len(policy.life.said) == (kill if last == kill else 9 - kill)
                assert found == whole


async def test_many_episodes_share_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "j"

    async def run(life: Life, journal: Journal | None, numbers: Iterable[int], stored: list[int]) -> list[Trajectory]:
        agent = Agent(Speaker(PLAIN, life), {"search": life.tool()}, PROFILE, FixedClock(CLOCK_DAY))
        turns = asyncio.Semaphore(3)

        async def one(n: int) -> Trajectory:
            async with turns:
                asked = Question(id=f"q{n}", text=f"{n}?")
                done = await agent.run(asked, Seeds(attempt=n), id=f"t{n}", journal=journal)
                stored.append(n)
                if journal is not None:
                    journal.stored(done)
                return done

        ended = await asyncio.gather(*map(one, numbers), return_exceptions=True)
        return [done for done in ended if isinstance(done, Trajectory)]

    whole, first, second = await run(Life(), None, range(6), []), Life(47), Life()
    stored: list[int] = []
    with Journal(path) as journal:
        await run(first, journal, range(6), stored)
    assert 1 <= len(stored) <= 4
    with Journal(path) as journal:
        left = [n for n in range(6) if n not in stored]
        done = await run(second, journal, left, stored)
    assert not path.exists() and sorted(stored) == list(range(6))
    assert [untimed(t) for t in done] == [untimed(whole[n]) for n in left]
    assert len(first.said) + len(second.said) == 6 * 6 and len(first.called) + len(second.called) == 6 * 4


def untimed(trajectory: Trajectory) -> Trajectory:
    return trajectory.model_copy(update={"seconds": 0.0})


# -- An episode that lives through weight updates goes on after a kill: each turn keeps the versions it w ------------


async def half(directory: Path, *, across: bool) -> None:
    with Journal(directory, across_versions=across) as journal, pytest.raises(Killed):
        await live(Speaker(PLAIN, Life(15)), journal)


@pytest.mark.parametrize("across", [False, True])
async def test_by_default_another_version_is_another_policy(tmp_path: Path, across: bool) -> None:
    await half(tmp_path / "j", across=across)
    speaker = Speaker(PLAIN, Life())
    speaker.version = 4
    with Journal(tmp_path / "j", across_versions=across) as journal:
        if across:
            done = await live(speaker, journal)
        else:
            with pytest.warns(JournalWarning, match="done anew"):
                done = await live(speaker, journal)
    assert (speaker.life.said[0] == (0, 0)) is not across
    assert repr(done) == repr(await live(Speaker(PLAIN, Life())))


class Notebook(FakeTool):
    """Keeps the words that a session has written, and answers with all of them."""

    def __init__(self, life: Life) -> None:
        async def reply(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            life.breathe()
            self.pages.setdefault(context.session, []).append(arguments["query"][0])
            return ToolResult(" ".join(self.pages[context.session]))

        super().__init__("search", reply)
        self.pages: dict[str, list[str]] = {}
        self.left: list[str] = []

    async def leave(self, session: str) -> None:
        self.left.append(session)
        self.pages.pop(session, None)


@pytest.mark.parametrize("length", range(1, 12))
async def test_what_a_tool_kept_is_made_again_by_the_same_calls(tmp_path: Path, length: int) -> None:
    script = [[call("a")], [TWO], [call("c")], [answer("x")]]

    async def lived(life: Life, journal: Journal | None) -> tuple[Trajectory, Notebook]:
        book = Notebook(life)
        agent = Agent(Speaker(script, life), {"search": book}, PROFILE, life.clock, world="w")
        return await agent.run(Question(id="q", text="Who?"), on_event=life.on_event, journal=journal), book

    whole, book = await lived(Life(), None)
    assert "a a b c" in whole.branch()[-2].text
    assert book.pages == {} and len(book.left) == 1
    with Journal(tmp_path / "j") as journal, pytest.raises(Killed):
        await lived(Life(length), journal)
    with Journal(tmp_path / "j") as journal:
        again, book = await lived(Life(), journal)
    assert [node.text for node in again.branch()] == [node.text for node in whole.branch()]
    assert book.pages == {} and len(book.left) == 1
