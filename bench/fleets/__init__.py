"""Fleets to measure with, and the programs that run beside a bench. No bench itself."""
