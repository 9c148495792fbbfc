import sys
from pathlib import Path

# The hand-made records of tests/train serve here too, also when this directory is run alone.
sys.path.insert(0, str(Path(__file__).parents[1] / "train"))
