"""The one research loop: data generation, RL, evaluation and the command line all run episodes through it.

It hands a policy only what is new, runs the calls it makes, and ends with a typed ending and a whole record, whatever happens
on the way: retries, budgets and forced answers are the profile's. Its rules are pinned in ``tests/agent/test_loop_rules.py``.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sanderling.agent.journal import Replay
from sanderling.agent.transcript import Transcript
from sanderling.agent.turns import CallBook, Finish, Verdict, allow, judge_turn, run_calls, unless_stopped
from sanderling.core.chat import BETWEEN_RESULTS, ChatRenderer
from sanderling.core.errors import UserError
from sanderling.core.parse import MAX_CALLS, ParsedTurn, ParseProblem, explain, parse_turn
from sanderling.core.profiles import Profile, ResultLayout, render_system
from sanderling.core.record import FOLLOWS, NodeKind, Question, Seeds, ToolEvent, Trajectory
from sanderling.core.types import Ending, ToolCall
from sanderling.policy.contract import Completion, ContextFullError, Delta, SampleKey, sampled_tokens, takes_tools
from sanderling.tools.contract import Tool, keeper_of, tool_roles


@dataclass(frozen=True)
class TurnStarted:
    """The policy is about to speak; ``forced``: the answer at a spent budget. Tokens may be estimated."""

    turn: int
    retry: int
    forced: bool
    prompt_tokens: int


@dataclass(frozen=True)
class TextDelta:
    """Text of a turn as it comes."""

    turn: int
    text: str


@dataclass(frozen=True)
class TurnSampled:
    """The policy has spoken; whether its turn stands is told next. Tokens are 0 where a server does not say."""

    turn: int
    retry: int
    prompt_tokens: int
    sampled_tokens: int
    seconds: float  # of a turn that a journal remembers, what it had taken


@dataclass(frozen=True)
class TurnRejected:
    """An attempt, whose text may have been streamed, is tried again; ``reason`` is the verdict on it."""

    turn: int
    retry: int
    reason: str


@dataclass(frozen=True)
class CallsMade:
    """A turn stands, and its calls are about to run."""

    turn: int
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True)
class CallGoesOn:
    """What a tool says of a call that takes long."""

    turn: int
    tool: str
    text: str


@dataclass(frozen=True)
class Observed:
    """What the agent will read next: results, or the loop's notice of a malformed turn (then without outcomes)."""

    turn: int
    text: str
    outcomes: tuple[ToolEvent, ...]
    seconds: float


@dataclass(frozen=True)
class Ended:
    """The episode is over."""

    trajectory: Trajectory


Event = TurnStarted | TextDelta | TurnSampled | TurnRejected | CallsMade | CallGoesOn | Observed | Ended


@dataclass(frozen=True)
class End:
    """How an episode stopped."""

    ending: Ending
    answer: str | None = None
    detail: str = ""


