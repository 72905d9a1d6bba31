"""Environments of the transcripts that `python -m tools.transcripts` records."""
