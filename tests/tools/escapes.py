"""Attempts to get out of a sandbox, as programs: each ends with a value that is True if it has succeeded.

In a program ``{outside}`` is a folder of this machine with a file ``secret`` and a listening socket ``socket``, ``{victim}`` a
process outside, ``{port}`` a port that listens on this machine, and ``{abstract}`` the name of an abstract socket that does.
"""

from dataclasses import dataclass

from sanderling.tools.python.sandbox import SandboxLimits

TIGHT = SandboxLimits(seconds=1.5, cpu_seconds=30, memory_mb=96, files_mb=8, processes=12, output_chars=2_000)
WIDE = SandboxLimits(seconds=60, cpu_seconds=60, memory_mb=4_096, files_mb=512, processes=512, output_chars=50_000_000)


@dataclass(frozen=True)
class Attempt:
    """One attempt. ``without``: the guard that is taken away to see it succeed.

    ``plain``: the whole sandbox, so that it is a process of this machine in a folder of its own; ``filter``: of system calls;
    ``limits``: those of processes; ``wide``: the numbers of all limits.
    """

    code: str
    without: str = "plain"
    root: bool = False  # whether only root succeeds
    limits: SandboxLimits = TIGHT
    rare: bool = False  # whether kernels are built without what it needs


PRELUDE = """
import ctypes, os, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
call = libc.syscall
call.restype = ctypes.c_long
def in_child(deed):
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if deed() else 1)
        finally:
            os._exit(2)
    return os.waitpid(child, 0)[1] == 0
"""


def family(number: int, kind: int = 3, protocol: int = 0, **how: object) -> Attempt:
    """Open a socket of a family."""
    return Attempt(f"socket.socket({number}, {kind}, {protocol}).fileno() > 0", **how)  # type: ignore[arg-type]


def syscall(number: int, *arguments: str, **how: object) -> Attempt:
    """A system call of x86-64 that gives no error."""
    words = ", ".join(["call", *arguments]).removeprefix("call").removeprefix(", ")
    return Attempt(f"call({', '.join(filter(None, [str(number), words]))}) >= 0", **how)  # type: ignore[arg-type]


