"""How the runner begins, in a sandbox, as a program: with whom to become, and then, as that, once more for the work.

It is as short as can be, since it is compiled at every start, and begun twice: `runner` and `worker` are read compiled.
"""

import ctypes
import os
import sys

_NO_RANDOM_ADDRESSES = 0x0040000


def main() -> None:
    """Become somebody else, without any capability; and serve."""
    if len(sys.argv) > 1:
        if sys.argv[1]:
            os.setgroups([])
            os.setgid(int(sys.argv[1]))
            os.setuid(int(sys.argv[1]))
        libc = ctypes.CDLL(None)
        kept = libc.personality(0xFFFFFFFF)
        if not kept & _NO_RANDOM_ADDRESSES and libc.personality(kept | _NO_RANDOM_ADDRESSES) != -1:
            os.execv(sys.executable, sys.orig_argv[:-1])  # addresses, and what is printed of them, are the same in every run
    here = __file__
    for _ in range(4):
        here = os.path.dirname(here)  # noqa: PTH120 - pathlib takes long to load
    sys.path.insert(0, here)
    from sanderling.tools.python import runner

    del sys.path[0]
    runner.main()


if __name__ == "__main__":
    main()
