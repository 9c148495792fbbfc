"""Hear turns and results as they come, in a world with faults.

Run: python examples/watch_turns.py MODEL FOLDER QUESTION
"""

import sys

from sanderling import ask, open_agent, open_world


def heard(event: object) -> None:
    print(type(event).__name__)


agent = open_agent(sys.argv[1], open_world(sys.argv[2], faults="hostile", seed=3))
print(ask(sys.argv[3], agent, on_event=heard).answer)
