"""A function as a tool.

Run: python examples/own_tool.py MODEL FOLDER QUESTION, or: sanderling ask … --tool examples/own_tool.py:tides
"""

import sys

from sanderling import ask, open_agent, tool


@tool
def tides(place: str, days: int = 1) -> str:
    """When the sand of a place is dry."""
    return f"At {place} the sand is dry at noon, for {days} days."


if __name__ == "__main__":
    agent = open_agent(sys.argv[1], sys.argv[2], tools=[tides], profile="dr-venus-4b")
    print(ask(sys.argv[3], agent).answer)
