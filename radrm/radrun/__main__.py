"""`python -m radrm.radrun`."""

import sys

from radrm.radrun.main import main

sys.exit(main())
