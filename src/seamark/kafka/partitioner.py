"""Which partition Java's default partitioner chooses for a key: `model/key_hash.py`, for whoever works with brokers."""

from seamark.model.key_hash import choose_partition, hash_murmur2

__all__ = ["choose_partition", "hash_murmur2"]
