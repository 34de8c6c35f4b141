"""The sources that docstrings and certificates name, by key."""

from __future__ import annotations

from typing import Final

SOURCES: Final[dict[str, str]] = {
    "BW18": "B. Balle, Y.-X. Wang: Improving the Gaussian mechanism for differential privacy: analytical calibration and "
    "optimal denoising. ICML 2018.",
    "CAO17": "Y. Cao, M. Yoshikawa, Y. Xiao, L. Xiong: Quantifying differential privacy under temporal correlations. ICDE 2017.",
    "CAO23": "Y. Cao, S. Cao, P. Pappachan, A. Nakamura, M. Yoshikawa: maximum a posteriori post-processing of differentially "
    "private streams under temporal correlations. DBSec 2023.",
    "CKS20": "C. Canonne, G. Kamath, T. Steinke: The discrete Gaussian for differential privacy. NeurIPS 2020.",
    "KOGA22": "T. Koga, C. Meehan, K. Chaudhuri: Privacy amplification by subsampling in time domain. AISTATS 2022.",
    "ZKL22": "X. Zhang, M. M. Khalili, M. Liu: Differentially private real-time release of sequential data. ACM TOPS 2022.",
}
