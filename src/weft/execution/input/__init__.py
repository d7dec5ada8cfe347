"""Reading of source files: listing, decoding to Arrow, checking against the schema, and quarantine."""
