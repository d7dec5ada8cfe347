"""Files of the state directory: buckets, slices, results, the journal and its checkpoints."""
