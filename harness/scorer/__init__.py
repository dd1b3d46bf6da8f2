"""The scorer service: a benchmark's own evaluator, in a fresh process per evaluation."""
