import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The experiments are scripts; rl_runs.
sys.path[:0] = [str(ROOT / name) for name in ("experiments", "tests/recipes", "tests/rl", "tests/train")]
