"""Where states live: one contract, one module or folder for each implementation."""
