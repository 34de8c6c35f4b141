"""Keeps what templates are compiled to, as Python keeps what modules are: compiling takes longer than filling them."""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

from jinja2 import BytecodeCache, __version__
from jinja2.bccache import Bucket


class CompiledTemplates(BytecodeCache):
    """Compiled templates, where Python keeps a compiled module; nothing is kept where it keeps nothing.

    A kept one is used for the same text, the same Python and jinja2, and the same module that says the options only.

    Args:
        module: the file of the module that says how its templates are compiled.
    """

    def __init__(self, module: str) -> None:
        self._place = Path(cache_from_source(module))
        self._options = hashlib.sha256(f"{sys.version} {__version__}".encode() + Path(module).read_bytes()).digest()

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take what was kept, if it is of this text; whatever cannot be read is compiled again."""
        with suppress(OSError, EOFError, ValueError, TypeError):
            kept, mark = self._file(bucket).read_bytes(), self._mark(bucket)
            if kept.startswith(mark):
                bucket.code = marshal.loads(kept[len(mark) :])  # noqa: S302  as safe as compiled modules beside it

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled, whole or not at all."""
        if sys.dont_write_bytecode or bucket.code is None:
            return
        file = self._file(bucket)
        written = file.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            written.write_bytes(self._mark(bucket) + marshal.dumps(bucket.code))
            written.replace(file)

    def _file(self, bucket: Bucket) -> Path:
        return self._place.with_name(f"{bucket.key}.{self._place.name}")

    def _mark(self, bucket: Bucket) -> bytes:
        return hashlib.sha256(self._options + bucket.checksum.encode()).digest()
