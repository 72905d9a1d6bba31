"""Find what is wrong with a fleet, with a fix for each finding.

Everything that the checks need is read once, into one value; the checks themselves are functions of that value and do
no I/O.
"""
