"""Values and records to bytes and back: types kept, no pickle, a version and a checksum on every record."""
