"""Read and write arrays in PostgreSQL's binary format.

The driver needs about 12 microseconds to write each element of a list, and a search passes hundreds
of ids: 160 ids take 2 ms with the driver and 0.1 ms with this module.
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

# Number of dimensions, null flag, element type; then the length and the first index.
_HEAD = struct.Struct(">iiI")
_DIMENSION = struct.Struct(">ii")
_HEAD_BYTES = _HEAD.size + _DIMENSION.size
# Each value follows its size. Ids are strings of 16 bytes, because numpy sorts those fast.
_ID = np.dtype([("size", ">i4"), ("value", "S16")])
_INTEGER = np.dtype([("size", ">i4"), ("value", ">i4")])
_FLOAT = np.dtype([("size", ">i4"), ("value", ">f8")])

IdBytes = NDArray[np.bytes_]


def read_ids(sent: bytes) -> IdBytes:
    """Parse the output of `array_send` for ids. It must hold at least one."""
    return np.frombuffer(sent, _ID, offset=_HEAD_BYTES)["value"]


def read_integers(sent: bytes) -> NDArray[np.float64]:
    """Parse the output of `array_send` for integers. It must hold at least one."""
    return np.frombuffer(sent, _INTEGER, offset=_HEAD_BYTES)["value"].astype(np.float64)


def id_bytes(ids: Sequence[UUID]) -> IdBytes:
    """Convert ids to a numpy array."""
    return np.array([each.bytes for each in ids], dtype="S16")


def ids_of(ids: IdBytes) -> list[UUID]:
    """Convert a numpy array of ids to UUIDs."""
    joined = ids.tobytes()
    return [UUID(bytes=joined[at : at + 16]) for at in range(0, len(joined), 16)]


class IdArray:
    """An array of ids as a query parameter."""

    def __init__(self, ids: Sequence[UUID] | IdBytes) -> None:
        self.values = ids if isinstance(ids, np.ndarray) else id_bytes(ids)


class FloatArray:
    """An array of floating-point numbers as a query parameter."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self.values = values


class _ArrayDumper(Dumper):
    format = Format.BINARY
    element: ClassVar[int]
    layout: ClassVar[np.dtype[np.void]]

    def dump(self, obj: IdArray | FloatArray) -> bytes:
        """The array's header and values."""
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
    """Register the dumpers of these arrays on a connection."""
    connection.adapters.register_dumper(IdArray, _IdsDumper)
    connection.adapters.register_dumper(FloatArray, _FloatsDumper)
