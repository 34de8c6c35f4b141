"""An entry of a ledger, and the chain of hashes that ties each to all before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from sys import intern
from typing import NamedTuple

from policyc_check.plan.plan import canonical_json

_QUOTED = encode_basestring  # a text, in canonical JSON
AHEAD = " ahead"  # of a release's name, where a step's noise is stored before its values can be published


class Entry(NamedTuple):
    """One step of one release. Values are JSON lists, budgets decimal text, so all read back exactly.

    `process` is what the estimator took users to move like, by the noisy values; empty where it does not ask them.
    `known` is how many steps had noisy values when this one was estimated: published values follow from these.
    """

    step: int
    release: str
    noisy: str
    published: str
    data: str
    epsilon: str
    scale: str
    process: str
    known: int


class StoredValues(NamedTuple):
    """What entries of one release say, step after step, in few objects: a long stream has many steps.

    `noisy` and `published` are JSON lists without their brackets, of a row a step; `processes` has a text a step.
    """

    noisy: str
    published: str
    processes: tuple[str, ...]

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> StoredValues:
        """What these say."""
        noisy, published = (",".join(texts) for texts in zip(*(entry[2:4] for entry in entries), strict=True))
        return cls(noisy, published, tuple(intern(entry.process) for entry in entries))

    @property
    def steps(self) -> int:
        """Of how many steps."""
        return len(self.processes)

    def after(self, steps: int) -> StoredValues:
        """What they say but for the first so many steps."""
        noisy, published = (
            ",".join(map(json.dumps, json.loads(f"[{texts}]")[steps:])) for texts in (self.noisy, self.published)
        )
        return StoredValues(noisy, published, self.processes[steps:])


def genesis(meta: Mapping[str, str]) -> str:
    """What the first entry is tied to: all that is told of a ledger before it."""
    return hashlib.sha256(canonical_json(dict(meta))).hexdigest()


def chained(previous: str, number: int, entry: Entry) -> str:
    """The SHA-256 of an entry and of the one before it, hexadecimal."""
    told = f"{previous}[{number},{entry.step},{','.join(map(_QUOTED, entry[1:-1]))},{entry.known}]"  # as canonical JSON
    return hashlib.sha256(told.encode()).hexdigest()
