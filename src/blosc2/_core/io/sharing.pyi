from collections.abc import Callable, Mapping
from typing import TypeVar, overload

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")
_Other = TypeVar("_Other")
_Function = TypeVar("_Function", bound=Callable[..., object])

@overload
def item_of(table: Mapping[_Key, _Item], key: _Key) -> _Item | None: ...
@overload
def item_of(table: Mapping[_Key, _Item], key: _Key, default: _Other) -> _Item | _Other: ...
def remembered(most: int) -> Callable[[_Function], _Function]: ...
def never_freed(item: _Item) -> _Item: ...
