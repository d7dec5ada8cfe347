"""Source files are listed, decoded into Arrow pieces, checked against the schema, and set aside if they are bad."""
