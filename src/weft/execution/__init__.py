"""What the tasks of a batch do: functions on Arrow data and files that run the same in Spark and in a test."""
