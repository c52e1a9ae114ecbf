# The commands of the README. Each does its own set-up; CMake presets do the work.
JOBS ?= $(shell nproc)
PRESET ?= cpu

.PHONY: build test tune setup configure format format-check asan tsan fuzz clean
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

asan: setup
	cmake --preset asan >/dev/null
	cmake --build --preset asan -j $(JOBS)
	ctest --preset asan -j $(JOBS) -L 'unit|kernel'

tsan: setup
	cmake --preset tsan >/dev/null
	cmake --build --preset tsan -j $(JOBS)
	ctest --preset tsan -j $(JOBS) -L threads

fuzz: setup
	cmake --preset fuzz >/dev/null
	cmake --build --preset fuzz -j $(JOBS) --target fuzz_targets
	ctest --preset fuzz -j $(JOBS)

format:
	git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format-14 -i

format-check: setup
	git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format-14 --dry-run --Werror

clean:
	rm -rf build build-*
