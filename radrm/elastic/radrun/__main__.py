"""`python -m radrm.elastic.radrun`."""

import sys

from radrm.elastic.radrun.main import main

sys.exit(main())
