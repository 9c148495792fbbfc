"""Ask a model of a Hugging Face directory, in this process.

Run: python examples/ask_model.py MODEL FOLDER QUESTION
"""

import sys

from sanderling import ask, open_agent

agent = open_agent(sys.argv[1], sys.argv[2], max_turns=2)
done = ask(sys.argv[3], agent, seed=7)
print(done.ending, done.answer, sum(len(turn.token_ids) for turn in done.turns()), "tokens sampled")
