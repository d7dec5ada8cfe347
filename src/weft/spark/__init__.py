"""The adapter to Spark: sessions, batch jobs, streaming DataFrames, SELECT lists. PySpark is imported only here."""
