"""The benchmark driver: rows and requests by the clock, figures at the queue and at the sink; knows no system."""
