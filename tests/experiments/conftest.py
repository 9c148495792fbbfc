import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "experiments"), str(ROOT / "tests" / "recipes")]  # the experiments are scripts; rl_runs
