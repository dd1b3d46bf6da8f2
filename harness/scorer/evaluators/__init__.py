"""Evaluators, one module for each eval_mode that this version has."""
