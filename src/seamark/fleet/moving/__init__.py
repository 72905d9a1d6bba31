"""Changing positions: each verb gives a plan, with what stands around every write."""
