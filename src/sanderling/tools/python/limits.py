"""Settings of programs: where they run, and what they may use."""

from enum import StrEnum

from pydantic import Field

from sanderling.core.config import Frozen


class Rung(StrEnum):
    """What runs programs, if anything does."""

    OFF = "off"
    AUTO = "auto"  # the first of those below that works here; an OCI runtime only where it is named
    BUBBLEWRAP = "bubblewrap"
    MONTY = "monty"
    OCI = "oci"


class SandboxLimits(Frozen):
    """What one session's programs may use."""

    seconds: float = Field(default=30.0, gt=0)
    """Of one call; after it the program is killed with all that it started."""
    cpu_seconds: float = Field(default=30.0, gt=0)
    """Of processor time: of one call, and for each further process altogether."""
    memory_mb: int = Field(default=1_024, ge=64)
    """Of all processes together, files not counted."""
    files_mb: int = Field(default=256, ge=1)
    """Of all files together; they lie in memory."""
    processes: int = Field(default=64, ge=4)
    """Processes and threads at the same time."""
    output_chars: int = Field(default=10_000, ge=200)
    """Of what a call prints, its middle left out, and as many of a value or an error."""
    network: bool = False
    """Whether programs reach the network, and what listens on this machine."""
