"""Learning between kernel feature spaces, as scikit-learn estimators.

The mathematics is that of Bakır, Extensions to Kernel Dependency Estimation (2006), chapters 1
to 4: kernel PCA turns inputs and outputs into coordinates, a rank-constrained regression joins
the coordinates, and a pre-image turns a predicted point of feature space into an output again.
"""

from kde_imitation.learning.kde import CombinationPreImage, KernelDependencyEstimator
from kde_imitation.learning.kernel_pca import KernelPCA
from kde_imitation.learning.landmarks import choose_landmarks
from kde_imitation.learning.mrs import MRS
from kde_imitation.learning.mrs_bayesian import BayesianMRS
from kde_imitation.learning.path_correction import CorrectedPath, correct_path
from kde_imitation.learning.peers import (
    PLS,
    PrincipalComponentRegression,
    ReducedRankRegression,
    RidgeRegression,
)
from kde_imitation.learning.preimage import NearestPreImage, PreImage, PreImages
from kde_imitation.learning.preimage_constrained import ConstrainedPreImage
from kde_imitation.learning.preimage_distance import DistancePreImage
from kde_imitation.learning.preimage_iterative import FixedPointPreImage, GradientPreImage
from kde_imitation.learning.preimage_learned import LearnedPreImage
from kde_imitation.learning.reduced_set import ReductionPath, reduce, refit

__all__ = [
    'MRS',
    'PLS',
    'BayesianMRS',
    'CombinationPreImage',
    'ConstrainedPreImage',
    'CorrectedPath',
    'DistancePreImage',
    'FixedPointPreImage',
    'GradientPreImage',
    'KernelDependencyEstimator',
    'KernelPCA',
    'LearnedPreImage',
    'NearestPreImage',
    'PreImage',
    'PreImages',
    'PrincipalComponentRegression',
    'ReducedRankRegression',
    'ReductionPath',
    'RidgeRegression',
    'choose_landmarks',
    'correct_path',
    'reduce',
    'refit',
]
