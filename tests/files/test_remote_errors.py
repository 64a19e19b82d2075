"""What goes wrong with servers: which errors there are, what is repeated, and that versions are never mixed."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("aiohttp")
import remote_kit
from remote_kit import RangeServer, content_range, reply

import blosc2
from blosc2._files.remote import remote_file
from blosc2.exceptions import RemoteAccessError, RemoteChangedError, RemoteError

fsspec = pytest.importorskip("fsspec")

ITEMS = np.random.default_rng(3).integers(0, 1 << 30, 200_000)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RangeServer]:
    monkeypatch.setattr(remote_file, "_WAIT", 0.001)
    with remote_kit.running() as server:
        yield server


@pytest.fixture(scope="module")
def array_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("remote") / "items.b2nd"
    blosc2.asarray(ITEMS, urlpath=str(path), chunks=(20_000,), blocks=(5_000,))
    return path


@pytest.fixture
def url(server: RangeServer, array_file: Path) -> str:
    return server.put("items.b2nd", array_file)


def status(code: int, headers: dict[str, str] | None = None, times: float = float("inf")) -> Any:
    """Answer with a status, some times."""
    left = [times]

    def spoil(handler: Any, data: bytes, part: slice) -> bool:
        left[0] -= 1
        if left[0] < 0:
            return False
        reply(handler, code, b"no", headers)
        return True

    return spoil


# --------------------------------------------------------------------------- what is repeated
@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_a_server_that_recovers(server: RangeServer, url: str, code: int) -> None:
    array = blosc2.open(url)
    server.spoil = status(code, times=2)
    np.testing.assert_array_equal(array[50_000:50_010], ITEMS[50_000:50_010])


@pytest.mark.parametrize(("code", "kind", "asked"), [
    (503, RemoteError, 3), (401, RemoteAccessError, 1), (403, RemoteAccessError, 1), (404, FileNotFoundError, 1),
    (410, FileNotFoundError, 1), (400, RemoteError, 1), (501, RemoteError, 1),
])  # fmt: skip
def test_what_stays_wrong(server: RangeServer, url: str, code: int, kind: type[Exception], asked: int) -> None:
    server.spoil = status(code)
    with pytest.raises(kind, match=r"items\.b2nd"):
        blosc2.open(url, remote={"retries": 2})
    assert len(server.requests) == asked


def test_a_store_that_is_not_there(server: RangeServer) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such object, or does not show it: '.*none\.b2z'") as caught:
        blosc2.open(f"{server.url}/none.b2z")
    assert "mode" not in str(caught.value)


def test_a_server_says_how_long_to_wait(server: RangeServer, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array = blosc2.open(url)
    server.spoil = status(503, {"Retry-After": "3"}, times=1)
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    array[50_000:50_010]
    assert max(waits) == 3


def cut(times: float) -> Any:
    """Send half of what the header states, some times."""
    left = [times]

    def spoil(handler: Any, data: bytes, part: slice) -> bool:
        left[0] -= 1
        if left[0] < 0:
            return False
        handler.send_response(206)
        for name, value in (content_range(part, data) | {"Content-Length": str(part.stop - part.start)}).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data[part.start : (part.start + part.stop) // 2])
        handler.close_connection = True
        return True

    return spoil


def test_truncated_answers(server: RangeServer, url: str) -> None:
    array = blosc2.open(url, remote={"retries": 2})
    server.spoil = cut(2)
    np.testing.assert_array_equal(array[50_000:50_010], ITEMS[50_000:50_010])
    server.spoil = cut(float("inf"))
    with pytest.raises(RemoteError, match=r"items\.b2nd: the answer ended after \d+ of \d+ bytes"):
        array[150_000]
    server.spoil = None
    np.testing.assert_array_equal(array[:], ITEMS)


def test_a_server_that_hangs(server: RangeServer, url: str) -> None:
    array = blosc2.open(url, remote={"retries": 1, "timeout": 0.2})
    server.delay = 2
    with pytest.raises(RemoteError, match=r"items\.b2nd: the request failed \(no answer within 0\.2 seconds\)"):
        array[150_000]


def test_no_server(server: RangeServer, url: str) -> None:
    server.close()
    with pytest.raises(RemoteError, match=r"items\.b2nd: the request failed"):
        blosc2.open(url, remote={"retries": 1})


# --------------------------------------------------------------------------- hostile answers
def as_other_range(handler: Any, data: bytes, part: slice) -> bool:
    other = slice(part.start + 1, part.stop + 1)
    reply(handler, 206, data[part], content_range(other, data))
    return True


def of_other_length(handler: Any, data: bytes, part: slice) -> bool:
    reply(handler, 206, data[part] + b"more", content_range(part, data))
    return True


def packed(handler: Any, data: bytes, part: slice) -> bool:
    reply(handler, 206, data[part], content_range(part, data) | {"Content-Encoding": "br"})
    return True


def without_a_range(handler: Any, data: bytes, part: slice) -> bool:
    reply(handler, 206, data[part])
    return True


def with_a_huge_range(handler: Any, data: bytes, part: slice) -> bool:
    reply(handler, 206, data[part], {"Content-Range": f"bytes {part.start}-{10**30}/{10**31}"})
    return True


@pytest.mark.parametrize(
    "spoil", [as_other_range, of_other_length, packed, without_a_range, with_a_huge_range], ids=lambda f: f.__name__
)
def test_answers_that_make_no_sense(server: RangeServer, url: str, spoil: Any) -> None:
    server.spoil = spoil
    with pytest.raises(RemoteError, match=r"items\.b2nd"):
        blosc2.open(url, remote={"retries": 0})


def test_what_was_not_repeated(server: RangeServer, url: str) -> None:
    server.spoil = status(500, times=9)
    with pytest.raises(RemoteError) as caught:
        blosc2.open(url, remote={"retries": 0})
    assert "repeated" not in str(caught.value)
    with pytest.raises(RemoteError, match=r"the request failed .*, and so it did when it was repeated"):
        blosc2.open(url, remote={"retries": 1})


def test_a_server_without_ranges(server: RangeServer, url: str) -> None:
    server.ranges = False
    with pytest.raises(RemoteError, match=r"range requests.*such as curl"):
        blosc2.open(url)
    # What fits into the first request is opened all the same.
    server.objects["small.b2nd"] = blosc2.asarray(ITEMS[:100]).to_cframe()
    np.testing.assert_array_equal(blosc2.open(f"{server.url}/small.b2nd")[:], ITEMS[:100])


def test_an_empty_object(server: RangeServer) -> None:
    server.objects["empty.b2nd"] = b""
    with pytest.raises(blosc2.exceptions.FormatError):
        blosc2.open(f"{server.url}/empty.b2nd")


# --------------------------------------------------------------------------- versions
@pytest.mark.parametrize("etags", [True, False])
def test_a_changed_object_is_an_error(server: RangeServer, url: str, etags: bool) -> None:
    server.etags = etags
    array = blosc2.open(url)
    np.testing.assert_array_equal(array[:10], ITEMS[:10])
    newer = ITEMS + 1
    changed = blosc2.asarray(newer if etags else newer[:-9], chunks=(20_000,), blocks=(5_000,)).to_cframe()
    server.objects["items.b2nd"] = changed
    with pytest.raises(RemoteChangedError, match=r"items\.b2nd: the object was replaced"):
        array[150_000]
    # It stays one, also when the former version comes back.
    server.forget()
    with pytest.raises(RemoteChangedError):
        array[150_000]
    assert server.requests == []
    assert array.refresh()
    assert array[150_000] == newer[150_000]
    assert not array.refresh()


def test_a_changed_store_is_an_error(server: RangeServer, tmp_path: Path) -> None:
    path = tmp_path / "store.b2z"
    with blosc2.TreeStore(str(path), mode="w") as store:
        for i in range(300):
            store[f"/g/{i:03d}"] = ITEMS[i : i + 2000]
    store = blosc2.open(server.put("store.b2z", path))
    np.testing.assert_array_equal(store["/g/003"][:], ITEMS[3:2003])
    with blosc2.TreeStore(str(path), mode="a") as changing:
        changing["/g/200"] = ITEMS[:5]
    server.put("store.b2z", path)
    with pytest.raises(RemoteChangedError):
        for i in range(300):
            np.testing.assert_array_equal(store[f"/g/{i:03d}"][:], ITEMS[i : i + 2000])
    assert store.refresh()
    np.testing.assert_array_equal(store["/g/200"][:], ITEMS[:5])


def test_a_deleted_object(server: RangeServer, url: str) -> None:
    array = blosc2.open(url)
    server.objects.clear()
    with pytest.raises(FileNotFoundError, match=r"items\.b2nd"):
        array[150_000]


# --------------------------------------------------------------------------- what is refused, and told
def test_only_reading(url: str) -> None:
    for how in ({"mode": "a"}, {"mode": "w"}, {"mmap_mode": "r"}, {"locking": True}):
        with pytest.raises(ValueError, match=r"items\.b2nd"):
            blosc2.open(url, **how)
    with pytest.raises(FileExistsError, match="the object exists"):
        blosc2.zeros(3, urlpath=url)
    with pytest.raises(RemoteError, match=r"items\.b2nd: its server did not take it .*write a local file"):
        blosc2.zeros(3, urlpath=url, mode="w")
    with pytest.raises(NotImplementedError, match="to_b2z"):
        blosc2.open(url.replace(".b2nd", ".b2d"))
    with pytest.raises(ValueError, match="storage_options"):
        blosc2.open("here.b2nd", storage_options={"key": "x"})


@pytest.mark.parametrize("how", [{"memory": 5}, {"retries": -1}, {"timeout": 0}, {"colour": 1}])
def test_options_are_checked(url: str, how: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="remote"):
        blosc2.open(url, remote=how)


def test_what_the_first_failure_is_told_as(url: str, server: RangeServer, caplog: pytest.LogCaptureFixture) -> None:
    server.spoil = status(503, times=1)
    with caplog.at_level("WARNING", logger="blosc2"):
        blosc2.open(url)
    assert "the request failed (" in caplog.text
    assert "repeated" not in caplog.text


def test_check_names_the_command_for_urls(url: str) -> None:
    with pytest.raises(NotImplementedError, match="'blosc2 check URL' reads what is on a server"):
        blosc2.check(url)
    with pytest.raises(FileNotFoundError) as caught:
        blosc2.open(url.replace("items.b2nd", "none.b2z"))
    assert "modes 'a' and 'w'" not in str(caught.value)


def test_what_to_write_instead(server: RangeServer, url: str, tmp_path: Path) -> None:
    """What is open on a server cannot be opened with mode 'a', nor be mapped; a key is no part of a URL."""
    with blosc2.TreeStore(str(tmp_path / "s.b2z"), mode="w") as local:
        local["/g/a"] = ITEMS[:100]
    server.objects["s.b2z"] = (tmp_path / "s.b2z").read_bytes()
    there = url.replace("items.b2nd", "s.b2z")
    store = blosc2.open(there)
    changes: list[Callable[[], Any]] = [
        lambda: store.update({"/b": ITEMS}), lambda: store.attrs.update(x=1), lambda: store["/g"].clear(),
        store.transaction, store.compact, lambda: store["/g/a"].attrs.update(x=1),
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(ValueError, match=r"on a server is written as a whole: .* write it there with to_b2z$"):
            change()
    assert blosc2.merge([there], str(tmp_path / "m.b2z")) == 1
    assert np.array_equal(blosc2.open(str(tmp_path / "m.b2z"))["/g/a"], ITEMS[:100])
    with pytest.raises(ValueError, match=r"on a server is opened by blosc2\.open"):
        blosc2.SChunk(urlpath=url, mode="r")
    with pytest.raises(FileNotFoundError, match=r"read by blosc2.open\('http[^']*/s.b2z'\)\['/g/a'\]"):
        blosc2.open(there + "/g/a")


def test_passwords_are_not_shown(server: RangeServer, url: str) -> None:
    array = blosc2.open(url + "?token=secret")
    assert "secret" not in repr(array.urlpath) + repr(array) + str(array.info)
    server.objects.clear()
    with pytest.raises(FileNotFoundError) as caught:
        array[150_000]
    assert "secret" not in str(caught.value)


def _redirected(handler: Any, *_: Any) -> bool:
    reply(handler, 302, b"", {"Location": "ftp://me:secret@elsewhere/items.b2nd?token=secret"})
    return True


def _not_http(handler: Any, *_: Any) -> bool:
    handler.wfile.write(b"no HTTP\r\n\r\n")
    handler.close_connection = True
    return True


def _echoed(handler: Any, *_: Any) -> bool:
    handler.send_response(403, f"not for {handler.path}")
    handler.end_headers()
    handler.close_connection = True
    return True


@pytest.mark.parametrize("answer", [_redirected, _not_http, _echoed])
@pytest.mark.parametrize("user", ["", "me:secret@", "me:sec@secret@"])
def test_errors_name_no_password_and_no_signature(server: RangeServer, url: str, answer: Any, user: str) -> None:
    server.spoil = answer
    with pytest.raises(RemoteError) as caught:
        blosc2.open(url.replace("://", f"://{user}") + "?token=secret", remote={"retries": 0})
    assert "sec" not in str(caught.value).replace("second", "")


@pytest.mark.parametrize("kind", [OSError, ValueError, RuntimeError])
def test_a_file_system_that_cannot_be_made(kind: type[Exception]) -> None:
    """Its error may name what it was made of."""

    class Closed(fsspec.AbstractFileSystem):
        protocol, cachable = "closed", False

        def __init__(self, token: str = "", **_: Any) -> None:
            raise kind(f"no way to https://me:word@host/?key=word with {token}")

    fsspec.register_implementation("closed", Closed, clobber=True)
    with pytest.raises(ValueError if kind is ValueError else RemoteError, match=r"closed://host/a\.b2nd") as caught:
        blosc2.open("closed://me:word@host/a.b2nd?signature=word", storage_options={"token": "sword"})
    assert "word" not in str(caught.value)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ImportError, match=r"pip install 'python-blosc2\[remote\]'"):
        blosc2.open(url)


def test_an_unknown_protocol() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        blosc2.open("nowhere://a.b2nd")


# --------------------------------------------------------------------------- what is kept
def test_memory_is_bounded(server: RangeServer, tmp_path: Path) -> None:
    path = tmp_path / "large.b2nd"
    items = np.random.default_rng(1).integers(0, 256, 6 << 20, dtype=np.uint8)
    blosc2.asarray(items, urlpath=str(path), chunks=(1 << 18,))
    array = blosc2.open(server.put("large.b2nd", path), remote={"memory": 1 << 20})
    for start in range(0, items.size, 1 << 18):
        np.testing.assert_array_equal(array[start : start + (1 << 18)], items[start : start + (1 << 18)])
    pieces = array._handle.frame.source.remote._pieces
    assert pieces.nbytes == sum(len(piece.data) for piece in pieces._table.values())
    assert pieces.nbytes <= 1 << 20
    np.testing.assert_array_equal(array[:], items)


def test_blocks_on_disk(server: RangeServer, url: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    how: dict[str, Any] = {"remote": {"disk": str(kept)}}
    np.testing.assert_array_equal(blosc2.open(url, **how)[:], ITEMS)
    server.forget()
    np.testing.assert_array_equal(blosc2.open(url, **how)[:], ITEMS)
    assert len(server.requests) == 1  # which tells the version
    files = [path for path in kept.rglob("*") if path.is_file()]
    for path in files:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    server.forget()
    np.testing.assert_array_equal(blosc2.open(url, **how)[:], ITEMS)
    assert len(server.requests) > 1
    # Another version has bytes of its own.
    server.objects["items.b2nd"] = blosc2.asarray(ITEMS + 1, chunks=(20_000,)).to_cframe()
    np.testing.assert_array_equal(blosc2.open(url, **how)[:], ITEMS + 1)


def test_the_disk_is_bounded(server: RangeServer, tmp_path: Path) -> None:
    from blosc2._files.remote.answers import Version
    from blosc2._files.remote.pieces import DiskBlocks

    blocks = DiskBlocks(str(tmp_path), 1 << 20, "u", Version(1 << 30, "x"))
    for i in range(100):
        blocks.write(i << 16, bytes(1 << 15))
    used = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert used <= (1 << 20) + (1 << 17)
    assert blocks.read(99 << 16, (99 << 16) + 10) == bytes(10)
    assert blocks.read(0, 10) is None


# --------------------------------------------------------------------------- threads and processes
def test_threads_share_what_is_fetched(server: RangeServer, url: str) -> None:
    array = blosc2.open(url)
    server.delay = 0.02
    wrong: list[Any] = []

    def read() -> None:
        if not np.array_equal(array[60_000:100_000], ITEMS[60_000:100_000]):
            wrong.append(1)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert server.sent <= 1.1 * len(server.objects["items.b2nd"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_reads(server: RangeServer, url: str) -> None:
    array = blosc2.open(url)
    np.testing.assert_array_equal(array[:10], ITEMS[:10])
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if np.array_equal(array[:], ITEMS) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(array[:], ITEMS)
