"""What was written, built again from classes and functions of our own; whatever else is found is refused."""

from __future__ import annotations

import hashlib
import json
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from types import CellType, FunctionType, MappingProxyType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sfumato.privacy.partitions import PartitionHandle
from sfumato.remote.names import Allowed, WireError, code_of, found, found_class, found_function
from sfumato.remote.writing import ALIGN, MAGIC, MEMO, Node, Writer, dense

KEPT = 32  # objects of equal messages, and memories of equal queries, that a receiver keeps at most
BROKEN = (
    KeyError,
    IndexError,
    ValueError,
    TypeError,
    AttributeError,
    AssertionError,
    RuntimeError,
    UnicodeDecodeError,
    RecursionError,
    OverflowError,
)
DTYPES = {
    str(kind).removeprefix("torch."): kind
    for kind in (
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
    )
}
Handles = Callable[[int], PartitionHandle]


class Kept:
    """What equal messages share: fixed maps by their bytes, and memories of queries by what they depend on."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._found: OrderedDict[bytes, Any] = OrderedDict()

    def of(self, what: bytes, make: Callable[[], Any]) -> Any:
        """What was made of these bytes before, or is made now; the oldest is forgotten."""
        digest = hashlib.blake2b(what, digest_size=32).digest()
        if digest not in self._found:
            self._found[digest] = make()
        self._found.move_to_end(digest)
        while len(self._found) > self._most:
            self._found.popitem(last=False)
        return self._found[digest]


class Reader:
    """Reads one message."""

    def __init__(self, data: bytes | memoryview, device: str, handles: Handles | None, allow: Allowed, kept: Kept):
        self._data = memoryview(data).cast("B")
        self._device = device
        self._handles = handles
        self._allow = allow
        self._kept = kept
        self._made: dict[int, Any] = {}

    def message(self) -> Any:
        """All of it."""
        try:
            tree = self._tree()
            return self.get(tree)
        except BROKEN as error:
            raise WireError(f"A message could not be read ({type(error).__name__}); nothing was done.") from error

    def _tree(self) -> Node:
        head = len(MAGIC) + 8
        if bytes(self._data[: len(MAGIC)]) != MAGIC:
            raise WireError("Expected a message of this version of the wire, found something else.")
        length = int.from_bytes(self._data[len(MAGIC) : head], "little")
        tree = json.loads(bytes(self._data[head : head + length]))
        self._body = self._data[head + length + -(head + length) % ALIGN :]
        return tree

    def get(self, node: Node) -> Any:
        """One value."""
        if not isinstance(node, list):
            return node
        kind, *rest = node
        if kind == "@":
            return self._made[rest[0]]
        return _KINDS[kind](self, *rest)

    def _keep(self, number: int, value: Any) -> Any:
        if number in self._made:
            raise WireError("A message names two things by one number; nothing was done.")
        self._made[number] = value
        return value

    def _bytes(self, place: list[int]) -> memoryview:
        start, length = place
        if not 0 <= start <= start + length <= len(self._body):
            raise WireError("A message is shorter than it says; nothing was done.")
        return self._body[start : start + length]

    def _class(self, module: str, name: str) -> type[Any]:
        return found_class(module, name, self._allow)

    def _table(self, pairs: list[list[Node]]) -> dict[Any, Any]:
        return {self.get(key): self.get(value) for key, value in pairs}

    # Kinds

    def _enum(self, module: str, name: str, member: str) -> Any:
        cls = self._class(module, name)
        if not issubclass(cls, Enum):
            raise WireError(f"Expected a member of {name}, which has none.")
        return cls[member]

    def _tuple(self, items: list[Node]) -> tuple[Any, ...]:
        return tuple(self.get(item) for item in items)

    def _size(self, *sides: int) -> torch.Size:
        return torch.Size(sides)

    def _list(self, number: int, items: list[Node]) -> list[Any]:
        made: list[Any] = self._keep(number, [])
        made.extend(self.get(item) for item in items)
        return made

    def _set(self, number: int, items: list[Node]) -> set[Any]:
        made: set[Any] = self._keep(number, set())
        made.update(self.get(item) for item in items)
        return made

    def _dict(self, number: int, pairs: list[list[Node]]) -> Any:
        made = self._keep(number, {})
        made.update(self._table(pairs))
        return made

    def _mapping(self, pairs: list[list[Node]]) -> Any:
        return MappingProxyType(self._table(pairs))

    def _raw(self, place: list[int]) -> bytes:
        return bytes(self._bytes(place))

    def _tensor(
        self,
        number: int,
        kind: str,
        shape: list[int],
        strides: list[int],
        device: str,
        flags: list[bool],
        place: list[int],
    ) -> Tensor:
        raw = self._bytes(place)
        if (
            min(shape, default=1) < 0
            or min(strides, default=1) < 0
            or len(raw) != math.prod(shape) * DTYPES[kind].itemsize
        ):
            raise WireError("A tensor's numbers do not fill its shape; nothing was done.")
        if not len(raw):
            value = torch.empty(shape, dtype=DTYPES[kind])
        elif dense(shape, strides):
            value = torch.empty_strided(shape, strides, dtype=DTYPES[kind])
            value.as_strided((value.numel(),), (1,)).view(torch.uint8).numpy()[:] = np.frombuffer(raw, np.uint8)
        else:
            raise WireError("A tensor's numbers do not lie side by side; nothing was done.")
        value = value.to(self._place(device))
        parameter, learns = flags
        value = nn.Parameter(value, requires_grad=learns) if parameter else value.requires_grad_(learns)
        kept: Tensor = self._keep(number, value)
        return kept

    def _place(self, device: str) -> str:
        """A CPU's tensors stay with the CPU; another device is the receiver's own."""
        return "cpu" if device == "cpu" else self._device

    def _array(self, number: int, kind: str, shape: list[int], place: list[int]) -> Any:
        dtype = np.dtype(kind)
        if dtype.kind not in "biufc":
            raise WireError(f"Expected numbers in an array, found {dtype}.")
        return self._keep(number, np.frombuffer(self._bytes(place), dtype).reshape(shape).copy())

    def _dtype(self, name: str) -> torch.dtype:
        return DTYPES[name]

    def _held(self, number: int) -> PartitionHandle:
        if self._handles is None:
            raise WireError("Nothing is held here.")
        return self._handles(number)

    def _global(self, module: str, name: str) -> Any:
        return found_function(module, name, self._allow)

    def _function(
        self, number: int, module: str, name: str, which: int, cells: list[Node], defaults: Node, named: Node
    ) -> FunctionType:
        code, here = code_of(module, name, which, self._allow)
        empty = tuple(CellType() for _ in cells)
        made: FunctionType = self._keep(number, FunctionType(code, here, code.co_name, None, empty or None))
        made.__qualname__ = code.co_qualname
        made.__defaults__ = self.get(defaults)
        made.__kwdefaults__ = self.get(named)
        for cell, content in zip(empty, cells, strict=True):
            cell.cell_contents = self.get(content)
        return made

    def _method(self, owner: Node, name: str) -> Any:
        value = self.get(owner)
        function = next((vars(cls)[name] for cls in type(value).__mro__ if name in vars(cls)), None)
        if not isinstance(function, FunctionType) or not isinstance(name, str):
            raise WireError("Expected a method of an engine's object, found another of its attributes.")
        found(function.__module__, function.__qualname__, self._allow)
        return MethodType(function, value)

    def _whole(self, number: int, place: list[int]) -> Any:
        raw = self._bytes(place)

        def read() -> Any:
            return Reader(raw, self._device, self._handles, self._allow, self._kept).message()

        return self._keep(number, self._kept.of(bytes(raw), read))

    def _module(self, number: int, module: str, name: str, pairs: list[list[Node]]) -> nn.Module:
        cls = self._class(module, name)
        if not issubclass(cls, nn.Module):
            raise WireError(f"Expected a network, found {name}.")
        made: nn.Module = self._keep(number, cls.__new__(cls))
        nn.Module.__init__(made)
        vars(made).update(self._state(cls, pairs))
        return made

    def _dataclass(self, number: int, module: str, name: str, pairs: list[list[Node]]) -> Any:
        """By its constructor, which refuses what its fields may not be."""
        cls = self._class(module, name)
        if not is_dataclass(cls):
            raise WireError(f"Expected fields, found the class {name} without them.")
        values = {str(key): self.get(node) for key, node in pairs}
        for field in fields(cls):
            if MEMO in field.metadata:
                assert field.default_factory is not MISSING
                values[field.name] = self._kept.of(self._about(cls, field, values), field.default_factory)
        return self._keep(number, cls(**values))

    def _about(self, cls: type[Any], field: Field[Any], values: dict[str, Any]) -> bytes:
        """What a memory depends on, as we write it ourselves: a sender could lay out two queries alike."""
        about = [values.get(name) for name in field.metadata[MEMO]]
        return f"{cls.__qualname__}.{field.name}".encode() + Writer(None, self._allow).tree(about)

    def _state(self, cls: type[Any], pairs: list[list[Node]]) -> dict[str, Any]:
        """Attributes of an instance; none of them may stand before a method of its class."""
        state = self._table(pairs)
        if any(not isinstance(name, str) or callable(getattr(cls, name, None)) for name in state):
            raise WireError(f"Expected the state of a {cls.__name__}, found another method in its place.")
        return state

    def _object(self, number: int, module: str, name: str, pairs: list[list[Node]]) -> Any:
        cls = self._class(module, name)
        if is_dataclass(cls) or issubclass(cls, nn.Module):
            raise WireError(f"Expected an object without fields, found {name}.")
        made = self._keep(number, object.__new__(cls))
        vars(made).update(self._state(cls, pairs))
        return made


_KINDS: dict[str, Callable[..., Any]] = {
    "enum": Reader._enum,
    "tuple": Reader._tuple,
    "size": Reader._size,
    "list": Reader._list,
    "set": Reader._set,
    "dict": Reader._dict,
    "mapping": Reader._mapping,
    "bytes": Reader._raw,
    "tensor": Reader._tensor,
    "array": Reader._array,
    "dtype": Reader._dtype,
    "held": Reader._held,
    "global": Reader._global,
    "function": Reader._function,
    "method": Reader._method,
    "whole": Reader._whole,
    "module": Reader._module,
    "data": Reader._dataclass,
    "object": Reader._object,
}
