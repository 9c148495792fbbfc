"""Where checkpoints lie, without opening them. Importable without torch."""

from pathlib import Path

STATE = "trainer_state.pt"
PREFIX = "step_"
PARTIAL = ".partial-"


def checkpoints(root: Path) -> list[Path]:
    """The whole checkpoints under ``root``, oldest first."""
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.name.startswith(PREFIX) and (path / STATE).is_file())


def last_step(root: Path) -> int:
    """The step of the newest checkpoint; 0 when there is none."""
    found = checkpoints(root)
    return int(found[-1].name.removeprefix(PREFIX)) if found else 0
