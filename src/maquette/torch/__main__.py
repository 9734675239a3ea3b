"""``python -m maquette.torch SCRIPT.py ARGS``: see `running.py`."""

import sys

from maquette.torch.face.running import main

main(sys.argv[1:])
