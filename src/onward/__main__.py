"""``python -m onward`` is the command ``onward``."""

import sys

from onward.cli import main

if __name__ == "__main__":
    sys.exit(main())
