"""How sure a score is. SciPy is imported where a figure is computed, never with the module: it takes a second."""
