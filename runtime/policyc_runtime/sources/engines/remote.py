"""Tables that another engine counts where they lie: named in `--input`, told in messages without any password."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal, TypeAlias

from policyc_runtime.errors import DataError

if TYPE_CHECKING:
    from policyc_runtime.sources.engines.session import Session
    from policyc_runtime.sources.input_table import InputTable

Engine: TypeAlias = Literal["duckdb", "spark", "postgres"]


class RemoteTable(ABC):
    """A table that was named, not yet looked at; as text it is what messages may say of it."""

    @abstractmethod
    def __str__(self) -> str:
        """Where it is, without a password."""

    @abstractmethod
    def open(self) -> AbstractContextManager[tuple[Session, InputTable]]:
        """Its columns, and what counts its rows, until it is left; refusals of the engine quote nothing meanwhile."""


def remote_table(engine: Engine, named: str) -> RemoteTable:
    """The table that `--input` names for an engine.

    Raises:
        DataError: E0869, nothing of that engine has such a name, or the engine is not installed.
    """
    if engine == "spark":
        from policyc_runtime.sources.engines.spark import SparkTable

        return SparkTable.named(named)
    from policyc_runtime.sources.engines.postgres import PostgresTable

    return PostgresTable.named(named)


def refused(problem: str, where: str, because: str, remedy: str) -> DataError:
    """The refusal of what a cluster or a database did not do."""
    return DataError("E0869", problem, where=where, because=because, help=remedy)
