"""Commands that read take URLs, and those that change things say what to do instead."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import remote_kit
from cli_kit import RAW, Answer, failing

import blosc2

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")


@pytest.fixture
def served(folder: Path) -> Iterator[remote_kit.RangeServer]:
    """A server with the files of the folder."""
    with remote_kit.running() as server:
        for name in ("s.b2z", "e.b2e", "a.b2nd", "o.b2frame"):
            server.put(name, folder / name)
        yield server


@pytest.mark.parametrize("command", [
    ["ls", "{}/s.b2z"], ["ls", "-r", "{}/s.b2z/mri"], ["ls", "-l", "{}/s.b2z/mri/*/raw"],
    ["ls", "{}/e.b2e", "--json"], ["tree", "{}/s.b2z/mri"], ["info", "--json", "{}/s.b2z/mri/007/raw"],
    ["stats", "{}/s.b2z"], ["cat", "{}/s.b2z/age"], ["cat", "{}/a.b2nd", "2:4"],
    ["show", "--plain", "{}/s.b2z/mri/007/raw"], ["diff", "{}/s.b2z", "s.b2z"],
    ["view", "--html", "{}/a.b2nd", "-"],
])  # fmt: skip
def test_what_is_read_from_a_server_is_what_is_here(
    served: remote_kit.RangeServer, folder: Path, run: Answer, command: list[str]
) -> None:
    found = run(*(part.format(served.url) for part in command)).replace(f'"{served.url}/', '"')
    assert served.requests
    for place in (".", folder.as_uri()):
        here = run(*(part.format(place).removeprefix("./") for part in command))
        here = here.replace(f'"{folder.as_uri()}/', '"').replace(f'"{folder}/', '"')
        assert found == re.sub(r'<tr><th scope="row">unused</th>.*?</tr>', "", here)  # only files here tell how much


def test_a_picture_of_one_plane_fetches_one(served: remote_kit.RangeServer, run: Answer, tmp_path: Path) -> None:
    items = np.random.default_rng(0).integers(0, 4000, (16, 512, 512), "i2")
    blosc2.asarray(items, chunks=(1, 512, 512), urlpath=tmp_path / "planes.b2nd")
    url = served.put("planes.b2nd", tmp_path / "planes.b2nd")
    before = served.sent
    run("show", "--plain", url, "7")
    assert "in this plane" in run.err
    assert served.sent - before < (tmp_path / "planes.b2nd").stat().st_size / 4


def test_memory_and_a_signature(folder: Path, run: Answer, served: remote_kit.RangeServer) -> None:
    import fsspec

    fsspec.filesystem("memory").pipe_file("/cli/s.b2z", (folder / "s.b2z").read_bytes())
    assert run("cat", "memory://cli/s.b2z/age") == "[0 1 2]\n"
    assert run("cat", f"{served.url}/a.b2nd?sig=secret/1", "3") == "3\n"
    url = served.put("s.b2z", folder / "s.b2z")
    asked: list[str] = []
    served.spoil = lambda handler, *_: asked.append(handler.path)  # type: ignore[assignment,func-returns-value]
    for key in ("age", "ag?", "[a-b]ge"):
        assert run("cat", f"{url}/{key}?X-Sig=a/b&secret=1") == "[0 1 2]\n"
    assert set(asked) == {"/s.b2z?X-Sig=a/b&secret=1"}
    assert "secret" not in failing(run, "cat", f"{url}/none?sig=secret")
    assert "secret" not in failing(run, "cat", f"{served.url}/none.b2nd?sig=secret")
    assert "secret" not in failing(run, "compact", f"{served.url}/a.b2nd?sig=secret")


def test_no_message_has_a_signature(folder: Path, run: Answer, served: remote_kit.RangeServer) -> None:
    array, store = f"{served.url}/a.b2nd?sig=secret", f"{served.url}/s.b2z?sig=secret"
    group, file = f"{served.url}/s.b2z/mri?sig=secret", f"{served.url}/a.h5?sig=secret"
    for command in (
        ["check", group], ["salvage", group, "o.b2z"], ["pack", group, "o.b2z"], ["mv", store, "/b"], ["rm", store],
        ["mv", "s.b2z/age", group], ["cp", group, "t.b2nd"], ["cp", array, "."], ["import", "a.b2nd", file],
        ["import", file, "s.b2z/k"], ["import", "a.b2nd", group], ["show", "a.b2nd", "-o", file],
    ):  # fmt: skip
        assert "secret" not in failing(run, *command)
    assert "secret" not in run("ls", array, group)
    run("cp", array, "new.b2z/")  # nor has a key
    assert run("ls", "new.b2z") == "a\n"
    assert run("view", "--html", array) == ""
    assert Path("a.html").exists()


def test_export(folder: Path, run: Answer, served: remote_kit.RangeServer) -> None:
    pytest.importorskip("h5py")
    url = served.put("s.b2z", folder / "s.b2z")
    assert "read back and equal" in run("export", url, "all.h5", "--verify")
    assert "1 array" in run("export", f"{url}/mri/007", "part.h5", "--storage-option", "block_size=5")
    report = blosc2.convert(f"{url}/mri/007?signature=secret", "more.h5")
    assert (report.arrays, "secret" in str(report)) == (1, False)
    assert "only stores and arrays are read" in failing(run, "export", f"{served.url}/a.h5", "b.h5")


def test_cp(folder: Path, run: Answer, served: remote_kit.RangeServer) -> None:
    run("cp", f"{served.url}/s.b2z", "copy.b2z")
    assert run("diff", "s.b2z", "copy.b2z") == ""
    run("cp", f"{served.url}/s.b2z/mri/007/raw", "raw.b2nd")
    np.testing.assert_array_equal(blosc2.open("raw.b2nd")[:], RAW)
    run("cp", f"{served.url}/a.b2nd", f"{served.url}/e.b2e/z", "copy.b2z/mri/")
    assert run("ls", "copy.b2z/mri").splitlines() == ["007/", "008/", "a", "z"]
    run("pack", f"{served.url}/s.b2z", "packed.b2z")
    run("unpack", f"{served.url}/s.b2z", "unpacked.b2d")
    for path in ("packed.b2z", "unpacked.b2d"):
        assert run("diff", "s.b2z", path) == ""


def test_new_objects_on_servers(folder: Path, run: Answer) -> None:
    np.save("n.npy", RAW)
    run("cp", "s.b2z", "memory://new/copy.b2z")
    run("cp", "s.b2z/mri/007/raw", "memory://new/x.b2nd")
    run("pack", "s.b2z", "memory://new/packed.b2z")
    run("import", "n.npy", "memory://new/n.b2nd", "--verify")
    for name in ("copy.b2z", "packed.b2z"):
        assert run("diff", "s.b2z", f"memory://new/{name}") == ""
    for name in ("x.b2nd", "n.b2nd"):
        np.testing.assert_array_equal(blosc2.open(f"memory://new/{name}")[:], RAW)
    for command in (["cp", "s.b2z"], ["pack", "s.b2z"], ["import", "n.npy"]):
        said = failing(run, *command, "memory://new/copy.b2z")
        if command[0] == "cp":  # which would add to a store
            assert "exists, and cp would add to it" in said
            assert "'blosc2 pack --force' replaces" in said
            assert failing(run, *command, "memory://new/copy.b2z", "--force") == said
        else:
            ends = "exists; --force replaces it", "exists: -f replaces it; name another one"
            assert said.endswith(ends)
            run(*command, "memory://new/copy.b2z", "--force")
    run("cp", "a.b2nd", "memory://new/x.b2nd", "--force")
    assert "leaf" in run("cp", "s.b2z/age", "memory://new/other.b2z?sig=secret") + run.err
    assert "secret" not in run.err
    with blosc2.open("memory://new/other.b2z?sig=secret") as store:
        assert list(store) == ["/age"]
    assert "folder" in failing(run, "import", "n.npy", "memory://new/n.b2d")


def test_new_files_may_be_urls_of_files(folder: Path, run: Answer) -> None:
    here = folder.as_uri()
    run("cp", "a.b2nd", f"{here}/new.b2nd")
    run("cat", "a.b2nd", "0:2", "-o", f"{here}/new.txt")
    run("view", "--html", "a.b2nd", f"{here}/new.html")
    run("pack", "d.b2d", f"{here}/new.b2z")
    run("mv", f"{here}/new.b2z/x/y", "/z")
    assert sorted(path.name for path in folder.glob("new.*")) == ["new.b2nd", "new.b2z", "new.html", "new.txt"]
    assert run("ls", "-r", "new.b2z") == "/z\n"
    assert "exists; --force" in failing(run, "cat", "a.b2nd", "-o", f"{here}/new.txt")


def test_check_and_salvage(folder: Path, run: Answer, served: remote_kit.RangeServer) -> None:
    url = f"{served.url}/s.b2z"
    assert run("check", url) == f"<CheckReport {url}: ok>\n"
    assert re.fullmatch(rf"{url}: .* are read into a temporary file\n", run.err)
    data = bytearray(served.objects["s.b2z"])
    at = data.index(np.int64(1).tobytes())
    data[at] ^= 1
    served.objects["s.b2z"] = bytes(data)
    found = run("check", url, code=1)
    assert f"damage: {url}, " in found
    assert "'blosc2 salvage'" in found
    assert not _PYTHON.search(found)
    assert f"{url} -> " in run("salvage", url, "saved.b2z", code=1)
    assert run("ls", "-r", "saved.b2z").splitlines() == ["/age", "/mri/008/raw"]


def test_storage_options(folder: Path, run: Answer, served: remote_kit.RangeServer) -> None:
    def refused(handler: object, *_: object) -> bool:
        if handler.headers.get("X-Token") == "secret":  # type: ignore[attr-defined]
            return False
        remote_kit.reply(handler, 401, b"")
        return True

    served.spoil = refused
    url = f"{served.url}/a.b2nd"
    message = failing(run, "cat", url, "3")
    assert message.startswith(f"{url}: the server refuses access")
    assert message.endswith("give other ones with --storage-option")
    headers = "client_kwargs=" + json.dumps({"headers": {"X-Token": "secret"}})
    assert run("cat", "--storage-option", headers, url, "3") == "3\n"
    assert "ok" in run("check", "--storage-option", headers, url)
    assert "NAME=VALUE" in failing(run, "ls", "--storage-option", "anon", url)


@pytest.mark.parametrize("command", [
    ["mv", "{}/s.b2z/age", "/years"], ["rm", "{}/s.b2z/age"], ["compact", "{}/s.b2z"],
    ["cp", "a.b2nd", "{}/s.b2z/a"], ["cp", "a.b2nd", "{}/new.b2nd"], ["pack", "{}/s.b2z"],
    ["pack", "s.b2z", "{}/new.b2z"], ["unpack", "s.b2z", "{}/new.b2d"], ["salvage", "s.b2z", "{}/new.b2z"],
    ["cat", "a.b2nd", "-o", "{}/new.txt"], ["view", "--html", "a.b2nd", "{}/new.html"],
])  # fmt: skip
def test_what_writes_to_a_server_is_refused(
    served: remote_kit.RangeServer, folder: Path, run: Answer, command: list[str]
) -> None:
    before = sorted(folder.iterdir())
    message = failing(run, *(part.format(served.url) for part in command))
    assert message.startswith(served.url)
    assert "is on a server" in message or "its server did not take it" in message
    if command[0] in ("mv", "rm", "compact"):
        assert f"'blosc2 cp {served.url}/s.b2z FILE'" in message
    assert sorted(folder.iterdir()) == before


# What programs write, and nobody types.
_PYTHON = re.compile(r"\w\(\)|\w=(\W|True|False|None|\d)|blosc2\.[a-z]|_options|urlpath|\w+Store\b")


@pytest.mark.parametrize("command", [
    ["ls", "none.b2z"], ["ls", "none"], ["info", "study.h5"], ["cat", "none.b2nd"], ["compact", "none.b2z"],
    ["ls", "{}/none.b2z"], ["ls", "{}/folder.b2d"], ["cp", "study.h5", "new.b2z"], ["cp", "a.b2nd", "no/new.b2nd"],
    ["salvage", "bad.b2nd", "a.b2nd"], ["salvage", "s.b2z", "s.b2z"], ["check", "none.b2z"], ["pack", "none.b2d"],
    ["rm", "held.b2z/a"], ["export", "none.b2z", "new.h5"], ["mv", "s.b2z/age", "/mri"],
])  # fmt: skip
def test_errors_speak_of_commands(
    served: remote_kit.RangeServer, folder: Path, run: Answer, command: list[str]
) -> None:
    (folder / "study.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    (folder / "bad.b2nd").write_bytes((folder / "a.b2nd").read_bytes()[:50])
    with blosc2.DictStore("held.b2z", mode="w") as store:
        store["/a"] = np.arange(3)
    program = "import sys, blosc2\nwith blosc2.open('held.b2z', 'a'): print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        message = failing(run, *(part.format(served.url) for part in command))
        assert other.stdin is not None
        other.stdin.close()
    assert not _PYTHON.search(message), message
