"""The few words that engines say in different ways; all other SQL of bounding and counting is one text for all.

A hash of a text is DuckDB's `md5_number_lower` and `md5_number_upper`: bytes 9 to 16 and 1 to 8, the last one first.
"""

# ruff: noqa: S608, ARG002  SQL is put together from quoted names and whole numbers only

from __future__ import annotations

from typing import Protocol

LOW_BYTES, HIGH_BYTES = range(31, 15, -2), range(15, 0, -2)  # where each byte's two digits begin, the last byte first
DAY = 86_400_000_000  # microseconds
FIRST, LAST = "date '0001-01-01'", "date '9999-12-31'"
BEFORE_ALL = -(2**62)


class Dialect(Protocol):
    """How one engine says it. Arguments and results are SQL.

    Args:
        double: that of floating point numbers of 64 bits.
        whole: that of whole numbers beyond 64 bits.
        row: the place of a row in the input, where it has one; else 0.
        person: what tells persons apart, told by `low` and `high` of their names.
    """

    double: str
    whole: str
    row: str
    person: str

    def name(self, name: str) -> str:
        """A column or table of this name."""

    def text(self, value: str) -> str:
        """A value as text, which is compared byte by byte."""

    def user(self, value: str) -> str:
        """A column of names, as users are told apart by it."""

    def literal(self, text: str) -> str:
        """This text."""

    def low(self, text: str) -> str:
        """The lower half of the hash of a text, 0 to 2^64 - 1."""

    def high(self, text: str) -> str:
        """The upper half."""

    def quotient(self, number: str, divisor: int) -> str:
        """How often a divisor goes into a whole number, rounded towards 0."""

    def month(self, moment: str) -> str:
        """How many months since 1970 a moment lies (microseconds since then)."""

    def moment(self, column: str, kind: str) -> str:
        """The microseconds since 1970 of a column of dates or timestamps, null where there is none.

        Args:
            column: SQL for it.
            kind: its type, as DuckDB calls it.
        """

    def number(self, column: str, kind: str) -> str:
        """A column of numbers as floating point numbers, each the nearest one; null where there is none."""

    def trimmed(self, text: str, characters: str) -> str:
        """A text without any of these characters at its ends."""

    def replaced(self, text: str, pattern: str, parts: int) -> str:
        """A text that a pattern matches as a whole, as its first so many groups; any other as it is."""


class DuckDB:
    """DuckDB's words."""

    double, whole, row, person = "DOUBLE", "HUGEINT", "rowid", "row_number() OVER ()"

    def name(self, name: str) -> str:
        """In double quotes."""
        return '"' + name.replace('"', '""') + '"'

    def text(self, value: str) -> str:
        """A cast."""
        return f"{value}::VARCHAR"

    def user(self, value: str) -> str:
        """As it is: numbers are told apart sooner than texts."""
        return value

    def literal(self, text: str) -> str:
        """In single quotes."""
        return "'" + text.replace("'", "''") + "'"

    def low(self, text: str) -> str:
        """A function of its own."""
        return f"md5_number_lower({text})"

    def high(self, text: str) -> str:
        """A function of its own."""
        return f"md5_number_upper({text})"

    def quotient(self, number: str, divisor: int) -> str:
        """An operator."""
        return f"({number} // {divisor})"

    def month(self, moment: str) -> str:
        """By its calendar."""
        date = f"make_timestamp({moment})"
        return f"((year({date}) - 1970) * 12 + month({date}) - 1)"

    def moment(self, column: str, kind: str) -> str:
        """Microseconds without a zone are those of UTC, and casting them is dear; a cast of nanoseconds rounds up."""
        if kind.endswith("_NS"):
            return f"(epoch_ns({column}) // 1000 - (epoch_ns({column}) % 1000 < 0)::BIGINT)"
        return f"epoch_us({column if kind == 'TIMESTAMP' else f'TRY_CAST({column} AS TIMESTAMPTZ)'})"

    def number(self, column: str, kind: str) -> str:
        """Decimals by their text, as a quotient of two rounded numbers is not always the nearest.

        What is not finite is null here: a Parquet file's least and largest value leave NaN out, and DuckDB takes what
        they decide, as `abs(value) <= 1`, as decided for NaN as well.
        """
        text = f"TRY_CAST({column} AS VARCHAR)" if kind.startswith("DECIMAL") else column
        number = f"TRY_CAST({text} AS DOUBLE)"
        return f"CASE WHEN coalesce(isfinite({number}), false) THEN {number} END"

    def trimmed(self, text: str, characters: str) -> str:
        """A pattern, as `trim` makes a set of the characters anew for every text; none of them means more in one."""
        return f"regexp_replace({text}, {self.literal(f'^[{characters}]+|[{characters}]+$')}, '', 'g')"

    def replaced(self, text: str, pattern: str, parts: int) -> str:
        """RE2's groups."""
        groups = "".join(f"\\{part}" for part in range(1, parts + 1))
        return f"regexp_replace({text}, {self.literal(pattern)}, {self.literal(groups)})"


