"""`triton.autotune` and `triton.heuristics`: constants that are measured, or computed from the arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from vkcompute.compat.triton.launched import Launched
from vkcompute.compat.triton.testing import do_bench
from vkcompute.errors import VkComputeError


class Config:
    """Constants and options of a launch.

    Attributes:
        kwargs: constants by name.
        num_warps, num_stages, num_ctas: options of the launch.
        pre_hook: is called with the arguments by name before each launch.
    """

    def __init__(
        self,
        kwargs: Mapping[str, Any],
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        self.kwargs, self.pre_hook = dict(kwargs), pre_hook
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = num_warps, num_stages, num_ctas, maxnreg

    def all_kwargs(self) -> dict[str, Any]:
        """Returns the constants and the options."""
        return {**self.kwargs, "num_warps": self.num_warps, "num_stages": self.num_stages}

    def __repr__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())


class Autotuner(Launched):
    """A program whose constants are the fastest of several, measured once per key.

    Attributes:
        best_config: that of the last launch.
        cache: the fastest ones by key.
    """

    def __init__(
        self,
        program: Launched,
        configs: Sequence[Config],
        key: Sequence[str],
        *,
        reset_to_zero: Sequence[str] = (),
        restore_value: Sequence[str] = (),
        prune: Mapping[str, Any] | None = None,
    ) -> None:
        self.program, self.arg_names, self.__name__ = program, program.arg_names, program.__name__
        unknown = [name for name in (*key, *reset_to_zero, *restore_value) if name not in self.arg_names]
        if unknown:
            raise ValueError(f"{program.__name__} has no parameter {unknown[0]}; it has {', '.join(self.arg_names)}")
        self._configs, self._key = list(configs) or [Config({})], list(key)
        self._reset, self._restore, self._prune = list(reset_to_zero), list(restore_value), dict(prune or {})
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.best_config: Config | None = None

    def run(self, *args: Any, grid: Any, **named: Any) -> Any:
        """Launches the program with the fastest constants; the first launch of a key measures them."""
        given = self.by_name(args, named)
        types = [str(value.dtype) for value in given.values() if hasattr(value, "dtype")]
        key = *[given.get(name) for name in self._key], *types
        if key not in self.cache:
            configs = self._pruned(given)
            self.cache[key] = configs[0] if len(configs) == 1 else self._fastest(configs, given, args, grid, named)
        config = self.best_config = self.cache[key]
        if config.pre_hook is not None:
            config.pre_hook({**given, **config.kwargs})
        return self.program.run(*args, grid=grid, **named, **config.all_kwargs())

    def _pruned(self, given: dict[str, Any]) -> list[Config]:
        early = self._prune.get("early_config_prune")
        return list(early(self._configs, given)) if early is not None else self._configs

    def _fastest(
        self, configs: Sequence[Config], given: dict[str, Any], args: tuple[Any, ...], grid: Any, named: dict[str, Any]
    ) -> Config:
        """Measures all configurations; those that the device cannot run are left out.

        Raises:
            VkComputeError: the device runs none of them; the error is that of the last.
        """
        kept = {name: given[name].numpy() for name in self._restore}
        times: list[tuple[float, int]] = []
        failure: VkComputeError | None = None
        for at, config in enumerate(configs):
            launch = partial(self._measured, config, given, args, grid, named)
            try:
                times.append((do_bench(launch, warmup=5, rep=20), at))
            except VkComputeError as error:
                failure = error
            for name, value in kept.items():
                given[name].write(value)
        if not times and failure is not None:
            raise failure
        return configs[min(times)[1]]

    def _measured(
        self, config: Config, given: dict[str, Any], args: tuple[Any, ...], grid: Any, named: dict[str, Any]
    ) -> Any:
        for name in self._reset:
            given[name].fill(0)
        if config.pre_hook is not None:
            config.pre_hook({**given, **config.kwargs})
        return self.program.run(*args, grid=grid, **named, **config.all_kwargs())


class Heuristics(Launched):
    """A program some of whose constants are functions of the other arguments."""

    def __init__(self, program: Launched, values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> None:
        self.program, self.arg_names, self.__name__ = program, program.arg_names, program.__name__
        self._values = dict(values)

    def run(self, *args: Any, grid: Any, **named: Any) -> Any:
        """Launches the program with the computed constants."""
        for name, value in self._values.items():
            named[name] = value(self.by_name(args, named))
        return self.program.run(*args, grid=grid, **named)


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    **_: Any,
) -> Callable[[Launched], Autotuner]:
    """Decorates a program: the fastest of several configurations is chosen for each value of the key.

    Args:
        configs: the configurations.
        key: names of arguments whose change measures again; so do other dtypes.
        prune_configs_by: {"early_config_prune": a function of the configurations and the arguments by name}.
        reset_to_zero, restore_value: arrays that are zeroed, or restored, around each measured launch.
    """
    return lambda program: Autotuner(
        program,
        configs,
        key,
        reset_to_zero=reset_to_zero or (),
        restore_value=restore_value or (),
        prune=prune_configs_by,
    )


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Launched], Heuristics]:
    """Decorates a program: constants are functions of the arguments by name."""
    return lambda program: Heuristics(program, values)
