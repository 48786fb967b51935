"""`triton.autotune` and `triton.heuristics`: constants that are measured, or computed from the arguments."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import local
from typing import Any

import numpy as np

from vkcompute import disk
from vkcompute.blocks.compiler.types import Constexpr
from vkcompute.blocks.launching import measuring
from vkcompute.blocks.launching.arguments import exact_key
from vkcompute.blocks.launching.build import FOLDERS
from vkcompute.blocks.launching.composites import is_composite, leaves_of
from vkcompute.blocks.launching.launched import Launched
from vkcompute.blocks.launching.program import is_interpreting
from vkcompute.blocks.launching.reinterpretation import unwrapped
from vkcompute.blocks.launching.tensors import arrays_of
from vkcompute.code_version import code_version
from vkcompute.errors import VkComputeError
from vkcompute.jit.compilation import fingerprint

_IDLE = {"num_stages", "num_ctas", "maxnreg"}
"""Options of a configuration that have no effect, unless the program has a parameter of the name."""


class Config:
    """Constants and options of a launch.

    Attributes:
        kwargs: constants by name.
        num_warps, num_stages, num_ctas, maxnreg: options of the launch.
        pre_hook: is called with the arguments by name before each launch.

    Raises:
        ValueError: `ir_override` is not None.
    """

    def __init__(
        self,
        kwargs: Mapping[str, Any],
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable[[dict[str, Any]], object] | None = None,
        ir_override: str | None = None,
    ) -> None:
        if ir_override is not None:
            raise ValueError("ir_override names a file of Triton's intermediate language; programs are compiled here")
        self.kwargs, self.pre_hook = dict(kwargs), pre_hook
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = num_warps, num_stages, num_ctas, maxnreg

    def all_kwargs(self) -> dict[str, Any]:
        """Returns the constants and the options."""
        options = {"num_warps": self.num_warps, "num_ctas": self.num_ctas, "num_stages": self.num_stages}
        return {**self.kwargs, **options, **({} if self.maxnreg is None else {"maxnreg": self.maxnreg})}

    def __repr__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())


class Autotuner(Launched):
    """A program whose constants are the fastest of several, measured once per key.

    A choice is kept on disk for the device, its driver, the program, the configurations and the key. Integers of a key
    stand for others of their size, so that few launches measure.

    The constructor and the attributes are Triton's, from which libraries derive tuners of their own.

    Args:
        key: names of arguments; those that are no parameters are left out.

    Attributes:
        fn: the program.
        keys: the names of the key.
        early_config_prune, perf_model, configs_top_k: of `prune_configs_by`.
        best_config: that of the last launch.
        cache: the fastest ones by key.
        configs_timings: the medians in milliseconds of the last measurement.
    """

    def __init__(
        self,
        fn: Launched,
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None,
        pre_hook: Callable[..., object] | None = None,
        post_hook: Callable[..., object] | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        use_cuda_graph: bool = False,
        do_bench: Callable[..., Any] | None = None,
        cache_results: bool = False,
    ) -> None:
        self.fn, self.arg_names, self.__name__ = fn, list(arg_names), fn.__name__
        self.configs, self.keys = list(configs) or [Config({})], list(key)
        self.reset_to_zero, self.restore_value = list(reset_to_zero or ()), list(restore_value or ())
        unknown = [name for name in (*self.reset_to_zero, *self.restore_value) if name not in self.arg_names]
        if unknown:
            raise ValueError(f"{fn.__name__} has no parameter {unknown[0]}; it has {', '.join(self.arg_names)}")
        self._take_pruning(prune_configs_by or {})
        self._pre_hook, self._post_hook = pre_hook, post_hook
        self.user_defined_pre_hook, self.user_defined_post_hook = pre_hook is not None, post_hook is not None
        self.num_warmups, self.num_reps, self.use_cuda_graph = warmup, rep, use_cuda_graph
        self.do_bench = do_bench or _bench_of(warmup, rep)
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.configs_timings: dict[Config, float] = {}
        self.best_config: Config | None = None
        self._local = local()

    @property
    def nargs(self) -> dict[str, Any] | None:
        """The positional arguments of this thread's launch by name; None before the first one."""
        return getattr(self._local, "nargs", None)

    @nargs.setter
    def nargs(self, given: dict[str, Any] | None) -> None:
        self._local.nargs = given

    def _take_pruning(self, prune: Mapping[str, Any]) -> None:
        known = "early_config_prune", "perf_model", "top_k", "configs_top_k"
        wrong = [name for name in prune if name not in known]
        if wrong:
            raise ValueError(f"prune_configs_by has {', '.join(known[:3])}; got {wrong[0]}")
        self.early_config_prune, self.perf_model = prune.get("early_config_prune"), prune.get("perf_model")
        self.configs_top_k = prune.get("top_k", prune.get("configs_top_k", 1.0))

    def run(self, *args: Any, grid: Any, **named: Any) -> Any:
        """Launches the program with the fastest constants; the first launch of a key measures them."""
        if len(self.configs) == 1:
            return self._launched(self.configs[0], args, grid, named)
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        given = {**self.nargs, **named}
        key = *[bucket(given.get(name)) for name in self.keys], *_dtypes(given.values())
        if key not in self.cache:
            configs = self.prune_configs(named)
            self.cache[key] = configs[0] if len(configs) == 1 else self._chosen(key, configs, given, args, grid, named)
        self.nargs = None
        return self._launched(self.cache[key], args, grid, named)

    def _launched(self, config: Config, args: tuple[Any, ...], grid: Any, named: dict[str, Any]) -> Any:
        """Launches the program with the constants of a configuration.

        Raises:
            ValueError: the caller gives one of them, too.
        """
        self.best_config = config
        if twice := config.kwargs.keys() & named.keys():
            raise ValueError(f"{self.__name__} is tuned over {min(twice)}, which the launch gives, too; leave it out")
        if config.pre_hook is not None:
            config.pre_hook({**self.by_name(args, named), **config.all_kwargs()})
        return self.fn.run(*args, grid=grid, **named, **config.all_kwargs())

    def prune_configs(self, kwargs: dict[str, Any]) -> list[Config]:
        """Returns the configurations to measure for the launch with `nargs` and these named arguments.

        Raises:
            ValueError: none is left, or `top_k` is no number of them.
        """
        configs, early, model, positional = self.configs, self.early_config_prune, self.perf_model, self.nargs or {}
        if early is not None:
            configs = list(early(configs, positional, **kwargs))
        if not configs:
            raise ValueError(f"early_config_prune of {self.__name__} returns at least one configuration; got none")
        if model is None:
            return configs
        top = self.configs_top_k
        if not isinstance(top, int) and not (isinstance(top, float) and top <= 1):
            raise ValueError(f"top_k is a number of configurations, or a float up to 1; got {top!r}")
        n = max(int(len(configs) * top), 1) if isinstance(top, float) else top
        if n >= len(configs):
            return configs
        return sorted(configs, key=lambda config: model(**{**positional, **kwargs, **config.all_kwargs()}))[:n]

    # -- measurements -------------------------------------------------------------------------------------------------

    def _chosen(
        self,
        key: tuple[Any, ...],
        configs: Sequence[Config],
        given: dict[str, Any],
        args: tuple[Any, ...],
        grid: Any,
        named: dict[str, Any],
    ) -> Config:
        """Returns the fastest configuration: from the disk, or measured."""
        if is_interpreting():
            return configs[0]
        path = self._entry(key, configs, given)
        stored = None if path is None else disk.read_cached(path)
        known = {repr(config): config for config in configs}
        if stored is not None and stored.decode() in known:
            return known[stored.decode()]
        fastest = self._fastest(configs, given, args, grid, named)
        if path is not None:
            disk.keep_cached(path, repr(fastest).encode())
        return fastest

    def _entry(self, key: tuple[Any, ...], configs: Sequence[Config], given: dict[str, Any]) -> Path | None:
        """Returns the file of a choice; None if something on which it depends has no text."""
        texts = fingerprint.compiler(), code_version(*FOLDERS), fingerprint.function(self.base_fn)
        if None in texts or len({*map(repr, configs)}) < len(configs):
            return None
        leaves, _ = unwrapped([leaf for value in given.values() for leaf in leaves_of(value)])
        runtime = next((leaf.runtime for leaf in leaves if hasattr(leaf, "runtime")), None)
        if runtime is None:
            from vkcompute.runtime.runtime import current_runtime  # not at import: it loads the driver

            runtime = current_runtime()
        physical = runtime.device.physical
        parts = *texts, physical.name, physical.driver, physical.driver_version, *map(repr, (*configs, *key))
        return disk.cache_folder() / "tuning" / hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()

    def _fastest(
        self, configs: Sequence[Config], given: dict[str, Any], args: tuple[Any, ...], grid: Any, named: dict[str, Any]
    ) -> Config:
        """Measures all configurations; those that the device cannot run are left out.

        Configurations that differ in options without effect, as `num_stages`, are the same program, measured once.

        Raises:
            VkComputeError: the device runs none of them; the error is that of the last.
        """
        times: dict[Config, float] = {}
        failure: VkComputeError | None = None
        known: dict[Any, float | VkComputeError] = {}
        for config in configs:
            effect = self._effect(config)
            if effect not in known:
                known[effect] = self._time(partial(self._measured, config, given, args, grid, named))
            measured = known[effect]
            if isinstance(measured, VkComputeError):
                failure = measured
            else:
                times[config] = measured
        self.pre_hook(given, reset_only=True)
        if not times and failure is not None:
            raise failure
        self.configs_timings = times
        return min(times, key=lambda config: times[config])

    def _effect(self, config: Config) -> Any:
        """Returns a key that is the same for configurations of one program."""
        idle = _IDLE.difference(self.arg_names)
        values = {name: value for name, value in config.all_kwargs().items() if name not in idle}
        return config.pre_hook, *[(name, exact_key(value)) for name, value in sorted(values.items())]

    def _time(self, launch: Callable[[], Any]) -> float | VkComputeError:
        """Returns the median time of a launch, or the error that it raises."""
        try:
            times = self.do_bench(launch, quantiles=(0.5,))
        except VkComputeError as error:
            return error
        return float(times[0] if isinstance(times, (tuple, list)) else times)

    def _bench(self, *args: Any, config: Config, grid: Any, **named: Any) -> list[float]:
        """Returns the times of a configuration, as `do_bench` with quantiles; infinite if the device cannot run it."""
        launch = partial(self._measured, config, self.by_name(args, named), args, grid, named)
        try:
            return list(self.do_bench(launch, quantiles=(0.5, 0.2, 0.8)))
        except VkComputeError:
            return [float("inf")] * 3

    def pre_hook(self, nargs: dict[str, Any], reset_only: bool = False) -> dict[str, Any]:
        """Prepares the arguments for a measured launch; returns the elements to restore after it."""
        if self._pre_hook is not None:
            self._pre_hook(nargs, reset_only=reset_only)
            return {}
        given = nargs
        for name in self.reset_to_zero:
            if given.get(name) is not None:
                for array in arrays_of(given[name]):
                    array.fill(0)
        names = () if reset_only or self._post_hook is not None else self.restore_value
        kept = [name for name in names if given.get(name) is not None]
        return {name: [np.array(array) for array in arrays_of(given[name])] for name in kept}

    def _measured(
        self, config: Config, given: dict[str, Any], args: tuple[Any, ...], grid: Any, named: dict[str, Any]
    ) -> Any:
        """Launches the program once, and leaves the arrays as they are to be."""
        every = {**given, **config.all_kwargs()}
        failure: Exception | None = None
        kept = self.pre_hook(every)
        try:
            return self._launched(config, args, grid, named)
        except Exception as error:
            failure = error
            raise
        finally:
            for name, values in kept.items():
                for array, value in zip(arrays_of(given[name]), values, strict=True):
                    array[...] = value
            if self._post_hook is not None:
                self._post_hook(every, exception=failure)


