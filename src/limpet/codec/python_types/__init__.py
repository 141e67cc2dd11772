"""Python's own types that msgpack does not have."""
