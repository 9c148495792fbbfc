"""Ask any server that speaks as OpenAI's.

Run: python examples/ask_endpoint.py http://localhost:8000/v1#model FOLDER QUESTION
"""

import sys

from sanderling import ask, open_agent

agent = open_agent(sys.argv[1], sys.argv[2], profile="dr-venus-4b", max_turns=20)
done = ask(sys.argv[3], agent)
print(done.ending, done.answer)
for turn in done.turns():
    print([call.arguments for call in turn.calls])
