"""Arrays as the bytes that PostgreSQL sends and receives.

The driver takes some 12 microseconds for each element of a list that it writes, and a search names
hundreds of memories: 2 ms for 160 of them, 0.1 this way.
"""

import struct
from collections.abc import Sequence
from typing import ClassVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg import AsyncConnection
from psycopg.adapt import Dumper
from psycopg.pq import Format

# Dimensions, whether there are nulls, the type of the elements; then length and first index.
_HEAD = struct.Struct(">iiI")
_DIMENSION = struct.Struct(">ii")
_HEAD_BYTES = _HEAD.size + _DIMENSION.size
# Each value stands behind its size. Ids as strings of 16 bytes: numpy sorts those fast.
_ID = np.dtype([("size", ">i4"), ("value", "S16")])
_INTEGER = np.dtype([("size", ">i4"), ("value", ">i4")])
_FLOAT = np.dtype([("size", ">i4"), ("value", ">f8")])

IdBytes = NDArray[np.bytes_]


def read_ids(sent: bytes) -> IdBytes:
    """What `array_send` made of ids; there is at least one."""
    return np.frombuffer(sent, _ID, offset=_HEAD_BYTES)["value"]


def read_integers(sent: bytes) -> NDArray[np.float64]:
    """What `array_send` made of integers; there is at least one."""
    return np.frombuffer(sent, _INTEGER, offset=_HEAD_BYTES)["value"].astype(np.float64)


def id_bytes(ids: Sequence[UUID]) -> IdBytes:
    """Ids as numpy has them."""
    return np.array([each.bytes for each in ids], dtype="S16")


def ids_of(names: IdBytes) -> list[UUID]:
    """Ids as everybody else has them."""
    joined = names.tobytes()
    return [UUID(bytes=joined[at : at + 16]) for at in range(0, len(joined), 16)]


class IdArray:
    """An array of ids to be sent."""

    def __init__(self, ids: Sequence[UUID] | IdBytes) -> None:
        self.values = ids if isinstance(ids, np.ndarray) else id_bytes(ids)


class FloatArray:
    """An array of floating-point numbers to be sent."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self.values = values


class _ArrayDumper(Dumper):
    format = Format.BINARY
    element: ClassVar[int]
    layout: ClassVar[np.dtype[np.void]]

    def dump(self, obj: IdArray | FloatArray) -> bytes:
        """The array's head and its values."""
        if not len(obj.values):
            return _HEAD.pack(0, 0, self.element)
        body = np.empty(len(obj.values), self.layout)
        body["size"] = self.layout["value"].itemsize
        body["value"] = obj.values
        head = _HEAD.pack(1, 0, self.element) + _DIMENSION.pack(len(obj.values), 1)
        return head + body.tobytes()


class _IdsDumper(_ArrayDumper):
    oid, element, layout = 2951, 2950, _ID


class _FloatsDumper(_ArrayDumper):
    oid, element, layout = 1022, 701, _FLOAT


def register(connection: AsyncConnection) -> None:
    """Let a connection send such arrays."""
    connection.adapters.register_dumper(IdArray, _IdsDumper)
    connection.adapters.register_dumper(FloatArray, _FloatsDumper)
