"""A function as a judge, and a built-in beside it.

Run: python examples/own_judge.py, or: sanderling eval run … --judge own_judge.py:lenient
"""

import asyncio

from sanderling import Question, Trajectory, open_judge, rule_on


def lenient(answer: str, accepted: str) -> float:
    """1 where the accepted answer stands anywhere in the agent's."""
    return float(accepted.lower() in answer.lower())


if __name__ == "__main__":
    question = Question(id="q", text="Which river?", answers=("Kent",))
    done = Trajectory(id="t", question=question, nodes=(), leaf=None, ending=None, answer="It is the Kent.")
    for judge in (open_judge(lenient), open_judge("exact")):
        print(judge.name, asyncio.run(rule_on(done, judge)).correct)
