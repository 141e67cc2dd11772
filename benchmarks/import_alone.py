"""Times one import, and imports as little as possible before it."""

import sys
from time import perf_counter

_began = perf_counter()
__import__(sys.argv[1])
_seconds = perf_counter() - _began
print(f'{{"seconds": {_seconds}}}')
