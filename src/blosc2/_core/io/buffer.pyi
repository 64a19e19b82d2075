from typing import final

@final
class Buffer: ...  # the memory of an object with a C-contiguous buffer; only native code makes one
