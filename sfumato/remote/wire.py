"""Queries as bytes: from a process that runs a method to one that holds data, without code and without pickles.

    sender      query = BoundedSum(lambda images, labels: net.features(images), Bound(1.0), (8,))
                encode(query)    a tree of names and plain values, and the numbers of tensors beside it
    receiver    decode(data)     the same classes, functions and numbers, taken from its own installed package

A function is named by its module, its qualified name and which code of that name it is; what it closes over travels as
values. What a class may not be given, its constructor refuses. Held parts are named by the number that the asking side
got for them. Everything else is a `WireError`.
"""

from __future__ import annotations

from typing import Any

from sfumato.remote.names import Allowed, WireError, fingerprint
from sfumato.remote.reading import Handles, Kept, Reader
from sfumato.remote.writing import Numbers, Writer

__all__ = ["Kept", "WireError", "decode", "encode", "fingerprint"]


def encode(thing: Any, *, numbers: Numbers | None = None, allow: Allowed = ()) -> bytes:
    """A query, a public argument or an answer as bytes.

    `numbers` gives the number of a handle on held parts. `allow` names further modules, for tests.

    >>> decode(encode({"steps": 3, "shape": (1, 8, 8)}))
    {'steps': 3, 'shape': (1, 8, 8)}
    """
    return Writer(numbers, allow).message(thing)


def decode(
    data: bytes | memoryview,
    *,
    device: str = "cpu",
    handles: Handles | None = None,
    allow: Allowed = (),
    kept: Kept | None = None,
) -> Any:
    """What the bytes say, on `device` where it was on an accelerator; `handles` gives the parts of a number.

    With `kept`, a fixed map that came before is the same object again, and what a query settled once stays settled.
    """
    return Reader(data, device, handles, allow, kept or Kept()).message()
