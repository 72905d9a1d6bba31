"""Offset stores: offsets topics, files of standalone workers, consumer groups, ledgers."""
