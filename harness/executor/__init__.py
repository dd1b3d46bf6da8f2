"""The executor service: runs a model's programs where there is nothing to steal; only literals come out."""
