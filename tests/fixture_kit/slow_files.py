"""A file system that answers each request late, and counts them: what a network does to reads.

It speaks the protocol of /dev/fuse itself (`linux/fuse.h`, version 7.31), so it needs no package; it does need the
right to mount. It shows the files of one folder, read-only, and runs in a process of its own: a thread that waits for a
page of a mapping cannot answer.

    python slow_files.py FOLDER MOUNTPOINT [BACKGROUND]     then commands, one on each line of the standard input
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 17, 18, 25, 26
OPENDIR, RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET = 27, 29, 36, 38, 42
#: Requests of the kernel that take no answer.
SILENT = {FORGET, INTERRUPT, BATCH_FORGET}
#: Requests that travel to a server: those that are late and counted.
LATE = {LOOKUP: "lookup", GETATTR: "getattr", OPEN: "open", READ: "read"}
ASYNC_READ, MAX_PAGES = 1 << 0, 1 << 22
DIRECT_IO = 1 << 0
MNT_DETACH = 2


class Server:
    """Answers the kernel, in as many threads as requests may be under way."""

    def __init__(self, folder: str, mountpoint: str, background: str = "12") -> None:
        self.folder, self.mountpoint = folder, mountpoint
        self.delay = 0.0
        self.enough = 0  # requests under way at a time that end the delay of all of them; 0: nothing does
        self.cut: int | None = None  # bytes of each file that are shown of what its size says
        self.direct = False  # whether the kernel keeps no pages
        self.background = int(background)  # requests ahead of the reader that the kernel sends at a time
        self.counts: dict[str, int] = {}
        self.read_bytes = 0
        self.most = self.under_way = 0
        self.lock = threading.Lock()
        self.reached = threading.Event()  # `enough` since the last command
        self.names = {1: ""}
        self.files: dict[int, int] = {}
        self.fd = os.open("/dev/fuse", os.O_RDWR)
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"fd={self.fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
        if libc.mount(b"slow_files", mountpoint.encode(), b"fuse.slow_files", 1, options.encode()):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), mountpoint)
        for _ in range(64):
            threading.Thread(target=self.work, daemon=True).start()

    def attributes(self, node: int) -> bytes:
        status = os.stat(os.path.join(self.folder, self.names[node]))
        when, nanoseconds = divmod(status.st_mtime_ns, 10**9)
        return struct.pack(
            "<6Q10I", node, status.st_size, status.st_size // 512 + 1, when, when, when, *[nanoseconds] * 3,
            status.st_mode, 1, status.st_uid, status.st_gid, 0, 4096, 0,
        )  # fmt: skip

    def work(self) -> None:
        while True:
            try:
                request = os.read(self.fd, 1 << 21)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                return
            _, kind, unique, node = struct.unpack_from("<IIQQ", request)
            name = LATE.get(kind)
            if name:
                with self.lock:
                    self.counts[name] = self.counts.get(name, 0) + 1
                    self.under_way += 1
                    self.most = max(self.most, self.under_way)
                    if self.enough and self.most >= self.enough:
                        self.reached.set()
                self.reached.wait(self.delay)
            try:
                status, answer = 0, self.answer(kind, node, request[40:])
            except OSError as error:
                status, answer = -(error.errno or errno.EIO), b""
            if name:
                with self.lock:
                    self.under_way -= 1
            if kind not in SILENT:
                try:
                    os.write(self.fd, struct.pack("<IiQ", 16 + len(answer), status, unique) + answer)
                except OSError:  # who asked was interrupted
                    continue

    def answer(self, kind: int, node: int, body: bytes) -> bytes:
        if kind == INIT:
            _, minor, ahead, flags = struct.unpack_from("<4I", body)
            return struct.pack(
                "<4I2H2I2H8I", 7, min(minor, 31), ahead, flags & (ASYNC_READ | MAX_PAGES), self.background,
                self.background * 3 // 4, 1 << 20, 1, 256, 0, *[0] * 8,
            )  # fmt: skip
        if kind == LOOKUP:
            name = body.rstrip(b"\0").decode()
            with self.lock:
                found = next((number for number, known in self.names.items() if known == name), len(self.names) + 1)
                self.names[found] = name
            return struct.pack("<4Q2I", found, 0, 3600, 3600, 0, 0) + self.attributes(found)
        if kind == GETATTR:
            return struct.pack("<QII", 3600, 0, 0) + self.attributes(node)
        if kind == OPEN:
            handle = os.open(os.path.join(self.folder, self.names[node]), os.O_RDONLY)
            return struct.pack("<QII", handle, DIRECT_IO if self.direct else 0, 0)
        if kind == READ:
            handle, offset, size = struct.unpack_from("<QQI", body)
            if self.cut is not None:
                size = max(0, min(size, self.cut - offset))
            data = os.pread(handle, size, offset)
            with self.lock:
                self.read_bytes += len(data)
            return data
        if kind == RELEASE:
            os.close(struct.unpack_from("<Q", body)[0])
        elif kind == OPENDIR:
            return struct.pack("<QII", 0, 0, 0)
        elif kind == STATFS:
            return struct.pack("<5Q4I", 0, 0, 0, 0, 0, 4096, 255, 4096, 0) + bytes(24)
        elif kind not in (FLUSH, RELEASEDIR, DESTROY, *SILENT):
            raise OSError(errno.ENOSYS, "")
        return b""

    def command(self, line: str) -> dict[str, Any]:
        """Set what a JSON object names, and tell what was counted since the last command."""
        for name, value in json.loads(line).items():
            setattr(self, name, value)
        with self.lock:
            told = {"requests": self.counts, "most": self.most, "bytes": self.read_bytes}
            self.counts, self.most, self.read_bytes = {}, 0, 0
            self.reached.clear()
        return told


class SlowFiles:
    """The file system, as a context manager: `path` is where the files of `folder` are shown.

    The kernel sends so many requests ahead of the reader at a time; 12 is its own default (`max_background`).
    """

    def __init__(self, folder: Path, mountpoint: Path, background: int = 12) -> None:
        mountpoint.mkdir()
        self.path = mountpoint
        self._server = subprocess.Popen(
            [sys.executable, __file__, str(folder), str(mountpoint), str(background)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._server.stdout is not None
        if not self._server.stdout.readline():
            self._server.wait()
            raise OSError(errno.EPERM, "this process may not mount a file system", str(mountpoint))

    def tell(self, **settings: Any) -> dict[str, Any]:
        """Set `delay` (seconds), `enough`, `cut` or `direct`; what was counted since the last call.

        That is requests by kind, how many were under way at a time, and bytes.
        """
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(settings) + "\n")
        self._server.stdin.flush()
        told: dict[str, Any] = json.loads(self._server.stdout.readline())
        return told

    def vanish(self) -> None:
        """End the server as a crash does; who waits for an answer gets an error."""
        self._server.kill()
        self._server.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        unmount(str(self.path))
        self.vanish()
        for pipe in (self._server.stdin, self._server.stdout):
            assert pipe is not None
            pipe.close()


def unmount(mountpoint: str) -> None:
    ctypes.CDLL(None).umount2(mountpoint.encode(), MNT_DETACH)


def main() -> None:
    try:
        server = Server(*sys.argv[1:4])
    except OSError as error:
        raise SystemExit(str(error)) from None
    print("mounted", flush=True)
    for line in sys.stdin:
        print(json.dumps(server.command(line)), flush=True)
    unmount(server.mountpoint)
    os._exit(0)


if __name__ == "__main__":
    main()
