import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# rl_runs and others' helpers.
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("recipes", "rl", "train")]
