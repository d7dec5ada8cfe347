"""The work of a batch's tasks: functions on Arrow data and files that run the same in Spark and in a test process."""
