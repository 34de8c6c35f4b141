"""Lets these tests import `scripted`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
