"""What an error says, for people who see no traceback."""

from __future__ import annotations


def one_line(error: BaseException) -> str:
    """What an error says, in one line."""
    text = str(error)
    if isinstance(error, KeyError) and type(error) is KeyError:
        text = str(error.args[0]) if error.args else ""
    if isinstance(error, OSError) and error.strerror:
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        text = ": ".join([*names, error.strerror])
    if isinstance(error, MemoryError) and not text:
        text = "not enough memory"
    text = "; ".join([text or type(error).__name__, *getattr(error, "__notes__", ())])
    return " ".join(text.split()) or type(error).__name__
