"""The order in which files of a directory take their new places."""

import pytest

from blosc2.directory_files import in_steps


@pytest.mark.parametrize(
    ("keys", "renamed", "expected"),
    [
        ([], {}, []),
        (["/a", "/b"], {}, [["/a", "/b"]]),
        (["/a", "/b"], {"/b": "/a"}, [["/b"], ["/a"]]),
        (["/a", "/b", "/c"], {"/a": "/b", "/b": "/c"}, [["/a"], ["/b"], ["/c"]]),
        (["/d", "/e"], {"/e": "/d", "/d": "/was"}, [["/e"], ["/d"]]),
        (["/a", "/b", "/x"], {"/a": "/b", "/b": "/a"}, [["/x"], ["/a", "/b"]]),
        (["/a"], {"/a": "/a"}, [["/a"]]),
        (["/a", "/b", "/c"], {"/a": "/b", "/b": "/a", "/c": "/z"}, [["/c"], ["/a", "/b"]]),
    ],
)
def test_steps(keys: list[str], renamed: dict[str, str], expected: list[list[str]]) -> None:
    assert in_steps(keys, renamed) == expected
