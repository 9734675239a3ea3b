"""``python -m maquette``: the command ``maquette``, see `maquette.cli`."""

import sys

from maquette.cli.main import main

sys.exit(main())
