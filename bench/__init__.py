"""Every speed claim of seamark, measured the same way. `python -m bench list` shows them.

A module in this folder is one bench: it holds a value `BENCH`, and its name with dashes for underscores
is the bench's name. What runs, judges, records and draws benches is in `bench.harness`.
"""
