"""Planning as pure functions: live queries and statistics in, the shared plan out."""
