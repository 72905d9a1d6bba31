"""Every speed claim of seamark, measured the same way. `python -m bench list` shows them.

`bench.cases` has a module for each bench, `bench.fixtures` what they measure with, `bench.harness` what runs, judges,
records and draws them, and `bench/results` what was recorded.
"""
