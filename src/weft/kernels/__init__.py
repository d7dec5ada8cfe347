"""Computations on numpy and Arrow arrays. No module here uses files, clocks or Spark."""
