"""PURE decisions over records: no clock, no I/O, no randomness, no asyncio."""
