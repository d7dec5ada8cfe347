"""The systems under test, each a program of its own that speaks `drive.messages` on its standard streams."""
