"""The benches: each module has a value `BENCH`, and its name with dashes for underscores is the name of the bench."""
