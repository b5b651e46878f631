"""Python objects as a tree of plain values, with the numbers of tensors beside it."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sfumato.privacy.partitions import PartitionHandle
from sfumato.remote.names import Allowed, WireError, found, refused, which_code

MAGIC = b"sfumato-wire/1\n"
ALIGN = 64  # bytes, of what a tensor begins at
MEMO = "memo"  # of a field: what is remembered of these other fields, on each side by itself
PLAIN = (type(None), bool, int, float, str)
CONTAINERS: dict[type, str] = {list: "list", set: "set", dict: "dict", OrderedDict: "dict"}
FRESH = frozenset(vars(nn.Module()))

Numbers = Callable[[PartitionHandle], int]
Node = Any


def dense(shape: Iterable[int], strides: Iterable[int]) -> bool:
    """Whether every number of a tensor has a place of its own, without gaps.

    >>> dense((2, 3), (1, 2)), dense((2, 3), (0, 1))
    (True, False)
    """
    step = 1
    for stride, side in sorted(zip(strides, shape, strict=True)):
        if side == 0:
            return False
        if side > 1:
            if stride != step:
                return False
            step *= side
    return True


class Writer:
    """Writes one message. What occurs twice is written once."""

    def __init__(self, numbers: Numbers | None, allow: Allowed) -> None:
        self._numbers = numbers
        self._allow = allow
        self._known: dict[int, int] = {}
        self._alive: list[Any] = []  # so that no id is given away while we write
        self._buffers: list[memoryview] = []
        self._size = 0
        self._fixed: set[int] = set()  # maps that keep what they once gave, see `remembered`

    def message(self, thing: Any) -> bytes:
        """All of it."""
        tree = self.tree(thing)
        head = MAGIC + len(tree).to_bytes(8, "little")
        pad = bytes(-(len(head) + len(tree)) % ALIGN)
        return b"".join([head, tree, pad, *self._buffers])

    def tree(self, thing: Any) -> bytes:
        """All but the numbers of tensors."""
        return json.dumps(self.put(thing), separators=(",", ":")).encode()

    def put(self, value: Any) -> Node:
        """One value."""
        kind = type(value)
        if kind in PLAIN:
            return value
        if id(value) in self._known:
            return ["@", self._known[id(value)]]
        if id(value) in self._fixed:
            return self._whole(value)
        for base, write in _KINDS:
            if isinstance(value, base):
                return write(self, value)
        return self._object(value)

    def _new(self, value: Any) -> int:
        """A number by which others refer to this one."""
        self._alive.append(value)
        return self._known.setdefault(id(value), len(self._known))

    def _bytes(self, data: bytes | memoryview) -> list[int]:
        view = memoryview(data).cast("B")
        start = self._size
        pad = -len(view) % ALIGN
        self._buffers += [view, memoryview(bytes(pad))]
        self._size += len(view) + pad
        return [start, len(view)]

    def _items(self, values: Iterable[Any]) -> list[Node]:
        return [self.put(value) for value in values]

    def _pairs(self, table: Any) -> list[list[Node]]:
        return [[self.put(key), self.put(value)] for key, value in table.items()]

    # Kinds

    def _enum(self, value: Enum) -> Node:
        return ["enum", *self._name(type(value)), value.name]

    def _tuple(self, value: tuple[Any, ...]) -> Node:
        if isinstance(value, torch.Size):
            return ["size", *value]
        if type(value) is not tuple:
            raise refused(type(value).__module__, type(value).__qualname__)
        return ["tuple", self._items(value)]

    def _container(self, value: Any) -> Node:
        kind = CONTAINERS.get(type(value))
        if kind is None:
            return self._object(value)
        number = self._new(value)
        return [kind, number, self._pairs(value) if isinstance(value, dict) else self._items(value)]

    def _mapping(self, value: Any) -> Node:
        return ["mapping", self._pairs(value)]

    def _raw(self, value: bytes) -> Node:
        return ["bytes", self._bytes(value)]

    def _tensor(self, value: Tensor) -> Node:
        """With the way it lies in memory, which decides how products round."""
        if type(value) not in (Tensor, nn.Parameter) or value.layout is not torch.strided:
            raise WireError(f"Expected a plain dense tensor on the wire, found {type(value).__name__}.")
        number = self._new(value)
        plain = value.detach().cpu()
        plain = plain if dense(plain.shape, plain.stride()) else plain.contiguous()
        raw = plain.as_strided((plain.numel(),), (1,)).view(torch.uint8).numpy()
        name = str(value.dtype).removeprefix("torch.")
        flags = [isinstance(value, nn.Parameter), value.requires_grad]
        laid = [list(plain.shape), list(plain.stride())]
        return ["tensor", number, name, *laid, value.device.type, flags, self._bytes(raw.data)]

    def _array(self, value: np.ndarray) -> Node:
        if value.dtype.kind not in "biufc":
            raise WireError(f"Expected numbers in an array on the wire, found {value.dtype}.")
        number = self._new(value)
        plain = np.ascontiguousarray(value)
        return ["array", number, plain.dtype.str, list(value.shape), self._bytes(plain.tobytes())]

    def _scalar(self, value: np.generic) -> Node:
        return self.put(value.item())

    def _dtype(self, value: torch.dtype) -> Node:
        return ["dtype", str(value).removeprefix("torch.")]

    def _held(self, value: PartitionHandle) -> Node:
        if self._numbers is None:
            raise WireError("Held parts stay where they are; only a number of theirs crosses, and there is none here.")
        return ["held", self._numbers(value)]

    def _name(self, value: Any) -> tuple[str, str]:
        """Module and name of a class or a function that is found again by them."""
        module, name = value.__module__, value.__qualname__
        if found(module, name, self._allow) is not value:
            raise refused(module, name)
        return module, name

    def _function(self, value: FunctionType) -> Node:
        name = value.__qualname__
        if "<" not in name:  # of a module or a class, perhaps under a decorator
            return ["global", *self._name(value)]
        which = which_code(value, self._allow)
        number = self._new(value)
        cells = [self.put(cell.cell_contents) for cell in value.__closure__ or ()]
        defaults = [self.put(value.__defaults__), self.put(value.__kwdefaults__)]
        return ["function", number, value.__module__, value.__code__.co_qualname, which, cells, *defaults]

    def _method(self, value: MethodType) -> Node:
        return ["method", self.put(value.__self__), value.__name__]

    def _whole(self, value: Any) -> Node:
        """A message of its own: where the bytes are equal, the receiver has one object for all of them."""
        return ["whole", self._new(value), self._bytes(Writer(self._numbers, self._allow).message(value))]

    def _builtin(self, value: Any) -> Node:
        raise refused(str(value.__module__), value.__name__)

    def _module(self, value: nn.Module) -> Node:
        number = self._new(value)
        told = {k: v for k, v in vars(value).items() if k not in FRESH or (v if k != "training" else not v)}
        if (sees := told.get("_modules", {}).get("sees")) is not None:
            self._fixed.add(id(sees))
        return ["module", number, *self._name(type(value)), self._pairs(told)]

    def _object(self, value: Any) -> Node:
        number = self._new(value)
        name = self._name(type(value))
        if is_dataclass(value):
            told = {f.name: getattr(value, f.name) for f in fields(value) if f.init and MEMO not in f.metadata}
            return ["data", number, *name, [[key, self.put(each)] for key, each in told.items()]]
        if not hasattr(value, "__dict__"):
            raise refused(*name)
        return ["object", number, *name, self._pairs(vars(value))]


_KINDS: tuple[tuple[Any, Callable[[Writer, Any], Node]], ...] = (
    (Enum, Writer._enum),
    (tuple, Writer._tuple),
    ((list, dict, set), Writer._container),
    (MappingProxyType, Writer._mapping),
    (bytes, Writer._raw),
    (Tensor, Writer._tensor),
    (np.ndarray, Writer._array),
    (np.generic, Writer._scalar),
    (torch.dtype, Writer._dtype),
    (PartitionHandle, Writer._held),
    (FunctionType, Writer._function),
    (MethodType, Writer._method),
    (BuiltinFunctionType, Writer._builtin),
    (nn.Module, Writer._module),
)