class Episode:
    """One episode under way."""

    def __init__(
        self,
        question: Question,
        seeds: Seeds,
        replay: Replay,
        tools: Mapping[str, Tool],
        profile: Profile,
        on_event: Callable[[Event], None] | None,
        texts: bool,
        stop: asyncio.Event | None,
        finish_early: asyncio.Event | None,
        before: Trajectory | None = None,
    ) -> None:
        """Open a session of the policy, which ``replay`` has, with the clock and how calls are run; see `agent.Agent.run`."""
        self._question, self._seeds, self._tools, self._profile = question, seeds, tools, profile
        self._policy, self._clock, self._replay = replay.policy, replay.clock, replay
        self._emit = on_event or (lambda event: None)
        self._streams = texts and on_event is not None
        self._stop, self._finish_early = stop, finish_early
        self._started = self._clock.monotonic()
        tokenizer = self._policy.tokenizer
        chat = None if tokenizer is None else ChatRenderer(tokenizer, profile)
        self._think_open = chat is not None and "<think>" in profile.think_prefix
        most, own = profile.budgets.max_context_tokens, self._policy.context_length
        self._limit = most if own is None else min(most, own)
        self._transcript = Transcript(profile, chat)
        self._specs = tuple(tool.spec for tool in tools.values())
        self._natively = self._specs if profile.general and takes_tools(self._policy) else ()
        self._before, branch = before, [] if before is None else before.branch()
        self._book = CallBook(question, seeds.episode, seeds.attempt, branch)
        self._malformed_in_row = self._repeated_turns = 0
        self._passages = sum(len(event.passages) for node in branch for event in node.events)  # numbered so far
        self._session = self._policy.open(self._key(0, 0))

    async def run(self) -> End:
        """Turns until an ending. Raises PolicyOutageError, and Stopped when the stop event is set."""
        if self._before is None:
            in_prompt = () if self._natively else self._specs
            self._transcript.open(render_system(self._profile, in_prompt, self._clock), self._question.text)
        else:
            self._check_follows(self._before)
            self._transcript.follow(self._before, self._question.text)
        turn = 0
        while True:
            allowance = allow(
                self._profile.budgets,
                turns=turn,
                prompt_tokens=self._transcript.prompt_tokens,
                seconds=self._clock.monotonic() - self._started,
                limit=self._limit,
                turn_tokens=self._profile.sampling.max_tokens,
                hint_tokens=self._transcript.hint_tokens,
            )
            if allowance.spent is not None:
                return await self._at_budget(turn, allowance.spent, allowance.detail)
            early = self._replay.finishes_early(turn, self._finish_early)
            if early is not None:
                return await self._at_budget(turn, Ending.TIME_LIMIT, early.why, early.most)
            try:
                end = await self._turn(turn, allowance.max_tokens)
            except ContextFullError as error:  # the server takes less than it was said to
                full = Finish(str(error), error.most or self._transcript.prompt_tokens * 3 // 4)
                full.set()
                self._replay.finishes_early(turn, full)
                end = await self._at_budget(turn, Ending.CONTEXT_EXHAUSTED, full.why, full.most)
            if end is not None:
                return end
            turn += 1

    async def close(self) -> None:
        """Close the policy's session, and have its tools drop what they kept."""
        self._session.close()
        for tool in self._tools.values():
            if (keeper := keeper_of(tool)) is not None:
                await keeper.leave(self._book.session)

    def record(self, end: End, *, id: str, world: str) -> Trajectory:
        """The record so far, under this ending; what was queued for the next turn is part of it."""
        self._transcript.commit()
        tokenizer = self._policy.tokenizer
        return Trajectory(
            id=id,
            question=self._question,
            nodes=tuple(self._transcript.nodes),
            leaf=self._transcript.leaf,
            profile=self._profile.name,
            model=self._policy.name,
            world=world,
            tokenizer=None if tokenizer is None else tokenizer.fingerprint,
            seeds=self._seeds,
            seconds=self._clock.monotonic() - self._started,
            meta={} if self._before is None else {FOLLOWS: {"id": self._before.id, "nodes": len(self._before.path())}},
            **vars(end),
        )

    def _check_follows(self, before: Trajectory) -> None:
        """Raises UserError where the model could not read the earlier episode as its own."""
        tokenizer = self._policy.tokenizer
        if before.profile != self._profile.name:
            raise UserError(f"{before.id} was asked under the profile {before.profile}: go on with --profile {before.profile}.")
        if before.tokenizer != (None if tokenizer is None else tokenizer.fingerprint):
            raise UserError(f"{before.id} was asked of a model with other tokens, {before.model}: go on with that one.")
        if self._profile.general and not self._natively and "<tools>" not in before.branch()[0].text:
            raise UserError(f"{before.id} was asked of a server that takes tools: go on with such a one, or ask anew.")

    async def _turn(self, turn: int, max_tokens: int) -> End | None:
        """One accepted turn and what follows from it; None: go on."""
        guards = self._profile.guards
        completion, parsed, verdict = await self._sample(turn, max_tokens)
        if verdict is Verdict.ANSWER:
            return End(Ending.ANSWERED, parsed.answer, self._cut_short(completion))
        if verdict is Verdict.REPETITIVE:
            return End(Ending.REPETITION, detail="The text of the last turn went round in circles.")
        if verdict is Verdict.MALFORMED:
            self._malformed_in_row += 1
            if self._malformed_in_row >= guards.max_malformed:
                return End(Ending.MALFORMED, detail=self._unreadable(completion.text, parsed))
            notice = self._profile.malformed_hint.replace("{problem}", explain(parsed.problems))
            self._transcript.observe(notice, completion, kind=NodeKind.HINT)
            self._emit(Observed(turn, notice, (), 0.0))
            return None
        self._malformed_in_row = 0
        if verdict is Verdict.REPEATED_CALL:
            self._repeated_turns += 1
            if self._repeated_turns >= guards.max_repeated_calls:
                return End(Ending.REPETITION, detail=f"{self._repeated_turns} turns only repeated earlier calls.")
        return await self._call(turn, completion, parsed.calls, parsed.problems)

    async def _sample(self, turn: int, max_tokens: int) -> tuple[Completion, ParsedTurn, Verdict]:
        """Sample until a turn is acceptable or retries are used up; rejected attempts stay as leaves."""
        guards = self._profile.guards
        delta = self._transcript.delta(self._natively)
        retry = 0
        while True:
            mark = self._session.mark()
            completion, parsed, seconds = await self._generate(delta, self._key(turn, retry), max_tokens)
            verdict = judge_turn(completion.text, parsed.calls, parsed.answer, self._book.made, guards)
            rejected = not verdict.acceptable and retry < guards.max_retries
            odd = () if verdict.acceptable else (verdict.value,)
            self._transcript.add_turn(completion, parsed, odd, rejected=rejected, seconds=seconds)
            if not rejected:
                return completion, parsed, verdict
            self._emit(TurnRejected(turn, retry, verdict.value))
            self._session.rewind(mark)
            retry += 1

    async def _generate(
        self, delta: Delta, key: SampleKey, max_tokens: int, *, forced: bool = False
    ) -> tuple[Completion, ParsedTurn, float]:
        """One attempt at a turn: what was sampled, how that reads, and the seconds it took."""
        self._emit(TurnStarted(key.turn, key.retry, forced, self._transcript.prompt_tokens))
        sampling = self._profile.sampling
        if max_tokens < sampling.max_tokens:
            sampling = sampling.model_copy(update={"max_tokens": max_tokens})
        on_text = (lambda text: self._emit(TextDelta(key.turn, text))) if self._streams else None
        started = self._clock.monotonic()
        completion = await unless_stopped(self._session.generate(delta, sampling, key, on_text), self._stop)
        seconds = self._clock.monotonic() - started
        self._emit(TurnSampled(key.turn, key.retry, completion.prompt_tokens, sampled_tokens(completion), seconds))
        return completion, self._read(completion.text, last=forced or self._malformed_in_row > 0), seconds

    def _read(self, text: str, *, last: bool, general: bool = False) -> ParsedTurn:
        """What a turn means; ``last``: a general model was told that prose will be its answer."""
        if general or self._profile.general:
            from sanderling.core.general import parse_general  # which trained models do without

            return parse_general(text, self._specs, self._profile.tools, last=last, passages=self._passages)
        return parse_turn(text, think_open=self._think_open, names=self._profile.tools)

    def _cut_short(self, completion: Completion) -> str:
        """That prose, which has no end of its own, was cut off."""
        told = "The answer is cut off: it took all the tokens that a turn may have."
        return told if self._profile.general and completion.is_cut else ""

    def _unreadable(self, text: str, parsed: ParsedTurn) -> str:
        """Why an episode of unreadable turns ends, and with which profile it would not."""
        told = f"{self._malformed_in_row} turns in a row could not be read. {explain(parsed.problems)}"
        if not self._profile.general and self._read(text, last=True, general=True).actionable:
            told += f" If the model was not trained for {self._profile.name}, but is a general one, use --profile general."
        return told

    async def _call(
        self, turn: int, completion: Completion, calls: tuple[ToolCall, ...], problems: tuple[ParseProblem, ...]
    ) -> End | None:
        """Run the turn's calls and queue their results as one message."""
        self._emit(CallsMade(turn, calls))
        self._book.tell = lambda tool, text: self._emit(CallGoesOn(turn, tool, text))
        started = self._clock.monotonic()
        running = run_calls(calls, self._tools, self._book, self._profile.budgets.tool_timeout_s, self._replay.run_call)
        outcomes = await unless_stopped(running, self._stop)
        seconds = self._clock.monotonic() - started
        roles, texts, events = tool_roles(self._profile), list[str](), tuple[ToolEvent, ...]()
        cited = self._profile.results is ResultLayout.CITED
        for outcome in outcomes:
            text, passages = outcome.numbered(self._passages + 1, whole=cited and outcome.call.name not in roles)
            self._passages += len(passages)
            texts.append(text)
            events += (outcome.event(roles, passages),)
        body = BETWEEN_RESULTS.join(texts)
        if self._profile.general and ParseProblem.TOO_MANY_CALLS in problems:
            body += f"\n\n(Only the first {MAX_CALLS} calls of a turn are run.)"
        self._transcript.observe(body, completion, events=events, seconds=seconds)
        self._emit(Observed(turn, body, events, seconds))
        outage = next((outcome.outage for outcome in outcomes if outcome.outage), None)
        return None if outage is None else End(Ending.TOOL_OUTAGE, detail=outage)

    async def _at_budget(self, turn: int, spent: Ending, detail: str, most: int | None = None) -> End:
        """A budget is spent: ask once for the answer, with the last observation kept; ``most``: tokens that may take."""
        budgets = self._profile.budgets
        if turn == 0 and spent is Ending.CONTEXT_EXHAUSTED and most is None:
            used, what = self._transcript.prompt_tokens, "Instructions" if self._before is None else "The conversation so far"
            detail = (
                f"{what} and question take {used} tokens, and the context of {self._limit} must also hold a turn and an "
                "answer: shorten the question, or use a model or profile with more context."
            )
        if not budgets.force_answer:
            return End(spent, detail=detail)
        kept = min(budgets.answer_reserve_tokens, self._profile.sampling.max_tokens)  # no more than one turn may have
        limit = self._limit
        if most is not None:
            limit, kept = min(limit, most), min(kept, most // 4)
        room = self._transcript.close_with_hint(limit, kept)
        if not room:
            if most is None:
                return End(Ending.CONTEXT_EXHAUSTED, detail=detail)
            return End(spent, detail=f"{detail} No answer fits into what is left.")
        delta = self._transcript.delta(self._natively, must_answer=True)
        completion, parsed, seconds = await self._generate(delta, self._key(turn, 0), room, forced=True)
        self._transcript.add_turn(completion, parsed, (), rejected=False, seconds=seconds)
        answer = None if parsed.calls else parsed.answer
        if parsed.calls and self._profile.general:  # its server took no notice that none is run
            answer = parse_turn(completion.text).answer
        if answer is None:
            return End(Ending.NO_ANSWER, detail=f"{detail} The forced turn gave no answer.")
        return End(Ending.ANSWERED_AT_BUDGET, answer, f"{detail} {self._cut_short(completion)}".strip())

    def _key(self, turn: int, retry: int) -> SampleKey:
        return SampleKey(self._seeds.run, self._question.id, self._seeds.attempt, turn, retry)
