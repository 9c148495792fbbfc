from pathlib import Path

import pytest
from tiny_qwen3 import save_tiny


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model for bandits."""
    return save_tiny(tmp_path_factory.mktemp("models") / "base")
