from __future__ import annotations

from collections.abc import Callable

import pytest

import blosc2


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Converts as `blosc2.convert` does, and stops when all is written, before it is read back."""
    from blosc2._tools.converting import conversion

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def convert(source: object, target: object, **options: object) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(conversion, "_verify", stop)
            with pytest.raises(KeyboardInterrupt):
                blosc2.convert(source, target, verify=True, **options)

    return convert
