"""Where Spark is: sources, the tag and probe stages, sinks, the batch loop. pyspark is imported nowhere else."""
