"""`python -m tests.gpu.acceptance`."""

import sys

from tests.gpu.acceptance.main import main

sys.exit(main())
