"""One way to check inputs with the scikit-learn of today and with that of Ubuntu 24.04, 1.4."""

from typing import Any

try:
    from sklearn.utils.validation import validate_data
except ImportError:  # Before 1.6 this was a method that every estimator has.

    def validate_data(_estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """Check X, or X and y, as scikit-learn's function of this name does."""
        return _estimator._validate_data(*args, **kwargs)


__all__ = ['validate_data']
