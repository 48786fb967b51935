"""scikit-learn's estimator conventions without scikit-learn: parameters, cloning, tags, fitted state."""

from __future__ import annotations

import copy
import inspect
import sys
from functools import lru_cache
from typing import Any

from vkcompute.errors import VkComputeError
from vkcompute.representation import html_facts


class NotFittedError(VkComputeError, ValueError, AttributeError):
    """The estimator was used before `fit`. Also scikit-learn's NotFittedError if scikit-learn is loaded."""


class Estimator:
    """An estimator. Parameters are the arguments of `__init__`, stored unchanged; `fit` sets names that end in _."""

    @classmethod
    def _parameters(cls) -> dict[str, inspect.Parameter]:
        signature = inspect.signature(cls.__init__)
        return {name: parameter for name, parameter in signature.parameters.items() if name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name. `deep` has no effect: the estimator contains no others."""
        return {name: getattr(self, name) for name in sorted(self._parameters())}

    def set_params(self, **params: Any) -> Any:
        """Sets parameters. Returns the estimator.

        Raises:
            ValueError: no parameter has this name.
        """
        known = sorted(self._parameters())
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {known!r}.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, parameter in self._parameters().items()
            if not _same(getattr(self, name), parameter.default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str:
        facts = [(name, repr(value)) for name, value in self.get_params().items()]
        fitted = [name for name in ("n_features_in_", "classes_", "n_iter_") if hasattr(self, name)]
        return html_facts(type(self).__name__, [*facts, *[(name, getattr(self, name)) for name in fitted]])

    def __sklearn_clone__(self) -> Any:
        """An unfitted estimator with the same parameters. An open runtime is shared, not copied."""
        params = self.get_params()
        return type(self)(
            **{name: copy.deepcopy(value) if name != "device" else value for name, value in params.items()}
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise _not_fitted_class()(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator."
            )

    def __sklearn_tags__(self) -> Any:
        """Tags, called by scikit-learn only."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            transformer_tags=None,
            regressor_tags=None,
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(),
        )


def _same(value: object, default: object) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def _not_fitted_class() -> type[NotFittedError]:
    """NotFittedError, also derived from scikit-learn's class if that has been imported."""
    module = sys.modules.get("sklearn.exceptions")
    return NotFittedError if module is None else _combined(module.NotFittedError)


@lru_cache(maxsize=1)
def _combined(base: type[Exception]) -> type[NotFittedError]:
    return type("NotFittedError", (NotFittedError, base), {"__doc__": NotFittedError.__doc__})


def warning_class(name: str) -> type[Warning]:
    """scikit-learn's warning class of this name if scikit-learn is loaded, else UserWarning."""
    module = sys.modules.get("sklearn.exceptions")
    category: type[Warning] = getattr(module, name, UserWarning)
    return category
