"""Files of the state directory: buckets, changelogs, manifests, commit, garbage collection."""
