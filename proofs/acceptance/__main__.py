"""`python -m proofs.acceptance`."""

import sys

from proofs.acceptance.main import main

sys.exit(main())
