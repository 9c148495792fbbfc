"""Fine-tune a model on trajectories.

Run: python examples/train_sft.py MODEL TRAJECTORIES.jsonl OUT data.profile=dr-venus-4b [KEY=VALUE ...]
"""

import sys

from sanderling import train_sft

if __name__ == "__main__":
    print(train_sft(sys.argv[1], [sys.argv[2]], sys.argv[3], sets=sys.argv[4:]))
