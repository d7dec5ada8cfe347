"""What users see of the engine: explain, the plan as a graph, what-if and usage."""
