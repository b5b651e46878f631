"""One atomic file for all state of a run: nested dictionaries of tensors and plain values, without pickle.

A checkpoint is private: it may hold state that never passed the barrier. It lives in a folder of mode 0700.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sfumato.errors import InputError
from sfumato.ledger.durable import replace


def save(path: Path, state: Mapping[str, Any]) -> None:
    """Write `state` so that a crash leaves either the old file or the new one."""
    from safetensors.torch import save as to_bytes

    tensors: dict[str, Tensor] = {}
    skeleton = _strip(state, "", tensors)
    replace(path, to_bytes(tensors, metadata={"skeleton": json.dumps(skeleton)}))


def load(path: Path) -> dict[str, Any]:
    """Read what `save` wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a mapping)
            skeleton = json.loads(file.metadata()["skeleton"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is no readable checkpoint ({type(error).__name__}); start a new run.") from error
    state: dict[str, Any] = _fill(skeleton, tensors)
    return state


def _strip(value: Any, where: str, tensors: dict[str, Tensor]) -> Any:
    """Replace each tensor by a reference; keys of dictionaries keep their type (optimisers use integers)."""
    if isinstance(value, Tensor):
        tensors[where] = value.detach().cpu().contiguous().clone()
        return {"tensor": where}
    if isinstance(value, Mapping):
        return {"items": [[k, _strip(v, f"{where}/{k}", tensors)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [_strip(v, f"{where}/{i}", tensors) for i, v in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    raise TypeError(f"Expected tensors and plain values in a checkpoint, found {type(value).__name__} at '{where}'.")


def _fill(skeleton: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    ((kind, content),) = skeleton.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "items":
        return {k: _fill(v, tensors) for k, v in content}
    if kind == "list":
        return [_fill(v, tensors) for v in content]
    return content


def to_device(state: Any, device: str) -> Any:
    """Move the tensors of a nested state."""
    if isinstance(state, Tensor):
        return state.to(torch.device(device))
    if isinstance(state, dict):
        return {k: to_device(v, device) for k, v in state.items()}
    return [to_device(v, device) for v in state] if isinstance(state, list) else state
