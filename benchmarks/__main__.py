"""`python -m benchmarks` is `python benchmarks/bench.py`."""

import sys

from benchmarks.bench import main

sys.exit(main())
