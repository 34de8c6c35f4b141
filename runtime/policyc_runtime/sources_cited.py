"""The sources that docstrings and certificates name, by key."""

from __future__ import annotations

from typing import Final

SOURCES: Final[dict[str, str]] = {
    "BS16": (
        "M. Bun, T. Steinke: Concentrated Differential Privacy: Simplifications, Extensions, and Lower Bounds. "
        "TCC 2016."
    ),
    "BW18": (
        "B. Balle, Y.-X. Wang: Improving the Gaussian Mechanism for Differential Privacy: Analytical Calibration and "
        "Optimal Denoising. ICML 2018."
    ),
    "CAO17": (
        "Y. Cao, M. Yoshikawa, Y. Xiao, L. Xiong: Quantifying Differential Privacy under Temporal Correlations. "
        "ICDE 2017."
    ),
    "CAO23": (
        "X. Cao, Y. Cao, P. Pappachan, A. Nakamura, M. Yoshikawa: Differentially Private Streaming Data Release under "
        "Temporal Correlations via Post-processing. DBSec 2023."
    ),
    "CP34": (
        "C. J. Clopper, E. S. Pearson: The Use of Confidence or Fiducial Limits Illustrated in the Case of the "
        "Binomial. Biometrika 26(4), 1934."
    ),
    "CKS20": "C. Canonne, G. Kamath, T. Steinke: The Discrete Gaussian for Differential Privacy. NeurIPS 2020.",
    "CSS11": (
        "T.-H. H. Chan, E. Shi, D. Song: Private and Continual Release of Statistics. ACM Transactions on Information "
        "and System Security 14(3), 2011."
    ),
    "DKMMN06": (
        "C. Dwork, K. Kenthapadi, F. McSherry, I. Mironov, M. Naor: Our Data, Ourselves: Privacy via Distributed Noise "
        "Generation. EUROCRYPT 2006."
    ),
    "DGKKM22": (
        "V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi: Connect the Dots: Tighter Discrete "
        "Approximations of Privacy Loss Distributions. PoPETs 2022."
    ),
    "DMRST22": (
        "S. Denisov, H. B. McMahan, K. Rush, A. Smith, A. Guha Thakurta: Improved Differential Privacy for SGD via "
        "Optimal Private Linear Operators on Adaptive Streams. NeurIPS 2022."
    ),
    "DOWELL71": (
        "M. Dowell, P. Jarratt: A Modified Regula Falsi Method for Computing the Root of an Equation. BIT 11, 1971."
    ),
    "EM73": "B. Efron, C. Morris: Stein's Estimation Rule and Its Competitors. J. American Statistical Assoc., 1973.",
    "FHU23": (
        "H. Fichtenberger, M. Henzinger, J. Upadhyay: Constant Matters: Fine-grained Error Bound on Differentially "
        "Private Continual Observation. ICML 2023."
    ),
    "DPREGISTRY": "OpenDP: Differential Privacy Deployments Registry, deployments-schema.yaml, July 2026.",
    "DSSE": "Secure Systems Lab: DSSE, Dead Simple Signing Envelope, version 1.0, 2021.",
    "DJ89": "P. de Jong: Smoothing and Interpolation with the State-Space Model. JASA 84, 1989.",
    "FISHER36": (
        "R. A. Fisher: The Use of Multiple Measurements in Taxonomic Problems. Annals of Eugenics 7(2), 1936."
    ),
    "FX14": (
        "L. Fan, L. Xiong: An Adaptive Approach to Real-Time Aggregate Monitoring with Differential Privacy. "
        "IEEE Transactions on Knowledge and Data Engineering 26(9), 2014."
    ),
    "KOV15": "P. Kairouz, S. Oh, P. Viswanath: The Composition Theorem for Differential Privacy. ICML 2015.",
    "HOE56": (
        "W. Hoeffding: On the Distribution of the Number of Successes in Independent Trials. "
        "Annals of Mathematical Statistics, 1956."
    ),
    "BD91": "P. J. Brockwell, R. A. Davis: Time Series: Theory and Methods, 2nd edition. Springer, 1991.",
    "HAR89": (
        "A. C. Harvey: Forecasting, Structural Time Series Models and the Kalman Filter. Cambridge University Press, "
        "1989."
    ),
    "WIL69": (
        "G. Wilson: Factorization of the Covariance Generating Function of a Pure Moving Average Process. "
        "SIAM J. Numerical Analysis 6, 1969."
    ),
    "HON15": "J. Honaker: Efficient Use of Differentially Private Binary Trees. TPDP 2015.",
    "DR14": (
        "C. Dwork, A. Roth: The Algorithmic Foundations of Differential Privacy. Foundations and Trends in Theoretical "
        "Computer Science, 2014."
    ),
    "HT10": "M. Hardt, K. Talwar: On the Geometry of Differential Privacy. STOC 2010.",
    "KAL60": "R. E. Kalman: A New Approach to Linear Filtering and Prediction Problems. J. of Basic Engineering, 1960.",
    "KELLARIS14": (
        "G. Kellaris, S. Papadopoulos, X. Xiao, D. Papadias: Differentially Private Event Sequences over Infinite "
        "Streams. PVLDB 7(12), 2014."
    ),
    "KL24": (
        "N. Kalinin, C. Lampert: Banded Square Root Matrix Factorization for Differentially Private Model Training. "
        "NeurIPS 2024."
    ),
    "KOGA22": ("T. Koga, C. Meehan, K. Chaudhuri: Privacy Amplification by Subsampling in Time Domain. AISTATS 2022."),
    "LEB24": "C. J. Lebeda: Better Gaussian Mechanism using Correlated Noise. arXiv 2408.06853, 2024.",
    "MEH92": "S. Mehrotra: On the Implementation of a Primal-Dual Interior Point Method. SIAM J. Optimization, 1992.",
    "MIN01": "T. P. Minka: Expectation Propagation for Approximate Bayesian Inference. UAI 2001.",
    "IJ94": (
        "R. W. Irving, M. R. Jerrum: Three-Dimensional Statistical Data Security Problems. SIAM Journal on Computing "
        "23(1), 1994."
    ),
    "HAY10": (
        "M. Hay, V. Rastogi, G. Miklau, D. Suciu: Boosting the Accuracy of Differentially Private Histograms Through "
        "Consistency. PVLDB 3(1), 2010."
    ),
    "MZ93": "S. Mallat, Z. Zhang: Matching Pursuits with Time-Frequency Dictionaries. IEEE Trans. Signal Proc., 1993.",
    "OWE13": "A. B. Owen: Monte Carlo Theory, Methods and Examples. 2013.",
    "RW06": "C. E. Rasmussen, C. K. I. Williams: Gaussian Processes for Machine Learning. MIT Press, 2006.",
    "RN10": (
        "V. Rastogi, S. Nath: Differentially Private Aggregation of Distributed Time-Series with Transformation and "
        "Encryption. SIGMOD 2010."
    ),
    "SCH78": "G. Schwarz: Estimating the Dimension of a Model. Annals of Statistics, 1978.",
    "SKD13": (
        "D. Sheldon, T. Sun, A. Kumar, T. G. Dietterich: Approximate Inference in Collective Graphical Models. "
        "ICML 2013."
    ),
    "SOL19": (
        "A. M. Sykulski, S. C. Olhede, A. P. Guillaumin, J. M. Lilly, J. J. Early: The Debiased Whittle Likelihood. "
        "Biometrika, 2019."
    ),
    "VIL39": "J. Ville: Étude critique de la notion de collectif. Gauthier-Villars, 1939.",
    "ZKL22": (
        "X. Zhang, M. M. Khalili, M. Liu: Differentially Private Real-Time Release of Sequential Data. "
        "ACM Transactions on Privacy and Security, 2022."
    ),
    "NP33": (
        "J. Neyman, E. S. Pearson: On the Problem of the Most Efficient Tests of Statistical Hypotheses. Philosophical "
        "Transactions of the Royal Society A 231, 1933."
    ),
    "RFC8032": "S. Josefsson, I. Liusvaara: Edwards-Curve Digital Signature Algorithm. RFC 8032, 2017.",
    "RFC8785": "A. Rundgren, B. Jordan, S. Erdtman: JSON Canonicalization Scheme. RFC 8785, 2020.",
}
