"""Where offsets are stored: offsets topics, files of standalone workers, consumer groups, ledgers."""
