from typing import TypeVar

_Item = TypeVar("_Item")

def never_freed(item: _Item) -> _Item: ...
