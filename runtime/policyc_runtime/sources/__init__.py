"""Where data comes from: event files and ready counts, each turned into counts per step or refused with its place."""

from policyc_runtime.sources.counts import counts_of_array, read_counts
from policyc_runtime.sources.events import read_events
from policyc_runtime.sources.step_counts import StepCounts

__all__ = ["StepCounts", "counts_of_array", "read_counts", "read_events"]
