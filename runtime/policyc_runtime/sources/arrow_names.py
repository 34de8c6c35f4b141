"""The names of columns as they are handed over by the Arrow C stream interface; duckdb renames what comes twice.

https://arrow.apache.org/docs/format/CStreamInterface.html and CDataInterface.html have the two structures.
"""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_int64, c_void_p, cast, py_object


class _Schema(Structure):
    """`ArrowSchema`."""


_Schema._fields_ = [
    ("format", c_char_p),
    ("name", c_char_p),
    ("metadata", c_void_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(_Schema))),
    ("dictionary", c_void_p),
    ("release", c_void_p),
    ("private_data", c_void_p),
]
_RELEASE = CFUNCTYPE(None, POINTER(_Schema))


class _Stream(Structure):
    """`ArrowArrayStream`; `get_schema` may be called any number of times."""

    _fields_ = (
        ("get_schema", CFUNCTYPE(c_int, c_void_p, POINTER(_Schema))),
        ("get_next", c_void_p),
        ("get_last_error", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    )


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = c_void_p, [py_object, c_char_p]


def column_names(capsule: object) -> list[str]:
    """The names of all columns, in order; nothing of the stream is used up.

    Args:
        capsule: what `__arrow_c_stream__` returned.

    Raises:
        ValueError: it is no such capsule, or its stream has no schema.
    """
    place = _pointer_of(capsule, b"arrow_array_stream")
    schema = _Schema()
    if cast(place, POINTER(_Stream)).contents.get_schema(place, byref(schema)):
        raise ValueError("the stream has no schema")
    try:
        return [(schema.children[i].contents.name or b"").decode() for i in range(schema.n_children)]
    finally:
        if schema.release:
            _RELEASE(schema.release)(byref(schema))
