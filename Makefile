# Every goal first installs missing requirements, and lists them.
#   PYTHON=/path/to/python3   the Python of .venv (default: the first that is 3.10 or later)
#   DRIVER=lavapipe           `make test`, `make complete`, `make fuzz`: only this driver (lavapipe, swiftshader, gpu, both, queues, poor, torch)
#   REQUIRE="a b"             `make test`, `make complete`: fail if one of these drivers is missing
#   ARGS="..."                arguments of pytest, the demo, the benchmarks
#   TORCH="torch==2.13.0 ..." `make torch`: what its environment has

SETUP = PYTHON='$(PYTHON)' sh scripts/bootstrap.sh
RUN = .venv/bin/python
SUITE = $(RUN) scripts/run_tests.py $(addprefix --driver ,$(DRIVER)) $(addprefix --require ,$(REQUIRE))

TORCH = torch==2.13.0 filelock fsspec jinja2 markupsafe mpmath networkx sympy typing-extensions expecttest

.DEFAULT_GOAL := help
.PHONY: help demo test complete fuzz lint docs bench gpu amd compilers soak interrupts switches mutations damage arguments float64 profiles sorts values programs clusters blocks torch torch-environment shaders clean distclean

help:  ## list these goals
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

demo:  ## multiply arrays, train a logistic regression
	@$(SETUP) demo
	@$(RUN) -m vkcompute demo $(ARGS)

test:  ## the tests that recent changes need, and a part of the rest
	@$(SETUP) test
	@$(SUITE) $(ARGS)

complete:  ## all tests on lavapipe, SwiftShader and a GPU if any
	@$(SETUP) test
	@$(SUITE) --complete $(ARGS)

fuzz:  ## tests with generated input, many examples
	@$(SETUP) test
	@HYPOTHESIS_PROFILE=deep $(SUITE) --marker hypothesis $(ARGS)

lint:  ## ruff (rules and format) and mypy (strict)
	@$(SETUP) lint
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@$(RUN) -m mypy build_shaders.py scripts tools

torch-environment:
	@$(SETUP) test
	@$(RUN) scripts/torch_environment.py $(TORCH)

torch: torch-environment  ## PyTorch's device: tests, operators, gradients, modules
	@VKCOMPUTE_STEPS=100 build/torch/venv/bin/python -X faulthandler -m pytest tests/pytorch $(ARGS)
	@build/torch/venv/bin/python -X faulthandler scripts/torch_operators.py build/torch/operators.jsonl
	@build/torch/venv/bin/python -X faulthandler scripts/torch_operators.py build/torch/gradients.jsonl --gradients --samples 2
	@build/torch/venv/bin/python -X faulthandler scripts/torch_modules.py build/torch/modules.jsonl

docs:  ## the site, into build/site (ARGS=--external: all links)
	@$(SETUP) docs
	@$(RUN) scripts/build_docs.py $(ARGS)

bench:  ## compare with numpy and the installed peers
	@$(SETUP) bench
	@$(RUN) benchmarks/run.py $(ARGS)
	$(if $(ARGS),,@$(RUN) benchmarks/host.py)

gpu:  ## a report of your GPU, in eight minutes: results and times
	@$(SETUP) demo
	@$(RUN) -m vkcompute.gpu_report $(ARGS)

amd:  ## AMD's compiler on all kernels: figures that changed
	@$(SETUP) bench
	@$(RUN) benchmarks/amd.py $(ARGS)

compilers:  ## what other vendors' compilers make of all kernels
	@$(SETUP) bench
	@$(RUN) benchmarks/compilers.py $(ARGS)

soak:  ## random programs for 10 minutes: results, resource growth
	@$(SETUP) bench
	@$(RUN) benchmarks/soak.py $(ARGS)

interrupts:  ## random Ctrl-C for 10 minutes: results, resource growth
	@$(SETUP) bench
	@$(RUN) benchmarks/interrupts.py $(ARGS)

switches:  ## pairs of programs on threads that switch on purpose
	@$(SETUP) bench
	@$(RUN) benchmarks/switches.py $(ARGS)

mutations:  ## damaged SPIR-V on the software drivers: kills none
	@$(SETUP) test
	@$(RUN) benchmarks/mutations.py $(ARGS)

damage:  ## 100,000 damaged files of each kind for the readers
	@$(SETUP) test
	@$(RUN) scripts/damage.py $(ARGS)

arguments:  ## odd arguments of vkcompute.numpy, beside NumPy
	@$(SETUP) test
	@$(RUN) scripts/arguments.py $(ARGS)

float64:  ## float64 by words: ten million pairs per operation
	@$(SETUP) test
	@$(RUN) scripts/float64.py $(ARGS)

profiles:  ## the demo, tutorials and others under each profile
	@$(SETUP) test
	@$(RUN) scripts/profiles.py $(ARGS)

sorts:  ## 50,000 random sorts, beside NumPy's stable sort
	@$(SETUP) test
	@$(RUN) scripts/sorts.py --state build/sorts.json $(ARGS)

values:  ## random calls of vkcompute.numpy, beside NumPy
	@$(SETUP) test
	@$(RUN) scripts/values.py $(ARGS)

programs:  ## 10,000 random kernels per driver, against Python and Numba
	@$(SETUP) test
	@$(RUN) benchmarks/programs.py $(ARGS)

clusters:  ## Dask clusters whose processes are killed
	@$(SETUP) test
	@$(RUN) scripts/run_tests.py --driver both tests/dask/processes.py $(ARGS)

blocks:  ## 2,000 random block programs per driver, interpreted too
	@$(SETUP) test
	@VKCOMPUTE_VALIDATION=error $(RUN) benchmarks/programs.py --only blocks --programs 2000 $(ARGS)

shaders:  ## compile shaders/*.comp
	@$(SETUP) bench
	@$(RUN) build_shaders.py $(ARGS)

clean:  ## delete build outputs
	rm -rf build dist demo vkcompute/_spv .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## delete .venv and .drivers, too
	rm -rf .venv .drivers
