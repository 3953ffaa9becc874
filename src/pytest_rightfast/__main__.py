"""`python -m pytest_rightfast`: the command `rightfast`, of this very interpreter."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
