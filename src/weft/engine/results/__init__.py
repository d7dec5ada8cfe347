"""Result files: which batches are kept, who reads them, and one query's rows."""
