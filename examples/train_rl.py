"""Reinforcement with an estimator of one's own.

Run: python examples/train_rl.py MODEL QUESTIONS.jsonl WORLD OUT [KEY=VALUE ...]
"""

import sys
from pathlib import Path

from sanderling import train_rl

if __name__ == "__main__":
    mine = Path(__file__).with_name("own_estimator.py")
    sets = [f"rl.estimator.kind={mine}:above_average", *sys.argv[5:]]
    print(train_rl(sys.argv[1], [sys.argv[2]], [sys.argv[3]], sys.argv[4], recipe="tiny", sets=sets))
