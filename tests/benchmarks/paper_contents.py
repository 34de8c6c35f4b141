"""Every figure and table of the four papers: the benchmark that draws it, or why none does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A figure or table of a paper, or several in a row.

    Args:
        paper: its key.
        name: such as "figure 3".
        shows: what is in it.
        test: the test that draws it; empty where none does.
        parts: the sections of the page that it is in.
        reason: why it is not drawn.
    """

    paper: str
    name: str
    shows: str
    test: str = ""
    parts: Sequence[str] = ()
    reason: str = ""


def _sides(number: int) -> list[str]:
    return [f"zkl22_figure{number}_{side}" for side in ("left", "right")]


SKETCH = "a sketch: nothing in it was measured"

CONTENTS = (
    Entry("CAO17", "figure 1", "how data are released over time", reason=SKETCH),
    Entry("CAO17", "figure 2", "an example of two transition matrices", reason="an example that nothing follows from"),
    Entry("CAO17", "figure 3", "leakage over time", "test_leakage_over_time", ["cao17_figure3"]),
    Entry("CAO17", "figure 4", "suprema of leakage", "test_suprema", ["cao17_figure4"]),
    Entry("CAO17", "figure 5", "seconds for one value", "test_runtime", ["cao17_figure5"]),
    Entry("CAO17", "figure 6", "growth of leakage", "test_growth", ["cao17_figure6"]),
    Entry("CAO17", "figure 7", "budgets of the algorithms", "test_allocations", ["cao17_figure7"]),
    Entry("CAO17", "figure 8", "noise of the algorithms", "test_noise", ["cao17_figure8"]),
    Entry("CAO23", "figures 1 and 2", "the setting, and the idea", reason=SKETCH),
    Entry("CAO23", "tables 1 and 2", "notation, and an example of a matrix", reason="nothing in them was measured"),
    Entry("CAO23", "figure 3a", "errors for one user", "test_one_user", ["cao23_figure3a"]),
    Entry("CAO23", "figure 3b", "possibility of steps", "test_possibility", ["cao23_possibility"]),
    Entry("CAO23", "figure 4a", "errors over epsilon", "test_epsilon_a_step", ["cao23_epsilon"]),
    Entry("CAO23", "figure 4b", "errors over alpha", "test_alpha", ["cao23_alpha"]),
    Entry("CAO23", "figure 5", "errors over the horizon", "test_alpha or epsilon_a", ["cao23_alpha", "cao23_epsilon"]),
    Entry("CAO23", "figure 6", "errors over smoothing", "test_alpha or epsilon_a", ["cao23_alpha", "cao23_epsilon"]),
    Entry("KOGA22", "figure 1", "an output of each method", "test_outputs", ["koga22_figure1"]),
    Entry("KOGA22", "appendix 2", "the same without noise", "test_outputs", ["koga22_figure1_clean"]),
    Entry("KOGA22", "figure 2", "errors by density", "test_denser_moments", ["koga22_figure2a", "koga22_figure2b"]),
    Entry(
        "KOGA22",
        "table 1",
        "how often one person was at a place",
        reason="it counts Gowalla's and Foursquare's check-ins, which are not free to pass on",
    ),
    Entry("KOGA22", "table 2", "errors on real series", "test_table_2_real_series", ["koga22_table2"]),
    Entry("ZKL22", "figures 1 to 3", "how the method works", reason=SKETCH),
    Entry("ZKL22", "figure 4", "errors over the promise", "test_methods and 4", _sides(4)),
    Entry("ZKL22", "figure 5", "DFT by delay", "test_figure_5_online_dft", ["zkl22_figure5"]),
    Entry("ZKL22", "figure 6", "sequences", "test_figure_6_sequences", ["zkl22_figure6a", "zkl22_figure6b"]),
    Entry("ZKL22", "figure 7", "beside BD and BA", "test_methods and 7", ["zkl22_figure7"]),
    Entry("ZKL22", "figure 8", "beside a binary tree", "test_methods and 8", ["zkl22_figure8"]),
    Entry("ZKL22", "figure 9", "weight and correlation", "test_figure_9_correlation", ["zkl22_figure9"]),
    Entry("ZKL22", "figure 10", "parameters that are learned", "test_figure_10_learned_parameters", ["zkl22_figure10"]),
    Entry("ZKL22", "figure 11", "weights that fall", "test_figure_11_falling_weights", ["zkl22_figure11"]),
    Entry("ZKL22", "figure 12", "sequences that drift", "test_figure_12_drifting_sequences", ["zkl22_figure12"]),
    Entry("ZKL22", "figure 13", "drift", "test_figure_13_drift", ["zkl22_figure13"]),
    Entry(
        "ZKL22", "figure 14", "drive cycles", "test_figure_14_drive_cycle", ["zkl22_figure14_0.1", "zkl22_figure14_1"]
    ),
    Entry("ZKL22", "figure 15", "errors over the promise, bicycles", "test_methods and 15", _sides(15)),
    *(
        Entry(
            "ZKL22", f"figure {number}", "sequences of bicycles", f"test_figures_16_to_19 and {number}", _sides(number)
        )
        for number in (16, 17, 18, 19)
    ),
)
