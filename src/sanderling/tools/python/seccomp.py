"""A filter of system calls in the kernel's own form (classic BPF): what a program in a sandbox may not even ask of the kernel.

Everything is allowed but what reaches other processes, mounts, namespaces, keys, the kernel's own programs and memory that no
limit counts. A refused call fails with EPERM; one in another architecture's numbers kills the process.
"""

import platform
import struct

from sanderling.core.errors import UserError

_EPERM, _ENOSYS = 1, 38
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24  # where they stand in the kernel's description of a call
_NEWEST = 466  # numbers of later calls, of which nobody here knows what they reach; those of x32 lie there, too
_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

_REFUSED = {
    "x86_64": """
ptrace=101 process_vm_readv=310 process_vm_writev=311 kcmp=312 pidfd_getfd=438 process_madvise=440
mount=165 umount2=166 pivot_root=155 chroot=161 move_mount=429 open_tree=428 fsopen=430 fsconfig=431 fsmount=432 fspick=433
mount_setattr=442 statmount=457 listmount=458 unshare=272 setns=308 add_key=248 request_key=249 keyctl=250 bpf=321
perf_event_open=298 userfaultfd=323 io_uring_setup=425 io_uring_enter=426 io_uring_register=427 kexec_load=246
kexec_file_load=320 init_module=175 finit_module=313 delete_module=176 create_module=174 reboot=169 swapon=167 swapoff=168
acct=163 settimeofday=164 clock_settime=227 adjtimex=159 clock_adjtime=305 sethostname=170 setdomainname=171 iopl=172
ioperm=173 quotactl=179 quotactl_fd=443 nfsservctl=180 syslog=103 name_to_handle_at=303 open_by_handle_at=304
lookup_dcookie=212 fanotify_init=300 memfd_create=319 memfd_secret=447 shmget=29 msgget=68 semget=64 mq_open=240
personality=135 vhangup=153 modify_ldt=154 uselib=134 sysfs=139 _sysctl=156 move_pages=279 migrate_pages=256 mbind=237
set_mempolicy=238
""",
    "aarch64": """
ptrace=117 process_vm_readv=270 process_vm_writev=271 kcmp=272 pidfd_getfd=438 process_madvise=440
mount=40 umount2=39 pivot_root=41 chroot=51 move_mount=429 open_tree=428 fsopen=430 fsconfig=431 fsmount=432 fspick=433
mount_setattr=442 statmount=457 listmount=458 unshare=97 setns=268 add_key=217 request_key=218 keyctl=219 bpf=280
perf_event_open=241 userfaultfd=282 io_uring_setup=425 io_uring_enter=426 io_uring_register=427 kexec_load=104
kexec_file_load=294 init_module=105 finit_module=273 delete_module=106 reboot=142 swapon=224 swapoff=225
acct=89 settimeofday=170 clock_settime=112 adjtimex=171 clock_adjtime=266 sethostname=161 setdomainname=162
quotactl=60 quotactl_fd=443 nfsservctl=42 syslog=116 name_to_handle_at=264 open_by_handle_at=265
lookup_dcookie=18 fanotify_init=262 memfd_create=279 memfd_secret=447 shmget=194 msgget=186 semget=190 mq_open=180
personality=92 vhangup=58 move_pages=239 migrate_pages=238 mbind=235 set_mempolicy=237
""",
}
_OTHERS = {  # architecture; clone, clone3, socket, ioctl, prlimit64
    "x86_64": (0xC000003E, 56, 435, 41, 16, 302),
    "aarch64": (0xC00000B7, 220, 435, 198, 29, 261),
}


def filter_program(*, network: bool = False, machine: str = "") -> bytes:
    """The filter as the kernel takes it, eight bytes an instruction.

    Without a network a socket is of this machine's own kind (AF_UNIX), with one it is of the internet's, since the other would
    reach whatever listens here. Raises UserError for a kind of machine of which nobody has written down the numbers.
    """
    machine = machine or platform.machine()
    if machine not in _REFUSED:
        raise UserError(f"There is no filter of system calls for {machine}: programs run in monty alone.")
    arch, clone, clone3, socket, ioctl, prlimit = _OTHERS[machine]
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]

    def refuse(test: int, value: int, errno: int = _EPERM) -> list[tuple[int, int, int, int]]:
        return [(test, 0, 1, value), (_RETURN, 0, 0, _ERRNO | errno)]

    code += refuse(_AT_LEAST, _NEWEST + 1, _ENOSYS)
    for named in _REFUSED[machine].split():
        code += refuse(_EQUAL, int(named.partition("=")[2]))
    code += refuse(_EQUAL, clone3, _ENOSYS)  # its flags cannot be looked at; the C library then uses the older call
    for number, place, tests in (
        (clone, _FIRST, refuse(_ANY_BIT, _NAMESPACES)),
        (ioctl, _SECOND, refuse(_EQUAL, _TIOCSTI) + refuse(_EQUAL, _TIOCLINUX)),
        (prlimit, _FIRST, refuse(_AT_LEAST, 1)),  # of another process, such as the supervisor
    ):
        code += [(_EQUAL, 0, len(tests) + 2, number), (_LOAD, 0, 0, place), *tests, (_RETURN, 0, 0, _ALLOW)]
    families = (_AF_INET, _AF_INET6) if network else (_AF_UNIX,)
    allowed = [(_EQUAL, len(families) - at, 0, family) for at, family in enumerate(families)]
    denied = [(_RETURN, 0, 0, _ERRNO | _EPERM)]
    code += [(_EQUAL, 0, len(allowed) + 2, socket), (_LOAD, 0, 0, _FIRST), *allowed, *denied]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *one) for one in code)
