"""Checks of the project that are not part of the product: mutants, reliability figures, the dependency audit."""
