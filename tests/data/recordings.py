"""Where recorded trajectories are found."""

import os
from pathlib import Path

import pytest

ROOT = os.environ.get("SANDERLING_RECORDED", "")
needs_recordings = pytest.mark.skipif(
    not (ROOT and Path(ROOT).is_dir()), reason="SANDERLING_RECORDED names no directory of recorded trajectories"
)
