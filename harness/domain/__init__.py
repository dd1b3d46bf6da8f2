"""What the harness talks about: pure values, standard library and pydantic only."""
