"""The base of everything that is written into a plan: frozen, exact, closed to unknown fields, bounded.

Whoever sends a plan may have written it by hand: every number and every text of a record is held against the bounds
here before anything is computed or printed. They leave room for all that a policy can say.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

LARGEST, SMALLEST = 30, -420  # powers of ten; a policy has numbers from 1e-400 to 1e15
MOST_DIGITS = 1200  # an exact decimal of a float has up to 767
LARGEST_WHOLE = 2**62
LARGEST_FLOAT = 1e100
LONGEST_TEXT = 2**20  # a policy has no more
LONGEST_NAME = 1000
LONGEST_STREAM = 10_000_000  # steps
LARGEST_COUNT = 10**12
MOST_COINS = 2**25  # of one draw of binomial noise: a standard deviation of 2,900, and 4 MB of random bits

# Control characters, and characters that change how the rest of a line is shown: an auditor must see what is there.
INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)


class Record(BaseModel):
    """A frozen record that refuses unknown fields. In JSON its decimals are strings, so they read back exactly."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="after")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        require_bounded(value)
        return value


def require_bounded(value: Any) -> None:
    """Nothing for a value that can be computed with and printed; ValueError says what is wrong with it."""
    if isinstance(value, tuple | list):
        for item in value:
            require_bounded(item)
    elif isinstance(value, dict):
        require_bounded([*value.keys(), *value.values()])
    elif isinstance(value, Decimal):
        if not value.is_finite() or (value and not SMALLEST <= value.adjusted() <= LARGEST):
            raise ValueError(f"a number must be 0, or from 1e{SMALLEST} to 1e{LARGEST} in size")
        _, digits, exponent = value.as_tuple()
        if max(len(digits), abs(int(exponent))) > MOST_DIGITS:
            raise ValueError(f"a number has at most {MOST_DIGITS:,} digits")
    elif isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            raise ValueError(f"a text has at most {LONGEST_TEXT:,} characters")
        if found := INVISIBLE.search(value):
            raise ValueError(f"a text has no control or invisible characters, such as U+{ord(found.group()):04X}")
    elif isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        raise ValueError("a whole number must fit 64 bits")
    elif isinstance(value, float) and abs(value) > LARGEST_FLOAT:
        raise ValueError(f"a number must be at most {LARGEST_FLOAT:g} in size")


def _require_json(value: Any) -> Any:
    """What JSON can say, as it stands; records are taken for what they are written as."""
    if not isinstance(value, dict | list | str | int | float | Record | tuple | None):
        raise ValueError("it is nothing that JSON can say")
    return value


Opaque = Annotated[Any, AfterValidator(_require_json)]
"""What is read as it stands: it is of no concern to privacy."""
UNSAID: Any = Field(default=None, exclude_if=lambda value: value is None)
NOTHING: Any = Field(default=(), exclude_if=lambda value: not value)
"""Of fields that plans leave out where there is nothing to say, as those of earlier versions do."""
PositiveDecimal = Annotated[Decimal, Field(gt=0, allow_inf_nan=False)]
NonNegativeDecimal = Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]
NonNegativeInteger = Annotated[int, Field(ge=0)]
Matrix = tuple[tuple[Decimal, ...], ...]
Name = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$", max_length=LONGEST_NAME)]
"""A name as policies have them, of a policy, stream, release or kind."""
Label = Annotated[str, Field(max_length=LONGEST_NAME)]
"""A column or cell, which is written in quotes in a policy."""
Steps = Annotated[int, Field(ge=1, le=LONGEST_STREAM)]
"""A number of steps."""
Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT)]
"""A number of users or events."""
