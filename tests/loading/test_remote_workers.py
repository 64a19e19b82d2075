"""Worker processes that begin anew read from servers by what was pickled: the URL and its options."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("fsspec")

import remote_kit

import blosc2
from blosc2.exceptions import RemoteAccessError, RemoteChangedError, RemoteError

ITEMS = np.random.default_rng(5).integers(0, 256, (40, 16, 16), "u1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/image"] = blosc2.asarray(ITEMS, chunks=(8, 16, 16), blocks=(1, 16, 16))
        store["/label"] = np.arange(40)
    return tmp_path / "a.b2z"


def read(what: Any, key: Any) -> Any:
    try:
        return np.asarray(what[key])
    except RemoteChangedError as error:
        return str(error)


@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_handles_in_new_processes(server: remote_kit.RangeServer, path: Path, how: str) -> None:
    if how not in multiprocessing.get_all_start_methods():
        pytest.skip("fork does not exist here")
    url = server.put("a.b2z", path)
    store = blosc2.open(url, remote={"retries": 1})
    image = store["/image"]
    assert image[3].sum() == ITEMS[3].sum()
    with multiprocessing.get_context(how).Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(read, (image, np.s_[30:34])), ITEMS[30:34])
        np.testing.assert_array_equal(pool.apply(read, (store, "/label")), np.arange(40))
    with blosc2.TreeStore(str(path), mode="w") as writing:
        writing["/image"] = np.zeros((3, 3))
    server.put("a.b2z", path)
    with multiprocessing.get_context(how).Pool(1) as pool:
        for handle, key in ((image, np.s_[5:7]), (store, "/label")):
            assert "since this handle was pickled" in pool.apply(read, (handle, key))  # another version is there


@pytest.mark.parametrize("kind", ["threads", "fork", "spawn"])
def test_workers_of_a_loader(server: remote_kit.RangeServer, path: Path, kind: str) -> None:
    pytest.importorskip("torch")
    import blosc2.torch

    if kind not in ("threads", *multiprocessing.get_all_start_methods()):
        pytest.skip("fork does not exist here")
    store = blosc2.open(server.put("a.b2z", path))
    samples = blosc2.torch.Samples({"image": store["/image"], "label": store["/label"]})
    with blosc2.torch.Loader(samples, 8, shuffle=True, workers=2, kind=kind) as loader:
        for batch in loader:
            np.testing.assert_array_equal(batch["image"].numpy(), ITEMS[batch["label"].numpy()])


@pytest.mark.parametrize("kind", ["threads", "fork", "spawn"])
def test_an_object_that_is_replaced_under_a_loader(server: remote_kit.RangeServer, tmp_path: Path, kind: str) -> None:
    """What comes before the error is of the old version."""
    pytest.importorskip("torch")
    import blosc2.torch

    if kind not in ("threads", *multiprocessing.get_all_start_methods()):
        pytest.skip("fork does not exist here")
    rows = np.random.default_rng(6).integers(0, 256, (12, 100_000), "u1")
    for version in (0, 1):
        with blosc2.TreeStore(str(tmp_path / f"{version}.b2z"), mode="w") as writing:
            for i, row in enumerate(rows):
                writing[f"/{i:02d}"] = row + version
    store = blosc2.open(server.put("a.b2z", tmp_path / "0.b2z"), remote={"retries": 1})
    with blosc2.torch.Loader(blosc2.torch.Samples(store), 1, workers=2, kind=kind, prefetch=1) as loader:
        loop = iter(loader)
        found = [next(loop)]
        server.put("a.b2z", tmp_path / "1.b2z")
        with pytest.raises(RemoteChangedError, match=r"a\.b2z"):
            found.extend(loop)
    assert len(found) < 12
    np.testing.assert_array_equal(np.concatenate(found), rows[: len(found)])


def without_ranges(server: remote_kit.RangeServer) -> None:
    server.ranges = False


def cut(server: remote_kit.RangeServer) -> None:
    def spoil(handler: Any, data: bytes, part: slice) -> bool:
        handler.send_response(206)
        headers = remote_kit.content_range(part, data) | server.version(data)
        for name, value in ({"Content-Length": str(part.stop - part.start)} | headers).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data[part][:100])
        handler.close_connection = True
        return True

    server.spoil = spoil


def refuse(server: remote_kit.RangeServer) -> None:
    def spoil(handler: Any, data: bytes, part: slice) -> bool:
        remote_kit.reply(handler, 403, b"")
        return True

    server.spoil = spoil


@pytest.mark.parametrize(("trouble", "kind", "text"), [
    (without_ranges, RemoteError, "range requests"),
    (cut, RemoteError, "the answer ended after"),
    (refuse, RemoteAccessError, "give other credentials"),
])  # fmt: skip
@pytest.mark.parametrize("workers", ["threads", "fork", "spawn"])
def test_a_server_that_fails_under_a_loader(
    server: remote_kit.RangeServer, tmp_path: Path, trouble: Any, kind: Any, text: str, workers: str
) -> None:
    """The error of a worker comes in the loop, with the URL. What may help is asked again, and not for ever."""
    pytest.importorskip("torch")
    import blosc2.torch

    if workers not in ("threads", *multiprocessing.get_all_start_methods()):
        pytest.skip("fork does not exist here")
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        for i, row in enumerate(np.random.default_rng(6).integers(0, 256, (6, 100_000), "u1")):
            store[f"/{i}"] = row
    samples = blosc2.torch.Samples(blosc2.open(server.put("a.b2z", tmp_path / "a.b2z"), remote={"retries": 1}))
    trouble(server)
    server.forget()
    loader = blosc2.torch.Loader(samples, 1, workers=2, kind=workers)
    with pytest.raises(kind, match=rf"(?s)a\.b2z.*{text}"):
        list(loader)
    loader.close()
    # One for each leaf, and for each worker that opens the store; a cut answer is asked for twice.
    assert len(server.requests) <= (6 + 2) * (2 if trouble is cut else 1)
