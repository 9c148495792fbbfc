"""A function as the model: what it returns is the next turn.

Run: python examples/own_model.py FOLDER
"""

import sys

from sanderling import ask, open_agent

SEARCH = '<think>Look.</think><tool_call>{"name": "search", "arguments": {"query": ["river"]}}</tool_call>'


def model(messages, key) -> str:
    if key.turn == 0:
        return SEARCH
    return f"<think>Seen.</think><answer>{messages[-1].content.split()[2]}</answer>"


if __name__ == "__main__":
    print(ask("Which river?", open_agent(model, sys.argv[1])).answer)