ZEROS = "ctypes.create_string_buffer(256)"
ATTEMPTS = {
    # Files of this machine.
    "read a file outside": Attempt("open('{outside}/secret').read() == 'secret'"),
    "write a file outside": Attempt("open('{outside}/written', 'w').write('x') == 1"),
    "list a folder outside": Attempt("'secret' in os.listdir('{outside}')"),
    "climb out of the scratch directory": Attempt("open('../' * 30 + '{outside}/secret').read() == 'secret'"),
    "read through a symbolic link": Attempt("os.symlink('{outside}/secret', 'link'); open('link').read() == 'secret'"),
    "read through a hard link": Attempt("os.link('{outside}/secret', 'hard'); open('hard').read() == 'secret'"),
    "read who has an account here": Attempt("'root' in open('/etc/passwd').read()"),
    "read how accounts are locked": Attempt("len(open('/etc/shadow').read()) > 0", root=True),
    "look into the home of root": Attempt("len(os.listdir(os.path.expanduser('~root'))) > 0", root=True),
    "write beside Python's library": Attempt("os.access(os.path.dirname(os.__file__), os.W_OK)", root=True),
    "leave a sitecustomize": Attempt("os.access(sys.path[-1], os.W_OK)", root=True),
    "change the runner": Attempt("os.access(sys.orig_argv[-1], os.W_OK)", root=True),
    "write at the root": Attempt("os.access('/', os.W_OK)", root=True),
    "write below /usr": Attempt("os.access('/usr/bin', os.W_OK)", root=True),
    "write below /dev": Attempt("os.access('/dev', os.W_OK)", root=True),
    # What /proc and /sys show.
    "read the environment of a process outside": Attempt("len(open('/proc/{victim}/environ', 'rb').read()) > 0"),
    "go through the root of another process": Attempt("open('/proc/{victim}/root{outside}/secret').read() != ''", root=True),
    "go through one's own root": Attempt("open('/proc/self/root{outside}/secret').read() == 'secret'"),
    "write into one's own memory by its file": Attempt("open('/proc/self/mem', 'r+b').fileno() > 0", root=True),
    "write into the supervisor's memory": Attempt("open(f'/proc/{os.getppid()}/mem', 'r+b').fileno() > 0", root=True),
    "take a file of the supervisor": Attempt("os.open(f'/proc/{os.getppid()}/fd/0', os.O_RDONLY) > 0", root=True),
    "name a program for core dumps": Attempt("os.access('/proc/sys/kernel/core_pattern', os.W_OK)", root=True),
    "be spared when memory is short": Attempt("open('/proc/self/oom_score_adj', 'w').write('-500') > 0", root=True),
    "see processes": Attempt("any(name.isdigit() for name in os.listdir('/proc'))"),
    "see devices": Attempt("len(os.listdir('/sys')) > 0"),
    # Devices.
    "read the kernel's log from its device": Attempt("os.open('/dev/kmsg', os.O_RDONLY | os.O_NONBLOCK) > 0", root=True),
    "open a terminal": Attempt("os.open('/dev/ptmx', os.O_RDWR) > 0"),
    "make a device": Attempt("os.mknod('dev', 0o20666, os.makedev(1, 8)); os.open('dev', os.O_RDONLY) > 0", root=True),
    # Mounts and namespaces.
    "mount": Attempt("os.mkdir('m'); libc.mount(b'none', b'm', b'tmpfs', 0, 0) == 0 and libc.umount2(b'm', 2) == 0", root=True),
    "bind a folder": Attempt("os.mkdir('b'); libc.mount(b'/usr', b'b', 0, 4096, 0) == 0 == libc.umount2(b'b', 2)", root=True),
    "open a file system": syscall(430, "b'tmpfs'", "0", root=True),
    "copy a tree of mounts": syscall(428, "-100", "b'/'", "1", root=True),
    "change the root": Attempt("in_child(lambda: os.chroot('.') is None)", root=True),
    "make a namespace of users": Attempt("in_child(lambda: libc.unshare(0x10000000) == 0)", "filter"),
    "make a namespace of mounts": Attempt("in_child(lambda: libc.unshare(0x20000) == 0)", root=True),
    "start a process in a namespace of users": Attempt(
        "child = call(56, 0x10000000 | 17, 0, 0, 0, 0)\nif child == 0: os._exit(0)\nchild > 0", "filter"
    ),
    "do so by the newer call": Attempt(
        "args = struct.pack('8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0)\n"
        "child = call(435, args, 64)\nif child == 0: os._exit(0)\nchild > 0", "filter"
    ),
    "join the namespace of another process": Attempt(
        "in_child(lambda: libc.setns(os.open('/proc/{victim}/ns/net', os.O_RDONLY), 0) == 0)", root=True
    ),
    "join it by its descriptor": Attempt("in_child(lambda: libc.setns(os.pidfd_open({victim}), 0x40000000) == 0)", root=True),
    # Other processes.
    "trace a process outside": Attempt("in_child(lambda: libc.ptrace(0x4206, {victim}, 0, 0) == 0)", root=True),
    "be traced": Attempt("in_child(lambda: libc.ptrace(0, 0, 0, 0) == 0)", "filter"),
    "read the memory of a process": Attempt(
        "a, b = ctypes.create_string_buffer(b'x' * 8), ctypes.create_string_buffer(8)\n"
        "to, of = struct.pack('2P', ctypes.addressof(b), 8), struct.pack('2P', ctypes.addressof(a), 8)\n"
        "call(310, os.getpid(), to, 1, of, 1, 0) == 8", "filter", root=True
    ),
    "take a descriptor of the supervisor": Attempt("call(438, os.pidfd_open(os.getppid()), 0, 0) >= 0", root=True),
    "compare oneself with a process": Attempt("call(312, os.getpid(), os.getpid(), 0, 0, 1) >= 0", "filter"),
    "signal a process outside": Attempt("os.kill({victim}, 0) is None"),
    "take the supervisor's limits": Attempt(
        "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0)) is not None", "filter"
    ),
    "kill the supervisor": Attempt("os.kill(os.getppid(), 9); time.sleep(0.3)"),
    "stop the supervisor": Attempt("os.kill(os.getppid(), 19); time.sleep(0.3)"),
    "send the supervisor every signal": Attempt(
        "for number in range(1, 65):\n    try: os.kill(os.getppid(), number)\n    except OSError: pass\ntime.sleep(0.3)"
    ),
    # Sockets.
    "reach a port of this machine": Attempt("socket.create_connection(('127.0.0.1', {port}), 1).fileno() > 0"),
    "reach an abstract socket": Attempt(r"s = socket.socket(1); s.connect('\0{abstract}'); True"),
    "reach a socket in a folder": Attempt("s = socket.socket(1); s.connect('{outside}/socket'); True"),
    "a TCP socket": family(2, 1, without="filter"),
    "a UDP socket": family(2, 2, without="filter"),
    "a socket of IPv6": family(10, 1, without="filter"),
    "a raw socket": family(2, 3, 1, root=True),
    "a socket of packets": family(17, 3, root=True),
    "a socket to the kernel": family(16, 3, without="filter"),
    "a socket of the kernel's ciphers": family(38, 5, rare=True),
    "a socket to a hypervisor": family(40, 1, rare=True),
    # Memory, processes, files, time.
    "many processes": Attempt(
        "made = 0\nfor _ in range(40):\n"
        "    if os.fork() == 0:\n        time.sleep(30)\n        os._exit(0)\n    made += 1\nmade == 40", "limits"
    ),
    "many threads": Attempt(
        "import threading\nall = [threading.Thread(target=time.sleep, args=(1,), daemon=True) for _ in range(40)]\n"
        "[one.start() for one in all]; len(all) == 40", "limits"
    ),
    "much memory": Attempt("a = bytearray(300 << 20); len(a) == 300 << 20", "limits"),
    "much shared memory": Attempt(
        "import mmap\nm = mmap.mmap(-1, 300 << 20)\nfor at in range(0, 300 << 20, 4096): m[at] = 1\nTrue", "limits"
    ),
    "much memory of several processes": Attempt(  # each within its limit, and held, since they are looked at now and then
        "r, w = os.pipe()\nfor _ in range(6):\n    if os.fork() == 0:\n"
        "        a = bytearray(40 << 20); a[::4096] = b'x' * 10_240\n"
        "        os.write(w, b'1')\n        time.sleep(30)\n        os._exit(0)\n"
        "said = b''\nwhile len(said) < 6: said += os.read(r, 6)\ntime.sleep(5)\nTrue", "limits"
    ),
    "memory that is a file": Attempt("os.write(os.memfd_create('x'), bytes(1 << 20)) == 1 << 20", "filter"),
    "memory by the old interface": Attempt("n = call(29, 0, 50 << 20, 0o1600); n >= 0 and call(31, n, 0, 0) == 0", "filter"),
    "messages that stay": Attempt("n = call(68, 0, 0o1600); n >= 0 and call(71, n, 0, 0) == 0", "filter"),
    "lock memory": Attempt("b = ctypes.create_string_buffer(1 << 20); libc.mlock(b, 1 << 20) == 0", "plain"),
    "a large file": Attempt("open('large', 'wb').write(bytes(64 << 20)) == 64 << 20", "wide"),
    "many files that are large together": Attempt(
        "for n in range(32): open(f'f{n}', 'wb').write(bytes(1 << 20))\nTrue", "wide"
    ),
    "a large file of shared memory": Attempt("open('/dev/shm/x', 'wb').write(bytes(64 << 20)) == 64 << 20", "wide"),
    "files without end, which are empty": Attempt(
        "for n in range(150_000): os.close(os.open(f'e{n}', os.O_CREAT))\nTrue", "limits",
        limits=TIGHT.model_copy(update={"seconds": 20.0})
    ),
    "a sparse file of a terabyte": Attempt("open('sparse', 'wb').truncate(1 << 40) == 1 << 40"),
    "dump core": Attempt("import resource; resource.setrlimit(resource.RLIMIT_CORE, (1 << 30, 1 << 30)) is None", root=True),
    "raise one's limits": Attempt("import resource as r; r.setrlimit(r.RLIMIT_AS, (1 << 40, 1 << 40)) is None", "limits"),
    "a loop": Attempt("while time.monotonic() < {later}: pass\nTrue", "wide"),
    "a loop in C": Attempt("sum(range(200_000_000)) > 0", "wide"),
    "a power in C": Attempt("7 ** 6_000_000 > 0", "wide"),
    "an expression that goes back and forth": Attempt("import re; re.match('(a+)+$', 'a' * 27 + 'b') is None", "wide"),
    "a loop that hears no signal": Attempt(
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); sum(range(200_000_000)) > 0", "wide"
    ),
    "stand still": Attempt("import signal\nif os.fork() == 0:\n    time.sleep(10); os.kill(os.getppid(), 18); os._exit(0)\n"
                           "os.kill(os.getpid(), signal.SIGSTOP); True", "wide"),
    "another program that takes long": Attempt(
        "import subprocess; subprocess.run([sys.executable, '-c', 'import time; time.sleep(10)']).returncode == 0", "wide"
    ),
    "much processor time": Attempt(
        "sum(range(200_000_000)) > 0", "wide", limits=TIGHT.model_copy(update={"seconds": 30.0, "cpu_seconds": 1.0})
    ),
    "print without end": Attempt("print('x' * 20_000_000); False", "wide"),
    "a value without end": Attempt("'x' * 20_000_000", "wide"),
    # Rights and the kernel.
    "become root": Attempt("os.setuid(0); os.getuid() == 0", root=True),
    "join the group of root": Attempt("os.setgroups([0]) is None", root=True),
    "give a file away": Attempt("open('f', 'w'); os.chown('f', 1, 1) is None", root=True),
    "gain rights by a program": Attempt("libc.prctl(39, 0, 0, 0, 0) == 0"),
    "go first": Attempt("before = os.nice(0); os.nice(-5) < before", root=True),
    "be served in real time": Attempt("in_child(lambda: os.sched_setscheduler(0, 1, os.sched_param(1)) is None)", root=True),
    "read a variable of this process": Attempt("os.environ.get('SANDERLING_SECRET') == 'secret'"),
    "read the user's keys": Attempt("call(250, 0, -4, 1) > 0", "filter"),
    "keep a key": Attempt("call(248, b'user', b'x', b'y', 1, -2) > 0", "filter"),
    "queue work to the kernel": syscall(425, "4", ZEROS, without="filter", rare=True),
    "load a program into the kernel": Attempt("call(321, 0, struct.pack('5I', 2, 4, 4, 1, 0) + bytes(60), 72) >= 0", root=True),
    "watch the processor": Attempt(
        "call(298, struct.pack('2I', 1, 128) + bytes(120), 0, -1, -1, 0) >= 0", root=True
    ),
    "handle one's own page faults": syscall(323, "1", root=True),
    "watch a file system": syscall(300, "0", "0", root=True),
    "name a file by its handle": Attempt(
        "call(303, -100, b'.', struct.pack('Ii', 120, 0) + bytes(120), ctypes.byref(ctypes.c_int()), 0) == 0"
    ),
    "name this machine": Attempt("socket.sethostname(socket.gethostname()) is None", root=True),
    "read the kernel's log": Attempt("libc.klogctl(10, 0, 0) > 0", root=True),
    "write to ports": Attempt("in_child(lambda: libc.iopl(3) == 0)", root=True, rare=True),
    "open a queue of messages": Attempt("libc.mq_open(b'/sanderling', 0o102, 0o600, 0) >= 0 == libc.mq_unlink(b'/sanderling')"),
    "call the kernel as another architecture": Attempt(
        "import mmap\nm = mmap.mmap(-1, 4096, prot=7); m.write(bytes.fromhex('b814000000cd80c3'))\n"
        "f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\nf() == os.getpid()", "filter"
    ),
}  # fmt: skip
