"""Recorded outputs of plans and changes: named scenarios on the fakes of the unit tier.

`python -m tests.unit.scenarios record` records them, `test_scenarios.py` compares with what is recorded.
"""
