"""Through how many of our files a step of IGPO passes; how many lines ``train rl`` loads, tests/test_loaded.py counts.

    python benchmarks/rl_files.py

One step of DR-Venus' IGPO in one process, with searches and visits in it: rollouts of `tests/rl/rl_led.py` over a small
world. A file counts when a function of it ran: in the step, from its first rollout to its published weights, and in its
learning half (`rl.step.Learner.learn`).
"""

import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "experiments"), *(str(ROOT / "tests" / name) for name in (".", "rl", "policy", "agent", "train"))]
PACKAGE = str(ROOT / "src" / "sanderling")


def main() -> None:
    """Run the step and print the counts."""
    from rl_led import Way, asked, led, write_led
    from rl_runs import silent

    from sanderling.core.profiles import get_profile
    from sanderling.recipes.find import find_rl_recipe
    from sanderling.rl.launch import Order, run_rl_command
    from sanderling.rl.queue import Rollouts
    from sanderling.rl.step import Learner

    step: set[str] = set()
    learning: set[str] = set()
    seen = {"step": False, "learning": False}

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE) and not frame.f_code.co_name.startswith("<module"):
            if seen["step"]:
                step.add(frame.f_code.co_filename)
            if seen["learning"] and threading.current_thread().name.startswith("learner"):
                learning.add(frame.f_code.co_filename)

    enter, published, learn = Rollouts.__aenter__, Rollouts.published, Learner.learn

    async def entered(self: Any) -> Any:
        seen["step"] = True
        return await enter(self)

    def learnt(self: Any, *arguments: Any) -> Any:
        seen["learning"] = True
        try:
            return learn(self, *arguments)
        finally:
            seen["learning"] = False

    def is_published(self: Any) -> None:
        published(self)
        seen["step"] = False

    Rollouts.__aenter__, Rollouts.published, Learner.learn = entered, is_published, learnt  # pyright: ignore
    ways = (Way(("search", "visit", "right")), Way(("search", "visit", "wrong")), Way(("broken", "search", "visit", "right")))
    sets = ["rl.steps=1", "rl.questions_per_step=2", "rl.group_size=3", "rl.selection.every=0", "parallel.kind=none"]
    sets += ["rollout.context_tokens=8000", "rollout.turn_tokens=160", "rollout.answer_reserve_tokens=160"]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        questions = write_led(place, 4)
        profile = get_profile("dr-venus-4b")
        with led(place, profile=profile, ways=ways, questions=questions, choose=lambda *one: one[1] % 3) as (address, _):
            sets += [f"sampler.endpoint={address}", "sampler.served=m", "sampler.sleeps=false"]
            given = {"model": place / "base", "worlds": (place / "world",), "questions": (asked(place, "q.jsonl", questions),)}
            threading.setprofile(trace)
            sys.setprofile(trace)
            run_rl_command(Order(find_rl_recipe("dr-venus-4b", sets, given), place / "out"), silent())
            sys.setprofile(None)
    for what, found in (("a step", step), ("its learning half", learning)):
        print(f"{what} passes through {len(found)} files:")
        print("  " + ", ".join(sorted(file.removeprefix(f"{PACKAGE}/") for file in found)))


if __name__ == "__main__":
    main()
