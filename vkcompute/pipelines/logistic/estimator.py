"""scikit-learn's conventions for an estimator, without scikit-learn: parameters, cloning, tags, the fitted state."""

from __future__ import annotations

import copy
import inspect
import sys
from functools import lru_cache
from typing import Any

from vkcompute.errors import VkComputeError


class NotFittedError(VkComputeError, ValueError, AttributeError):
    """The estimator was used before `fit`. Where scikit-learn is loaded, it is also its NotFittedError."""


class Estimator:
    """Parameters are the arguments of `__init__`, kept under their own names as given; `fit` sets names ending in _."""

    @classmethod
    def _parameters(cls) -> dict[str, inspect.Parameter]:
        signature = inspect.signature(cls.__init__)
        return {name: each for name, each in signature.parameters.items() if name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; `deep` is for estimators that hold others, which this one does not."""
        return {name: getattr(self, name) for name in sorted(self._parameters())}

    def set_params(self, **params: Any) -> Any:
        """Changes parameters; gives the estimator itself.

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

    def __sklearn_clone__(self) -> Any:
        """An unfitted estimator with the same parameters; an open runtime among them is shared, not copied."""
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
        """scikit-learn asks; so it is there."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            transformer_tags=None,
            regressor_tags=None,
            classifier_tags=ClassifierTags(multi_class=False),
            input_tags=InputTags(),
        )


def _same(value: object, default: object) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def _not_fitted_class() -> type[NotFittedError]:
    """Whoever catches scikit-learn's NotFittedError has imported it before."""
    theirs = sys.modules.get("sklearn.exceptions")
    return NotFittedError if theirs is None else _joined(theirs.NotFittedError)


@lru_cache(maxsize=1)
def _joined(theirs: type[Exception]) -> type[NotFittedError]:
    return type("NotFittedError", (NotFittedError, theirs), {"__doc__": NotFittedError.__doc__})


def warning_class(name: str) -> type[Warning]:
    """scikit-learn's class of warnings of this name where it is loaded, so that its filters apply; else UserWarning."""
    theirs = sys.modules.get("sklearn.exceptions")
    found: type[Warning] = getattr(theirs, name, UserWarning)
    return found
