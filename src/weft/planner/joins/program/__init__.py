"""The choice of probe orders as an integer program."""
