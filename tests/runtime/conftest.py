"""Lets the kernel's tests import `plans`, the builder of plans by hand."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
