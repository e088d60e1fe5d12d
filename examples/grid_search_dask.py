"""Search the settings of a kernel dependency estimator over a Dask cluster.

The estimator follows scikit-learn's contract, so a grid search spreads over whatever joblib's back
end reaches: here two worker processes on this machine; give `Client` the address of a scheduler to
use a real cluster. Needs: pip install "dask[distributed]".
"""

from __future__ import annotations

import joblib
import numpy as np
from dask.distributed import Client, LocalCluster
from sklearn.model_selection import GridSearchCV

from kde_imitation.kernels.vectors import Gaussian
from kde_imitation.kinematics import pa10
from kde_imitation.learning import MRS, KernelDependencyEstimator


def problem(count: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return points of the arm, with noise, and the joint angles behind them."""
    rng = np.random.default_rng(seed)
    q = 0.4 * rng.uniform(pa10.LOWER, pa10.UPPER, (count, 7))
    points = pa10.link_positions(q)[:, [2, 4, 6]].reshape(count, 9)
    return points + rng.normal(0, 0.005, points.shape), q[:, :4]


def main() -> None:
    """Search 12 settings in 5 folds, and print the best three."""
    X, Y = problem()
    model = KernelDependencyEstimator(
        Gaussian(), regressor=MRS(rank=4), input_components=0.99, output_components=None
    )
    grid = {
        'input_kernel__gamma': [0.1, 0.3, 1.0],
        'input_components': [0.99, 0.999],
        'regressor__ridge': [0.0, 1e-3],
    }
    search = GridSearchCV(model, grid, cv=5, scoring='neg_mean_absolute_error')
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
        joblib.parallel_config('dask'),
    ):
        search.fit(X, Y)
    order = np.argsort(search.cv_results_['rank_test_score'])
    for i in order[:3]:
        error = -search.cv_results_['mean_test_score'][i]
        print(f'{error:.4f} rad  {search.cv_results_["params"][i]}')


if __name__ == '__main__':
    main()
