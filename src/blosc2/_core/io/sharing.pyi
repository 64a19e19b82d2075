from collections.abc import Mapping
from typing import TypeVar

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")

def item_of(table: Mapping[_Key, _Item], key: _Key) -> _Item | None: ...
def never_freed(item: _Item) -> _Item: ...
