"""The SQLite record: one writer (the grader), many readers. SQL lives here and nowhere else."""
