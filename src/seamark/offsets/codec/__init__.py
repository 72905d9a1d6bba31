"""Encode and decode the bytes in Connect's offset storage."""
