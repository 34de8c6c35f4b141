"""Which texts are moments: most are told without the pattern of those that are none, and none otherwise than by it."""

from __future__ import annotations

import random

from policyc_runtime.sources.tables import connect, quoted
from policyc_runtime.sources.written_moments import NO_MOMENT, moments_said

PARTS = ("2013-01-31", "1-1-1", "T", " ", "08:15:00", "1:1", ".5", "Z", "+", "-", "02", "24", "99:00", ":", "0260")
WORDS = ("epoch", " epoch", "infinity", "-infinity", "now", "\t2013-01-31", "", ":1:1+24", "2013-01-31T08:15:00+24:00")


def test_texts_are_moments_by_one_pattern_whatever_is_told_sooner() -> None:
    """20,000 texts put together from pieces of moments, some with an offset that no place has."""
    rng = random.Random(5)
    texts = [*WORDS, *("".join(rng.choices(PARTS, k=rng.randint(1, 6))) for _ in range(20_000))]
    pattern = (
        f"epoch_us(TRY_CAST(CASE WHEN NOT regexp_matches(said, {quoted(NO_MOMENT)}) THEN said END AS TIMESTAMPTZ))"
    )
    connection = connect()
    connection.execute("CREATE TABLE text AS SELECT unnest(?) AS said", [texts])
    found = connection.execute(
        f"SELECT said, {moments_said('said', 'VARCHAR')[0]}, {pattern}, epoch_us(TRY_CAST(said AS TIMESTAMPTZ)) "
        "FROM text"
    ).fetchall()
    assert [row for row in found if row[1] != row[2]] == []
    assert sum(row[1] is not None for row in found) > 100
    assert any(row[1] is None and row[3] is not None for row in found), "some are refused by the pattern alone"
