"""Recorded outputs of the command line on the fakes of the unit tier."""
