"""A server that is running, as tests know it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PASSWORD = "s3cr3t-of-the-tests"


@dataclass(frozen=True)
class Server:
    """A running server of Postgres, whose role `reader` may read and make temporary tables."""

    folder: Path
    port: int
    prefix: tuple[str, ...]

    def url(self, table: str, *, password: str = PASSWORD, role: str = "tests", database: str = "postgres") -> str:
        return f"postgresql://{role}:{password}@127.0.0.1:{self.port}/{database}?table={table}"

    def connect(self):
        import psycopg

        address = f"postgresql://tests:{PASSWORD}@127.0.0.1:{self.port}/postgres"
        return psycopg.connect(address, autocommit=True)
