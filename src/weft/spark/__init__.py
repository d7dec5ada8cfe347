"""Adapter to Spark: sessions, batch jobs, streaming DataFrames and SELECT lists. Only this package imports PySpark."""
