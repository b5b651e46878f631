"""What the bytes of a released file may hold: no foreign keys, no hidden chunks, no tensor without a certificate."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

from sfumato.release.files.schema import Schema, problem

PNG_START = b"\x89PNG\r\n\x1a\n"
# No text, time or physical-size chunks: they carry what the pixels do not show.
PNG_CHUNKS = frozenset((b"IHDR", b"PLTE", b"IDAT", b"IEND"))
PARQUET_COLUMNS = ("image", "label")

# Keys that stay at home at every depth: where, on what and for how long a run ran, and what it saw.
NEVER = frozenset(
    ("path", "paths", "folder", "host", "hostname", "user", "username", "device", "devices")
    + ("seconds", "duration", "elapsed", "started", "finished", "run_time")
    + ("chunk", "chunks", "chunk_size", "microbatch")
    + ("losses", "loss_curve", "train_loss", "noise_seed", "noise_key", "digests")
)


def _not_finite(token: str) -> None:
    raise ValueError(f"the number {token}")


def json_problem(data: bytes, schema: Schema) -> str | None:
    """What is wrong with a JSON file that may hold what a schema lists, and nothing else at any depth."""
    try:
        value = json.loads(data, parse_constant=_not_finite)
    except (ValueError, RecursionError) as error:
        return f"is not strict JSON ({error})"
    if not isinstance(value, dict):
        return "is not a JSON object"
    foreign = problem(value, schema)
    if foreign is not None:
        return foreign
    # Where keys are free, these are refused all the same.
    kept_home = next(_keys_never_exported(value), None)
    return None if kept_home is None else f"has the key {kept_home!r}, which is never exported"


def _keys_never_exported(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (key for key in value if key.lower() in NEVER)
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys_never_exported(part)


def tensor_problem(data: bytes, certified: Callable[[object], bool]) -> str | None:
    """What is wrong with a safetensors file: each tensor needs its certificate in the header."""
    try:
        (size,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + size])
    except (ValueError, struct.error, RecursionError):
        return "is not a safetensors file"
    certificates = header.pop("__metadata__", {}) if isinstance(header, dict) else None
    if not isinstance(certificates, dict):
        return "is not a safetensors file"
    bare = sorted(key for key in header if not certified(certificates.get(key)))
    if bare:
        return f"has the tensor {bare[0]!r} without a certificate that it is public"
    foreign = sorted(set(certificates) - set(header))
    return f"has the foreign header entry {foreign[0]!r}" if foreign else None


def png_problem(data: bytes) -> str | None:
    """What is wrong with a PNG file: foreign chunks, or bytes behind its end."""
    if not data.startswith(PNG_START):
        return "is not a PNG image"
    at = len(PNG_START)
    kind = b""
    while at + 12 <= len(data) and kind != b"IEND":
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        if kind not in PNG_CHUNKS:
            return f"has a chunk {kind!r} besides its pixels"
        at += 12 + size
    return None if at == len(data) and kind == b"IEND" else "is cut short or has bytes behind its end"


def parquet_problem(data: bytes) -> str | None:
    """What is wrong with a parquet file of images: foreign columns or notes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(pa.BufferReader(data))
    except (pa.ArrowException, OSError):
        return "is not a parquet file"
    if tuple(schema.names) != PARQUET_COLUMNS:
        return f"has the columns {', '.join(schema.names)} in place of {', '.join(PARQUET_COLUMNS)}"
    foreign = sorted(set(schema.metadata or {}) - {b"huggingface"})
    return f"has the foreign header entry {foreign[0].decode(errors='replace')!r}" if foreign else None


def text_problem(data: bytes) -> str | None:
    """What is wrong with a text file."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    return None
