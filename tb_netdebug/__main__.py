"""`python -m tb_netdebug` is the `netdebug` command."""

import sys

from tb_netdebug.cli import main

if __name__ == "__main__":
    sys.exit(main())
