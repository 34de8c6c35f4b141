"""Where rows may lie and be counted: in files by DuckDB, on a Spark cluster, in a Postgres database."""
