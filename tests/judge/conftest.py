import sys
from pathlib import Path

# The hand-made records of tests/train and the loop's fakes of tests/agent serve here too, also when this is run alone.
sys.path[:0] = [str(Path(__file__).parents[1] / room) for room in ("train", "agent")]
