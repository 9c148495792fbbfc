"""Measure an agent, with error bars.

Run: python examples/evaluate.py MODEL FOLDER QUESTIONS.jsonl
"""

import sys

from sanderling import evaluate_agent, open_agent

agent = open_agent(sys.argv[1], sys.argv[2])
found = evaluate_agent(agent, sys.argv[3], "f1:0.8", attempts=2)
print(found.pass_at_k[1].value, found.pass_at_k[1].interval, found.pass_at_k[2].value)
