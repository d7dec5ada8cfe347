"""Views of the engine for users: explain, the plan as a graph, what-if and usage."""
