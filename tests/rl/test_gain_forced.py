"""A visit at a spent budget is measured with its page: the real loop adds its hint to the observation, or cuts it.

A published system replaced the last observation by the hint, and measured the visit without what it had read.
"""

from loop_fakes import ByteTokenizer, FakeTool, TokenPolicy, answer, call, fake_profile, play

from sanderling.agent.transcript import FORCED, OBSERVATION_CUT
from sanderling.agent.turns import CUT_MARK
from sanderling.core.record import Question
from sanderling.core.types import Ending
from sanderling.rl.gain import GainConfig, plan_gains

QUESTION = Question(id="q", text="Where?", answers=("Paris",))


async def visited(page: str, **budgets: int):
    """One visit, and an answer that is asked for; what the two boundaries' contexts say."""
    policy = TokenPolicy([call("a", name="visit"), answer()])
    tool = FakeTool("visit", lambda arguments, context: page)
    done = await play(policy, tool, profile=fake_profile(budgets=budgets), question=QUESTION)
    assert done.ending is Ending.ANSWERED_AT_BUDGET
    plan = plan_gains(done, ByteTokenizer(), GainConfig())
    assert plan.pairs == ((0, 0, 1),) and plan.turns == 2
    texts = [ByteTokenizer().decode(list(plan.request.ids[:cut])) for cut in plan.request.cuts]
    return done, texts


async def test_the_closing_hint_leaves_the_page_where_it_is():
    done, (before, after) = await visited("the page that was read", max_turns=1)
    assert FORCED in done.branch()[-2].problems
    assert "the page that was read" not in before
    assert "the page that was read\n\nBudget used up. Answer now." in after
    assert after.endswith("<|im_start|>assistant\n<think>\n"), "the answer is forced where a turn would begin"


async def test_a_cut_page_is_measured_as_the_policy_saw_it():
    page = "HEAD " + "lorem ipsum " * 400 + " TAIL"
    done, (before, after) = await visited(page, max_context_tokens=3_000, answer_reserve_tokens=100)
    assert {FORCED, OBSERVATION_CUT} <= set(done.branch()[-2].problems)
    assert "HEAD" not in before
    for part in ("HEAD lorem", CUT_MARK, " TAIL\n\nBudget used up. Answer now."):
        assert part in after
