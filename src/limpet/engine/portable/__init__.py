"""One state as a file that can be carried anywhere, or as a folder of readable JSON."""
