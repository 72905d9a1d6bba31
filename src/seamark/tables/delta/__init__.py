"""Tables of Delta in a folder or on S3: data files, commits that move offsets with them, and where they are kept."""
