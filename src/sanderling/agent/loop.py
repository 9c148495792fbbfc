"""The one research loop: data generation, RL, evaluation, the command line and the server all call :func:`run_episode`.

It hands a policy only what is new, runs the calls it makes, and ends with a typed ending and a whole record, whatever happens
on the way. Who calls it makes no difference: retries, budgets and forced answers are the profile's. Its rules are numbered and
pinned in ``tests/agent/test_loop_rules.py``. Knows no training, no reward, and not whether an answer is right.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sanderling.agent.budget import CUT_MARK, Allowance, Standing, allow, answer_tokens, context_limit, cut_middle
from sanderling.agent.calls import CallBook, run_calls, tool_event
from sanderling.agent.events import CallsMade, Ended, Event, Observed, TextDelta, TurnRejected, TurnSampled, TurnStarted
from sanderling.agent.guards import Verdict, judge_turn
from sanderling.agent.journal import Journal
from sanderling.agent.resume import Means, journaled
from sanderling.agent.scribe import NEXT_RESPONSE, Draft, Scribe
from sanderling.agent.state import Transcript, turn_node
from sanderling.agent.stopping import Stopped, unless_stopped
from sanderling.core.chat import ChatRenderer
from sanderling.core.parse import ParsedTurn, explain, parse_turn
from sanderling.core.profiles import Profile
from sanderling.core.prompts import render_malformed, render_system
from sanderling.core.record import NodeKind, Question, Seeds, Trajectory
from sanderling.core.types import Clock, Ending, ToolCall
from sanderling.policy.contract import Completion, Delta, Policy, PolicyOutageError, SampleKey, Session
from sanderling.policy.metered import sampled_tokens
from sanderling.tools.contract import Tool
from sanderling.tools.registry import tool_roles

FORCED = "forced_answer"
"""Problem code of a message that the closing hint was added to."""
OBSERVATION_CUT = "observation_cut"
"""Problem code of an observation cut from its middle, so that the closing hint and an answer fit."""


@dataclass(frozen=True)
class End:
    """How an episode stopped."""

    ending: Ending
    answer: str | None = None
    detail: str = ""


async def run_episode(
    question: Question,
    *,
    policy: Policy,
    tools: Mapping[str, Tool],
    profile: Profile,
    clock: Clock,
    trajectory_id: str,
    seeds: Seeds,
    world: str = "",
    meta: Mapping[str, Any] | None = None,
    on_event: Callable[[Event], None] | None = None,
    texts: bool = True,
    cancel: asyncio.Event | None = None,
    on_cancel: Callable[[Trajectory], None] | None = None,
    journal: Journal | None = None,
    hurry: asyncio.Event | None = None,
) -> Trajectory:
    """Run one episode to its end and return its record.

    With a ``journal`` it goes on where an earlier run of the same ``trajectory_id`` was killed or met an outage, to the record
    of an uninterrupted run; entries stay until ``journal.stored`` hears of it. Without ``texts``, ``on_event`` hears no
    TextDelta, and servers are asked for whole turns as when nobody watches: a stream that breaks midway is not tried again.

    Once ``hurry`` is set, the agent is asked for its answer at its next turn, as at a spent budget.

    Outages, spent budgets and a set ``cancel`` event are endings. When the task itself is cancelled, ``on_cancel`` receives the
    record so far and CancelledError goes on. Only programming errors and UserErrors (a tokenizer that does not fit) are raised.
    """
    about = f"{profile.name} over {world}"
    plain = nullcontext(Means(policy, clock))
    with plain if journal is None else journaled(journal, trajectory_id, policy, clock, about) as means:
        episode = _Episode(question, means, tools, profile, seeds, on_event, texts, cancel, hurry)
        record = partial(episode.record, trajectory_id=trajectory_id, world=world, meta=dict(meta or {}))
        trajectory = await _to_the_end(episode, record, on_cancel)
    if on_event is not None:
        on_event(Ended(trajectory))
    return trajectory


async def _to_the_end(
    episode: "_Episode", record: Callable[[End], Trajectory], on_cancel: Callable[[Trajectory], None] | None
) -> Trajectory:
    """The record of an episode, however it ends."""
    try:
        end = await episode.run()
    except PolicyOutageError as error:
        end = End(Ending.POLICY_OUTAGE, detail=str(error) or "The model's backend is unreachable.")
    except Stopped:
        end = End(Ending.CANCELLED, detail="The episode was stopped on request.")
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel(record(End(Ending.CANCELLED, detail="The episode's task was cancelled.")))
        raise
    finally:
        episode.close()
    return record(end)


class _Episode:
    """One episode under way."""

    def __init__(
        self,
        question: Question,
        means: Means,
        tools: Mapping[str, Tool],
        profile: Profile,
        seeds: Seeds,
        on_event: Callable[[Event], None] | None,
        texts: bool,
        cancel: asyncio.Event | None,
        hurry: asyncio.Event | None,
    ) -> None:
        self.question, self.tools, self.profile, self.seeds = question, tools, profile, seeds
        self.policy, self.clock, self.run_call = means.policy, means.clock, means.run_call
        self.on_event, self.stop = on_event, cancel
        self.hurried = lambda turn: means.is_hurried(turn, hurry)
        self.streams = texts and on_event is not None
        self.started = self.clock.monotonic()
        tokenizer = self.policy.tokenizer
        chat = None if tokenizer is None else ChatRenderer(tokenizer, profile)
        self.end_id = None if chat is None else chat.end_id
        self.think_open = chat is not None and "<think>" in profile.think_prefix
        self.scribe = Scribe(profile, chat)
        self.limit = context_limit(profile.budgets, self.policy.context_length)
        worst_hint = self.scribe.observation(_with_hint(CUT_MARK, profile.force_hint), previous_ended=False)
        self.hint_tokens = worst_hint.tokens
        self.roles = tool_roles(profile)
        self.transcript = Transcript()
        self.book = CallBook(seeds.episode, question.masked_urls, question.id, seeds.attempt)
        self.malformed_in_row = 0
        self.repeated_turns = 0
        self.session: Session | None = None

    # -- the episode ---------------------------------------------------------------------------------------------------

    async def run(self) -> End:
        """Turns until an ending. Raises PolicyOutageError, and Stopped when the cancel event is set."""
        specs = [tool.spec for tool in self.tools.values()]
        self.transcript.put(self.scribe.system(render_system(self.profile, specs, self.clock)))
        self.transcript.put(self.scribe.question(self.question.text))
        self.session = self.policy.open(self._key(0, 0))
        turn = 0
        while True:
            allowance = self._allowance(turn)
            if allowance.spent is not None:
                return await self._at_budget(turn, allowance.spent, allowance.detail)
            if self.hurried(turn):
                return await self._at_budget(turn, Ending.TIME_LIMIT, "The answer was asked for early.")
            end = await self._turn(turn, allowance.max_tokens)
            if end is not None:
                return end
            turn += 1

    def close(self) -> None:
        """Free the session."""
        if self.session is not None:
            self.session.close()

    def record(self, end: End, *, trajectory_id: str, world: str, meta: dict[str, Any]) -> Trajectory:
        """The record so far, under this ending; what was queued for the next turn is part of it."""
        self.transcript.commit()
        tokenizer = self.policy.tokenizer
        return Trajectory(
            id=trajectory_id,
            question=self.question,
            nodes=tuple(self.transcript.nodes),
            leaf=self.transcript.leaf,
            ending=end.ending,
            answer=end.answer,
            profile=self.profile.name,
            model=self.policy.name,
            world=world,
            tokenizer=None if tokenizer is None else tokenizer.fingerprint,
            seeds=self.seeds,
            seconds=self._elapsed(),
            detail=end.detail,
            meta=meta,
        )

    # -- one turn ------------------------------------------------------------------------------------------------------

    async def _turn(self, turn: int, max_tokens: int) -> End | None:
        """One standing turn and what follows from it; None: go on."""
        guards = self.profile.guards
        completion, parsed, verdict = await self._say(turn, max_tokens)
        if verdict is Verdict.ANSWER:
            return End(Ending.ANSWERED, parsed.answer)
        if verdict is Verdict.REPETITIVE:
            return End(Ending.REPETITION, detail="The text of the last turn went round in circles.")
        if verdict is Verdict.MALFORMED:
            self.malformed_in_row += 1
            if self.malformed_in_row >= guards.max_malformed:
                return End(Ending.MALFORMED, detail=f"{self.malformed_in_row} turns in a row could not be read.")
            self._notice(turn, completion, parsed)
            return None
        self.malformed_in_row = 0
        if verdict is Verdict.REPEATED_CALL:
            self.repeated_turns += 1
            if self.repeated_turns >= guards.max_repeated_calls:
                return End(Ending.REPETITION, detail=f"{self.repeated_turns} turns only repeated earlier calls.")
        return await self._observe(turn, completion, parsed.calls)

    async def _say(self, turn: int, max_tokens: int) -> tuple[Completion, ParsedTurn, Verdict]:
        """Sample until a turn is acceptable or retries are used up; rejected attempts stay as leaves."""
        assert self.session is not None
        guards = self.profile.guards
        delta = self.transcript.delta()
        retry = 0
        while True:
            mark = self.session.mark()
            completion, parsed, seconds = await self._generate(delta, self._key(turn, retry), max_tokens)
            verdict = judge_turn(completion.text, parsed.calls, parsed.answer, self.book, guards)
            rejected = not verdict.acceptable and retry < guards.max_retries
            odd = () if verdict.acceptable else (verdict.value,)
            self._add_turn(completion, parsed, odd, rejected=rejected, seconds=seconds)
            if not rejected:
                return completion, parsed, verdict
            self._emit(TurnRejected(turn, retry, verdict.value))
            self.session.rewind(mark)
            retry += 1

    async def _generate(
        self, delta: Delta, key: SampleKey, max_tokens: int, *, forced: bool = False
    ) -> tuple[Completion, ParsedTurn, float]:
        """One attempt at a turn: what it says, how that reads, and the seconds it took."""
        assert self.session is not None
        self._emit(TurnStarted(key.turn, key.retry, forced, self.transcript.prompt_tokens))
        sampling = self.profile.sampling
        if max_tokens < sampling.max_tokens:
            sampling = sampling.model_copy(update={"max_tokens": max_tokens})
        on_text = (lambda text: self._emit(TextDelta(key.turn, text))) if self.streams else None
        started = self.clock.monotonic()
        completion = await unless_stopped(self.session.generate(delta, sampling, key, on_text), self.stop)
        seconds = self.clock.monotonic() - started
        self._emit(TurnSampled(key.turn, key.retry, completion.prompt_tokens, sampled_tokens(completion), seconds))
        return completion, parse_turn(completion.text, think_open=self.think_open, names=self.profile.tools), seconds

    def _add_turn(
        self, completion: Completion, parsed: ParsedTurn, odd: tuple[str, ...], *, rejected: bool, seconds: float
    ) -> None:
        """Record one attempt, with the messages that it answers."""
        self.transcript.commit()
        problems = (*(problem.value for problem in parsed.problems), *odd)
        node = turn_node(completion, parsed, self.transcript.leaf, problems, rejected=rejected, seconds=seconds)
        reported = completion.prompt_tokens if completion.token_ids is None else 0
        prompt = reported or self.transcript.seen_tokens
        self.transcript.add_turn(node, prompt + self.scribe.spoken_tokens(completion.text, completion.token_ids))

    # -- what the agent reads next -------------------------------------------------------------------------------------

    def _notice(self, turn: int, completion: Completion, parsed: ParsedTurn) -> None:
        """Tell the agent why its turn could not be used."""
        body = render_malformed(self.profile, explain(parsed.problems))
        self._put(turn, self.scribe.observation(body, previous_ended=self._ended(completion), kind=NodeKind.HINT))

    async def _observe(self, turn: int, completion: Completion, calls: tuple[ToolCall, ...]) -> End | None:
        """Run the turn's calls and queue their results as one message."""
        self._emit(CallsMade(turn, calls))
        started = self.clock.monotonic()
        running = run_calls(calls, self.tools, self.book, self.profile.budgets.tool_timeout_s, self.run_call)
        outcomes = await unless_stopped(running, self.stop)
        seconds = self.clock.monotonic() - started
        body = NEXT_RESPONSE.join(outcome.result.text for outcome in outcomes)
        draft = self.scribe.observation(body, previous_ended=self._ended(completion))
        events = tuple(tool_event(outcome, self.roles) for outcome in outcomes)
        self._put(turn, replace(draft, events=events, seconds=seconds))
        outage = next((outcome.outage for outcome in outcomes if outcome.outage), None)
        return None if outage is None else End(Ending.TOOL_OUTAGE, detail=outage)

    def _put(self, turn: int, draft: Draft) -> None:
        self.transcript.put(draft)
        self._emit(Observed(turn, draft.body, draft.events, draft.seconds))

    # -- the end of a budget -------------------------------------------------------------------------------------------

    async def _at_budget(self, turn: int, spent: Ending, detail: str) -> End:
        """A budget is spent: ask once for the answer, with the last observation kept."""
        asked_only = self.transcript.last_pending.kind is NodeKind.QUESTION
        if asked_only and spent is Ending.CONTEXT_EXHAUSTED:
            used = self.transcript.prompt_tokens
            detail = (
                f"Instructions and question take {used} tokens, and the context of {self.limit} must also hold a turn and an "
                "answer: shorten the question, or use a model or profile with more context."
            )
        if not self.profile.budgets.force_answer:
            return End(spent, detail=detail)
        room = self._close_with_hint()
        if room is None:
            return End(Ending.CONTEXT_EXHAUSTED, detail=detail)
        delta = self.transcript.delta()
        completion, parsed, seconds = await self._generate(delta, self._key(turn, 0), room, forced=True)
        self._add_turn(completion, parsed, (), rejected=False, seconds=seconds)
        if parsed.answer is None or parsed.calls:
            return End(Ending.NO_ANSWER, detail=f"{detail} The forced turn gave no answer.")
        return End(Ending.ANSWERED_AT_BUDGET, parsed.answer, detail)

    def _close_with_hint(self) -> int | None:
        """Add the closing hint to the last queued message, cutting an observation where it must.

        Returns the tokens left for the answer, or None when hint and answer cannot fit. A question is never cut.
        """
        draft = self.transcript.last_pending
        before = self.transcript.prompt_tokens - draft.tokens
        most = self.limit - before - answer_tokens(self.profile.budgets, self.profile.sampling.max_tokens)

        def closed(body: str) -> Draft:
            return self.scribe.rewrite(draft, _with_hint(body, self.profile.force_hint), FORCED)

        last = closed(draft.body)
        if last.tokens > most:
            if draft.kind is NodeKind.QUESTION:
                return None
            body = cut_middle(draft.body, lambda text: closed(text).tokens, most)
            if body is None:
                return None
            last = replace(closed(body), problems=(*draft.problems, FORCED, OBSERVATION_CUT))
        self.transcript.replace_last(last)
        return self.limit - before - last.tokens

    # -- small things --------------------------------------------------------------------------------------------------

    def _allowance(self, turn: int) -> Allowance:
        standing = Standing(turn, self.transcript.prompt_tokens, self._elapsed())
        most = self.profile.sampling.max_tokens
        return allow(standing, self.profile.budgets, limit=self.limit, turn_tokens=most, hint_tokens=self.hint_tokens)

    def _key(self, turn: int, retry: int) -> SampleKey:
        return SampleKey(self.seeds.run, self.question.id, self.seeds.attempt, turn, retry)

    def _ended(self, completion: Completion) -> bool:
        """Whether the sampled ids end with the end-of-turn token; without ids it makes no difference."""
        return completion.token_ids is None or completion.token_ids[-1:] == (self.end_id,)

    def _elapsed(self) -> float:
        return self.clock.monotonic() - self.started

    def _emit(self, event: Event) -> None:
        if self.on_event is not None:
            self.on_event(event)


def _with_hint(body: str, hint: str) -> str:
    """A message that ends with the closing hint."""
    return f"{body}\n\n{hint}"
