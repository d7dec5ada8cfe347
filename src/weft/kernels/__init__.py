"""Loops on arrays. No module here knows files, clocks or Spark."""
