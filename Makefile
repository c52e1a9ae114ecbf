# The commands of the README. Each does its own set-up; CMake presets do the work.
JOBS ?= $(shell nproc)
PRESET ?= cpu

.PHONY: build test tune setup configure cuda code-baseline format format-check tidy asan tsan fuzz clean
build: configure
	cmake --build --preset $(PRESET) -j $(JOBS)

setup:
	@scripts/setup.sh

configure: setup
	@cmake --preset $(PRESET) >/dev/null

tune: configure
	cmake --build --preset $(PRESET) -j $(JOBS) --target pinch_app
	scripts/tune.sh

test: build
	ctest --preset $(PRESET) -j $(JOBS)

# The CUDA code with the core kernels, where there is nvcc. Its GPU tests skip, saying so, where there is no GPU.
cuda: setup
	@if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then \
	  cmake --preset cuda >/dev/null && \
	  cmake --build --preset cuda -j $(JOBS) --target pinch_app gpu_tests && \
	  ctest --preset cuda -L 'gpu|cuda' -LE cli; \
	else \
	  echo 'cuda: skipped, there is no nvcc'; \
	fi

# What its test Cuda.CodeIsThatOfTheBaseline holds the kernels' machine code against, of this nvcc.
code-baseline: setup
	cmake --preset cuda >/dev/null
	cmake --build --preset cuda -j $(JOBS) --target pinch_app
	tests/gpu/code_check.sh write build-cuda/bin/pinch

asan: setup
	cmake --preset asan >/dev/null
	cmake --build --preset asan -j $(JOBS) --target unit_tests
	ctest --preset asan -j $(JOBS) -L 'unit|kernel'

tsan: setup
	cmake --preset tsan >/dev/null
	cmake --build --preset tsan -j $(JOBS) --target thread_tests
	ctest --preset tsan -j $(JOBS) -L threads

fuzz: setup
	cmake --preset asan >/dev/null
	cmake --build --preset asan -j $(JOBS) --target fuzz_targets
	ctest --preset fuzz -j $(JOBS)

format:
	git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format-14 -i

format-check: setup
	git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format-14 --dry-run --Werror

# What clang-tidy has to say, where it is installed; nothing depends on it. FILES='workbench/ladder/*.cc' asks about a part.
FILES ?= src/*.cc kernels/*.cc workbench/*.cc apps/*.cc
tidy: build
	git ls-files $(FILES) | grep -v 'cuda\|backend\.' | xargs -P $(JOBS) -n 4 clang-tidy-14 -p $(if $(filter cpu,$(PRESET)),build,build-$(PRESET)) --quiet

clean:
	rm -rf build build-*