class Spark:
    """Spark's words; a person is told by the whole hash, since numbers of rows differ when a part is computed again."""

    double, whole, row, person = "DOUBLE", "DECIMAL(38, 0)", "0", "concat(low, ':', high)"

    def name(self, name: str) -> str:
        """In backticks."""
        return "`" + name.replace("`", "``") + "`"

    def text(self, value: str) -> str:
        """A cast."""
        return f"CAST({value} AS STRING)"

    def user(self, value: str) -> str:
        """As text."""
        return self.text(value)

    def literal(self, text: str) -> str:
        """In single quotes, in which a backslash escapes."""
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def _half(self, text: str, places: range) -> str:
        digits = ", ".join(f"substring(md5({text}), {place}, 2)" for place in places)
        return f"CAST(conv(concat({digits}), 16, 10) AS DECIMAL(20, 0))"

    def low(self, text: str) -> str:
        """Digits of the text of the hash, turned round."""
        return self._half(text, LOW_BYTES)

    def high(self, text: str) -> str:
        """Digits of the text of the hash, turned round."""
        return self._half(text, HIGH_BYTES)

    def quotient(self, number: str, divisor: int) -> str:
        """An operator."""
        return f"({number} div {divisor})"

    def month(self, moment: str) -> str:
        """By its calendar."""
        date = f"timestamp_micros({moment})"
        return f"((year({date}) - 1970) * 12 + month({date}) - 1)"

    def moment(self, column: str, kind: str) -> str:
        """Of UTC, as the session is; dates that no moment has are before all others."""
        far = f"NOT {column} BETWEEN {FIRST} AND {LAST}"
        return f"CASE WHEN {far} THEN {BEFORE_ALL} ELSE unix_micros(CAST({column} AS TIMESTAMP)) END"

    def number(self, column: str, kind: str) -> str:
        """A cast."""
        return f"CAST({column} AS DOUBLE)"

    def trimmed(self, text: str, characters: str) -> str:
        """As the standard has it."""
        return f"trim(BOTH {self.literal(characters)} FROM {text})"

    def replaced(self, text: str, pattern: str, parts: int) -> str:
        """Java's groups; its `$` would match before a line's end."""
        groups = "".join(f"${part}" for part in range(1, parts + 1))
        return f"regexp_replace({text}, {self.literal(pattern.removesuffix('$') + chr(92) + 'z')}, '{groups}')"


class Postgres:
    """Those of Postgres: hashes are of UTF-8, whatever the database is kept in, and texts are compared by bytes."""

    double, whole, row = "DOUBLE PRECISION", "NUMERIC", "0"
    person = "row_number() OVER ()"

    def name(self, name: str) -> str:
        """In double quotes."""
        return '"' + name.replace('"', '""') + '"'

    def text(self, value: str) -> str:
        """A cast."""
        return f'(({value})::text COLLATE "C")'

    def user(self, value: str) -> str:
        """As text."""
        return self.text(value)

    def literal(self, text: str) -> str:
        """In single quotes, in which a backslash is a backslash."""
        return "'" + text.replace("'", "''") + "'"

    def _half(self, text: str, places: range) -> str:
        digits = " || ".join(f"substr(hash, {place}, 2)" for place in places)
        number = f"('x' || {digits})::bit(64)::bigint::numeric"
        return (  # OFFSET 0: the hash is computed once
            f"(SELECT CASE WHEN number < 0 THEN number + {2**64} ELSE number END FROM (SELECT {number} AS number "
            f"FROM (SELECT md5(convert_to({text}, 'UTF8')) AS hash OFFSET 0) AS hashed OFFSET 0) AS numbered)"
        )

    def low(self, text: str) -> str:
        """Digits of the text of the hash, turned round."""
        return self._half(text, LOW_BYTES)

    def high(self, text: str) -> str:
        """Digits of the text of the hash, turned round."""
        return self._half(text, HIGH_BYTES)

    def quotient(self, number: str, divisor: int) -> str:
        """Of whole numbers it is one."""
        return f"({number} / {divisor})"

    def month(self, moment: str) -> str:
        """By its calendar, from whole days: moments as floating point numbers would be rounded."""
        date = f"(date '1970-01-01' + floor(({moment})::numeric / {DAY})::integer)"
        return f"((extract(year FROM {date})::integer - 1970) * 12 + extract(month FROM {date})::integer - 1)"

    def moment(self, column: str, kind: str) -> str:
        """Exact decimals; dates that no moment has are before all others, and infinity is none."""
        far = f"NOT {column} BETWEEN {FIRST} AND {LAST}"
        read = f"(extract(epoch FROM {column}) * 1000000)::bigint"
        return f"CASE WHEN NOT isfinite({column}) THEN NULL WHEN {far} THEN {BEFORE_ALL} ELSE {read} END"

    def number(self, column: str, kind: str) -> str:
        """A cast; numbers so small that what is made of them would be told as out of range are 0."""
        number = f"({column})::double precision"
        whole = not kind.startswith(("DECIMAL", "FLOAT", "DOUBLE"))
        return number if whole else f"CASE WHEN {column} BETWEEN -1e-290 AND 1e-290 THEN 0 ELSE {number} END"

    def trimmed(self, text: str, characters: str) -> str:
        """As the standard has it."""
        return f"trim(BOTH {self.literal(characters)} FROM {text})"

    def replaced(self, text: str, pattern: str, parts: int) -> str:
        """Its own groups."""
        groups = "".join(f"\\{part}" for part in range(1, parts + 1))
        return f"regexp_replace({text}, {self.literal(pattern)}, {self.literal(groups)})"


DUCKDB = DuckDB()
