"""The command line in a process that counts its changes of files: ``python launcher.py COUNT ROOT DIE_AT ARGUMENTS...``.

A change is a file opened to be written, a rename, a removal or a new directory below ROOT. At number DIE_AT (0: never) the
process kills itself as the kernel would; when it ends by itself, how many there were stands in COUNT.
"""

import atexit
import os
import signal
import sys
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def main() -> None:
    count, root, die_at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event == "open":
            if not (isinstance(arguments[0], str) and isinstance(arguments[2], int) and arguments[2] & _WRITING):
                return
        elif event not in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "sqlite3.connect"):
            return
        if root in str(arguments[0]):
            seen += 1
            if seen == die_at:
                os.killpg(0, signal.SIGKILL)

    sys.argv = ["sanderling", *sys.argv[4:]]
    sys.addaudithook(hook)
    atexit.register(lambda: count.write_text(str(seen)))
    if "torch" in os.environ.get("KILLS_NEED", ""):
        import torch

        torch.set_num_threads(1)
    from sanderling.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
