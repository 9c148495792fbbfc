"""Frames between processes: four bytes of length, a JSON object, and the bytes that the object announces.

What runs in a sandbox imports this, too: it needs the standard library alone.
"""

import json
import os
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio.subprocess import Process

_MOST = 64 * 2**20
_PIECE = 2**16
Frame = tuple[dict[str, Any], bytes]


def read_frame(fd: int) -> Frame | None:
    """The next frame, after which nothing is written until it is answered; None: the other side has closed."""
    held = bytearray()
    while (frame := taken(held, _MOST, _MOST)) is None:
        if not (part := os.read(fd, 2**20)):
            return None
        held += part
    return frame


def taken(held: bytearray, most: int, most_bytes: int) -> Frame | None:
    """Take the first frame out of what was read, once it is whole. Raises an error for what will be none."""
    size = struct.unpack(">I", held[:4])[0] if len(held) >= 4 else 0
    if size > most:
        raise ValueError("a frame beyond all limits")
    if len(held) < 4 or len(held) < 4 + size:
        return None
    said, count = _said(held[4 : 4 + size], most_bytes)
    end = 4 + size + count
    if len(held) < end:
        return None
    data = bytes(held[4 + size : end])
    del held[:end]
    return said, data


def write_frame(fd: int, said: dict[str, Any], data: bytes = b"") -> None:
    """Write one frame whole."""
    left = _whole(said, data)
    while left:
        left = left[os.write(fd, left) :]


async def exchanged(
    process: "Process", said: dict[str, Any] | None, data: bytes | bytearray = b"", *, most: int, most_bytes: int
) -> Frame:
    """One frame to a process (None: it speaks first), and its answer. Raises OSError, EOFError, and ValueError for no frame."""
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None and stdout is not None
    if said is not None:
        whole = _whole(said, data)
        for start in range(0, len(whole), _PIECE):  # a pipe that is given all at once copies what it could not take
            stdin.write(whole[start : start + _PIECE])
            await stdin.drain()
    size = struct.unpack(">I", await stdout.readexactly(4))[0]
    if size > most:
        raise ValueError("a frame beyond all limits")
    answer, count = _said(await stdout.readexactly(size), most_bytes)
    return answer, await stdout.readexactly(count)


def _whole(said: dict[str, Any], data: bytes | bytearray) -> memoryview:
    text = json.dumps({**said, "bytes": len(data)}).encode("ascii")
    return memoryview(struct.pack(">I", len(text)) + text + data)


def _said(text: bytes | bytearray, most_bytes: int) -> tuple[dict[str, Any], int]:
    said = json.loads(text)
    count = said.pop("bytes", None) if isinstance(said, dict) else None
    if not isinstance(count, int) or not 0 <= count <= most_bytes:
        raise ValueError("no frame")
    return said, count
