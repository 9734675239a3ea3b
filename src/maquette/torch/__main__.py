"""``python -m maquette.torch SCRIPT.py ARGS``: see `running.py`."""

import sys

from maquette.torch.running import main

main(sys.argv[1:])
