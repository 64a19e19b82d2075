"""What the library says of its functions and keywords, in the words of commands and options."""

from __future__ import annotations

import re

from blosc2._display import one_line

_WORDS = (
    (r"No such file or directory: .*", "No such file or directory"),
    (r"blosc2\.convert\('(.*?)', '(.*?)'\)", r"blosc2 import \1 \2"),
    (r"DictStore\.to_b2z", "'blosc2 pack'"),
    (r"credentials in storage_options", "ones with --storage-option"),
    (r"(mode='w' or )?overwrite=True replaces it|mode='w' replaces it, blosc2\.open opens it", "--force replaces it"),
    (r": open it with mode='r'", ""),
    (r"with fill=0 the others are recovered", "--fill 0 recovers the others"),
    (r"give fill=0", "give --fill 0"),
    (r"the next commit or compact\(\)|compact\(\)", "'blosc2 compact'"),
    (r"run blosc2\.check\(\) on it", "run 'blosc2 check'"),
    (r"check\(\) tells", "'blosc2 check' tells"),
    (r", or make fewer and larger changes with transaction\(\)", ""),
    (r"(source|target)_format= names one", "--format names one"),
    (r"with timeout=", "with --timeout"),
    (r"with blosc2\.salvage", "with 'blosc2 salvage'"),
    (r", or (leave out locking=True and )?open it with exclusive=False and .*", ""),
    (r"; your changes are kept in the store object: [^;]*", ""),
)


def in_commands(text: str) -> str:
    """A message of the library for those who type commands."""
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text)
    return text


def told(error: BaseException) -> str:
    """An error in one line."""
    return in_commands(one_line(error))
