"""Runs a bench, judges it, keeps its results and draws them."""
