"""The systems under test, each a program of its own that speaks `driver.messages` on its standard streams."""
