"""All overloads that PyTorch's recordings call, held to opcheck's properties.

python tools/verify/operators.py [options of tools/check_operators.py]
"""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import check_operators

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(check_operators.main(["--inputs=60", "--deadline=2", *sys.argv[1:]]))
