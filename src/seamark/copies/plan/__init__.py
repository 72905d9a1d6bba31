"""The plan of a copy: endpoints, slices, partitioner, and its registration."""
