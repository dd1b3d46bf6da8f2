"""The grader service: agents hand checkpoints in, it admits, scores, and records them."""
