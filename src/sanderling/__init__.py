"""Sanderling: build, train, measure and run edge-scale deep research agents.

    from sanderling import ask, open_agent
    agent = open_agent("http://localhost:8000/v1#m", "notes/", profile="dr-venus-4b")
    print(ask("Which river flows through Kendal?", agent).answer)

The public names are below; each is loaded when it is first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PLACES = {
    "open_world": "api",
    "open_agent": "api",
    "ask": "api",
    "open_judge": "api",
    "open_estimator": "api",
    "evaluate_agent": "api",
    "train_sft": "api",
    "train_rl": "api",
    "tool": "tools.contract",
    "rule_on": "judge.verdict",
    "TurnTable": "rl.table",
    "Agent": "agent.agent",
    "Question": "core.record",
    "Trajectory": "core.record",
    "ToolContext": "tools.contract",
    "ToolResult": "tools.contract",
    "UserError": "core.errors",
}

if TYPE_CHECKING:
    from sanderling.agent.agent import Agent as Agent
    from sanderling.api import ask as ask
    from sanderling.api import evaluate_agent as evaluate_agent
    from sanderling.api import open_agent as open_agent
    from sanderling.api import open_estimator as open_estimator
    from sanderling.api import open_judge as open_judge
    from sanderling.api import open_world as open_world
    from sanderling.api import train_rl as train_rl
    from sanderling.api import train_sft as train_sft
    from sanderling.core.errors import UserError as UserError
    from sanderling.core.record import Question as Question
    from sanderling.core.record import Trajectory as Trajectory
    from sanderling.judge.verdict import rule_on as rule_on
    from sanderling.rl.table import TurnTable as TurnTable
    from sanderling.tools.contract import ToolContext as ToolContext
    from sanderling.tools.contract import ToolResult as ToolResult
    from sanderling.tools.contract import tool as tool


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
