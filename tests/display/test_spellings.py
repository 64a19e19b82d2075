"""How dtypes and sizes are spelled, wherever people read them."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import Answer

import blosc2
from blosc2._tools.viewer.html_page import web_page
from blosc2._tools.viewer.values import properties

MANY = np.dtype([(f"field{n}", "<f4") for n in range(40)])
SPELLED = {
    np.dtype("i2"): "int16",
    np.dtype("?"): "bool",
    np.dtype(">f4"): ">f4",
    np.dtype("c16"): "complex128",
    np.dtype("M8[ns]"): "datetime64[ns]",
    np.dtype("U3"): "<U3",
    np.dtype("S5"): "|S5",
    np.dtype([("x", "<i4"), ("y", ">f8", (2,))]): "[('x', '<i4'), ('y', '>f8', (2,))]",
    MANY: str(MANY)[:80] + "...",
}


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Answer:
    return Answer(capfd)


@pytest.fixture(params=SPELLED, ids=str)
def dtype(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_dtypes_are_spelled_one_way(dtype: np.dtype[Any], tmp_path: Path, run: Answer) -> None:
    path = str(tmp_path / "a.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/leaf"] = np.zeros((3, 2), dtype)
    spelled = SPELLED[dtype]
    store = blosc2.open(path, mode="r")
    array = store["/leaf"]
    shown = {
        "repr": repr(array),
        "info": repr(array.info),
        "info in notebooks": html.unescape(array.info._repr_html_()),
        "array in notebooks": html.unescape(array._repr_html_()),
        "store in notebooks": html.unescape(store._repr_html_()),
        "tree": str(store.tree()),
        "describe": str(store.describe("/leaf")),
        "viewer": dict(properties(array))["dtype"],
        "page": html.unescape(web_page(store, "a.b2z")),
        **{command: run(*command.split(), path) for command in ("ls -l", "tree", "stats --by dtype")},
        "info of the command": run("info", f"{path}/leaf"),
    }
    for where, text in shown.items():
        assert spelled in text, where
        assert str(dtype) == spelled or str(dtype) not in text, where  # it is cut
    # Programs get all of it.
    assert [row.dtype for row in store.stats(by="dtype")] == [str(dtype)]
    assert str(dtype) in run("ls", "--json", "-l", path).replace("\\", "")


def test_fields_and_tables(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/a"], store["/b"] = np.zeros(3, "i2"), np.zeros(3, [("x", ">i8")])
        assert repr(store["/b"].fields["x"]).startswith("<NDField 'x' >i8 of <NDArray (3,) [('x', '>i8')] ")
    with blosc2.open(str(tmp_path / "a.b2z")) as opened:
        assert list(opened.to_pandas()["dtype"]) == ["int16", "[('x', '>i8')]"]


def test_errors_spell_dtypes_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^datetime64 does not say its unit"):
        blosc2.asarray(np.arange(3)).astype("M8")


def test_tree_and_ls_agree_about_sizes(tmp_path: Path, run: Answer) -> None:
    path = str(tmp_path / "a.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/g/noise"] = np.random.default_rng(0).integers(0, 256, (300, 400)).astype("u1")
        store["/g/zeros"] = np.zeros((1000, 1000))
        store["/h/few"] = np.arange(20)
    listed = {line.split()[-1]: line for line in run("ls", "-l", "-r", path).splitlines()}
    drawn = {line.split("── ")[-1].split("  ")[0]: line for line in run("tree", path).splitlines()}
    assert len(listed) == 3
    for key, line in listed.items():
        both = line.partition("ZSTD  ")[2].removesuffix(key).strip().partition(" (")[0]
        assert drawn[key.rsplit("/", 1)[-1]].endswith(f", {both}"), key
    for group in ("g/", "h/"):
        line = next(line for line in run("ls", "-l", path).splitlines() if line.endswith(group))
        assert line.rsplit("  ", 2)[-2].strip() in drawn[group]
