"""What is wrong with a fleet, and the fix of each.

Everything that the checks need is read once, into one value; the checks themselves are functions
of that value and ask nothing.
"""
