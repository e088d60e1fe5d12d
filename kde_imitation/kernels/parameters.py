"""Objects that scikit-learn can clone, search and pipe, made without it.

Kernels and features are all that a prediction needs of the learning side, and the import of
scikit-learn would take longer than everything else that a process does before its first picture.
What scikit-learn asks of an object is little, and it asks by name, not by class.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

from kde_imitation.errors import BadInput

__all__ = ['Parametric', 'check_fitted']


class Parametric:
    """What stores the arguments of its constructor unchanged, under their own names."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with deep also those of parameters, as in `kernel__gamma`."""
        found = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        if deep:
            for name, value in list(found.items()):
                if hasattr(value, 'get_params') and not isinstance(value, type):
                    inner = value.get_params()
                    found |= {f'{name}__{rest}': each for rest, each in inner.items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by the names that `get_params` gives."""
        known = self.get_params(deep=False)
        inner: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            outer, _, rest = name.partition('__')
            if outer not in known or (rest and not hasattr(known[outer], 'set_params')):
                has = f'it has {", ".join(known)}' if known else 'it has none'
                raise BadInput(f'{type(self).__name__} has no parameter {name!r}; {has}.')
            if rest:
                inner.setdefault(outer, {})[rest] = value
            else:
                setattr(self, name, value)
                known[name] = value
        for outer, changes in inner.items():
            known[outer].set_params(**changes)
        return self

    def __repr__(self) -> str:
        """Show the parameters that are not as they are unless told."""
        usual = inspect.signature(type(self)).parameters
        shown = [
            f'{name}={value!r}'
            for name, value in self.get_params(deep=False).items()
            if name not in usual or repr(value) != repr(usual[name].default)
        ]
        return f'{type(self).__name__}({", ".join(shown)})'


def check_fitted(estimator: object, attribute: str) -> None:
    """Raise scikit-learn's error for what has not been fitted, and so lacks the attribute."""
    if hasattr(estimator, attribute):
        return
    from sklearn.exceptions import NotFittedError

    raise NotFittedError(f'This {type(estimator).__name__} is not fitted; call its fit first.')
