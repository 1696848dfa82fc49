"""`python -m dpjax.cli` runs the command `dpjax`."""

import sys

from dpjax.cli import main

sys.exit(main())
