"""Objects of S3, as a local stand-in serves them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("s3fs")
pytest.importorskip("moto")
pytest.importorskip("flask")

import blosc2
from blosc2._files.remote import remote_file
from blosc2._files.remote.answers import Failure
from blosc2._files.remote.s3 import S3Server
from blosc2.exceptions import RemoteAccessError, RemoteChangedError, RemoteError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

ITEMS = np.random.default_rng(3).integers(0, 1 << 30, 200_000)


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, Any]]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client = {"endpoint_url": f"http://{host}:{port}", "region_name": "us-east-1"}
    yield {"key": "x", "secret": "y", "client_kwargs": client}
    server.stop()


@pytest.fixture(scope="module")
def bucket(options: dict[str, Any]) -> Any:
    import s3fs

    system = s3fs.S3FileSystem(**options)
    system.call_s3("create_bucket", Bucket="scans")
    system.pipe_file("scans/items.b2nd", blosc2.asarray(ITEMS, chunks=(20_000,)).to_cframe())
    return system


def test_an_array(bucket: Any, options: dict[str, Any]) -> None:
    array = blosc2.open("s3://scans/items.b2nd", storage_options=options)
    np.testing.assert_array_equal(array[50_000:50_010], ITEMS[50_000:50_010])
    np.testing.assert_array_equal(array[:], ITEMS)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[:5], ITEMS[:5])


def test_a_store(bucket: Any, options: dict[str, Any], tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        for i in range(300):
            store[f"/g/{i}"] = ITEMS[i : i + 5]
    bucket.put_file(str(tmp_path / "a.b2z"), "scans/a.b2z")
    store = blosc2.open("s3://scans/a.b2z", storage_options=options)
    np.testing.assert_array_equal(store["/g/77"][:], ITEMS[77:82])
    assert len(list(store["/g"])) == 300


def test_a_changed_object(bucket: Any, options: dict[str, Any]) -> None:
    bucket.pipe_file("scans/changing.b2nd", blosc2.asarray(ITEMS, chunks=(20_000,)).to_cframe())
    array = blosc2.open("s3://scans/changing.b2nd", storage_options=options)
    bucket.pipe_file("scans/changing.b2nd", blosc2.asarray(ITEMS + 1, chunks=(20_000,)).to_cframe())
    with pytest.raises(RemoteChangedError, match=r"changing\.b2nd"):
        array[150_000]


def test_a_missing_object(bucket: Any, options: dict[str, Any]) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.b2nd"):
        blosc2.open("s3://scans/none.b2nd", storage_options=options)


def test_an_empty_object(bucket: Any, options: dict[str, Any]) -> None:
    bucket.pipe_file("scans/empty.b2nd", b"")
    with pytest.raises(blosc2.exceptions.FormatError):
        blosc2.open("s3://scans/empty.b2nd", storage_options=options)


def test_wrong_credentials(bucket: Any, options: dict[str, Any]) -> None:
    """The server looks at them from here on: those that it gave are the right ones."""
    import boto3
    import requests

    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    keys = {"aws_access_key_id": options["key"], "aws_secret_access_key": options["secret"]}
    iam = boto3.client("iam", **options["client_kwargs"], **keys)
    iam.create_user(UserName="user")
    iam.put_user_policy(UserName="user", PolicyName="all", PolicyDocument=json.dumps(everything))
    right = iam.create_access_key(UserName="user")["AccessKey"]
    looks = f"{options['client_kwargs']['endpoint_url']}/moto-api/reset-auth"
    requests.post(looks, data="0", timeout=10)
    try:
        for key, secret, text in (
            (right["AccessKeyId"], "wrong", "signature"),
            ("AKIAWRONG00000000000", "wrong", "does not exist in our records"),
        ):
            with pytest.raises(RemoteAccessError, match=rf"items\.b2nd.*{text}.*storage_options"):
                blosc2.open("s3://scans/items.b2nd", storage_options=options | {"key": key, "secret": secret})
        given = options | {"key": right["AccessKeyId"], "secret": right["SecretAccessKey"]}
        assert blosc2.open("s3://scans/items.b2nd", storage_options=given)[7] == ITEMS[7]
    finally:
        requests.post(looks, data="inf", timeout=10)


class NoCredentialsError(Exception):
    """As botocore has it: a class of its own."""


@pytest.mark.parametrize(("error", "kind", "passing"), [
    (PermissionError("Access Denied"), RemoteAccessError, False),
    (NoCredentialsError("Unable to locate credentials"), RemoteAccessError, False),
    (FileNotFoundError("gone"), FileNotFoundError, False),
    (ConnectionResetError("reset"), RemoteError, True),
    (RuntimeError("else"), RemoteError, False),
])  # fmt: skip
def test_errors(bucket: Any, error: Exception, kind: type[Exception], passing: bool) -> None:
    class System:
        loop = bucket.loop
        req_kw: dict[str, Any] = {}

        def split_path(self, path: str) -> tuple[str, str, None]:
            return "scans", "a", None

        async def _call_s3(self, *_: Any, **__: Any) -> None:
            raise error

    with pytest.raises(Failure) as caught:
        S3Server(System(), "scans/a", "s3://scans/a", 5).get(0, 10)
    assert isinstance(caught.value.error, kind)
    assert caught.value.passing == passing
    assert "s3://scans/a" in str(caught.value.error)


def test_retries_are_few(bucket: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_file, "_WAIT", 0.001)
    array = blosc2.open("s3://scans/items.b2nd", storage_options=options, remote={"retries": 2})
    asked = []

    def failing(self: Any, start: int, stop: int) -> Any:
        asked.append((start, stop))
        raise Failure(RemoteError("no", path="s3://scans/items.b2nd"), passing=True)

    monkeypatch.setattr(S3Server, "get", failing)
    with pytest.raises(RemoteError):
        array[150_000]
    assert len(asked) == 3


def test_whole_objects_are_written(
    bucket: Any, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the credentials that fsspec knows."""
    import fsspec

    monkeypatch.setitem(fsspec.config.conf, "s3", options)
    array = blosc2.asarray(ITEMS, urlpath="s3://scans/new.b2nd")
    np.testing.assert_array_equal(array[:], ITEMS)
    with pytest.raises(FileExistsError):
        blosc2.asarray(ITEMS, urlpath="s3://scans/new.b2nd")
    array = blosc2.asarray(ITEMS + 1, urlpath="s3://scans/new.b2nd", mode="w")
    np.testing.assert_array_equal(array[:10], ITEMS[:10] + 1)
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/x"] = ITEMS
        store.to_b2z(filename="s3://scans/new.b2z")
    with blosc2.open("s3://scans/new.b2z") as store:
        np.testing.assert_array_equal(store["/x"][:], ITEMS)
