"""The base of everything that is written into a plan: frozen, exact, closed to unknown fields."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """A frozen record that refuses unknown fields. In JSON its decimals are strings, so they read back exactly."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_bytes="base64")


PositiveDecimal = Annotated[Decimal, Field(gt=0, allow_inf_nan=False)]
NonNegativeDecimal = Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]
Matrix = tuple[tuple[Decimal, ...], ...]
