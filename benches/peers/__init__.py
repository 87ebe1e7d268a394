"""Comparison of ovms with other servers of the same protocols: `make bench-peers`."""
