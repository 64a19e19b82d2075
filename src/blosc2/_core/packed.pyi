from typing_extensions import Buffer

MOST_PER_BYTE: int

def unpacked_size(data: Buffer, enough: int = ...) -> int: ...
