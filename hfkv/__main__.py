"""`python -m hfkv` is `hfkv`."""

import sys

from hfkv.cli import main

sys.exit(main())
