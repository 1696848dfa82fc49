"""`python -m dpjax.cli` is the command `dpjax`."""

import sys

from dpjax.cli import main

sys.exit(main())