def bucket(value: Any) -> Any:
    """Returns the class of a value of a key, per which configurations are measured.

    An integer is in a class with those of as many bits that are multiples of 16, or are not, as it is. The class of an
    array is its dtype, and that of a composite argument those of its leaves.
    """
    if type(value) is int and not -16 <= value <= 16:
        return "about", (1 << value.bit_length()) * (1 if value > 0 else -1), value % 16 == 0
    if is_composite(value):
        return tuple(map(bucket, leaves_of(value)))
    if hasattr(value, "dtype") and not isinstance(value, np.generic):
        return str(value.dtype)
    return value.value if isinstance(value, Constexpr) else value


def _dtypes(values: Iterable[Any]) -> list[str]:
    """Returns the dtypes of arguments and of the leaves of composite ones."""
    dtypes = []
    for value in values:
        if hasattr(value, "dtype"):
            dtypes.append(str(value.dtype))
        elif is_composite(value):
            dtypes += _dtypes(leaves_of(value))
    return dtypes


class Heuristics(Launched):
    """A program some of whose constants are functions of the other arguments.

    Attributes:
        fn: the program.
        values: functions of the arguments by name, by the name of the constant.
    """

    def __init__(
        self, fn: Launched, arg_names: Sequence[str], values: Mapping[str, Callable[[dict[str, Any]], Any]]
    ) -> None:
        self.fn, self.arg_names, self.__name__ = fn, list(arg_names), fn.__name__
        self.values = dict(values)

    def run(self, *args: Any, grid: Any, **named: Any) -> Any:
        """Launches the program with the computed constants."""
        for name, value in self.values.items():
            named[name] = value(self.by_name(args, named))
        return self.fn.run(*args, grid=grid, **named)


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., object] | None = None,
    post_hook: Callable[..., object] | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = True,
) -> Callable[[Launched], Autotuner]:
    """Decorates a program: the fastest of several configurations is chosen for each value of the key.

    Args:
        configs: the configurations.
        key: names of arguments; others have no effect. Another size of an integer measures again, and so do other
            dtypes.
        prune_configs_by: "early_config_prune", a function of the configurations, the positional arguments by name and
            the named ones; "perf_model", a function of all arguments that estimates times, of which `top_k` are kept.
        reset_to_zero, restore_value: arrays that are zeroed before, or restored after, each measured launch.
        pre_hook, post_hook: are called instead, with the arguments by name, and `reset_only` or `exception`.
        warmup, rep: milliseconds of the measurement of a configuration.
        do_bench: measures a launch, as `triton.testing.do_bench` does.
        use_cuda_graph, cache_results: have no effect.
    """
    return lambda program: Autotuner(
        program,
        program.arg_names,
        configs,
        key,
        reset_to_zero,
        restore_value,
        pre_hook,
        post_hook,
        prune_configs_by,
        warmup,
        rep,
        use_cuda_graph,
        do_bench,
        cache_results,
    )


def _bench_of(warmup: float | None, rep: float | None) -> Callable[..., Any]:
    """Returns the measurement of a configuration, in milliseconds of warm-up and of repetitions."""
    if warmup is None and rep is None:
        return partial(measuring.do_bench, warmup=5, rep=20)
    return partial(measuring.do_bench, warmup=25 if warmup is None else warmup, rep=100 if rep is None else rep)


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Launched], Heuristics]:
    """Decorates a program: constants are functions of the arguments by name."""
    return lambda program: Heuristics(program, program.arg_names, values)
