"""What is run: streams with their rows, and queries in the words of each system."""
