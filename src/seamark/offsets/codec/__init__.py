"""The bytes that Connect's offset storage reads and writes."""
