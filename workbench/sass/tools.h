// Outside programs that SASS analysis can use: where they are, and running them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pinch/result.h"

namespace pinch::sass {

/// A file in memory for programs that this one runs, in no folder: it is gone when its owner or this process goes,
/// however that ends.
class TemporaryFile {
 public:
  /// Errors: kIo.
  static Result<TemporaryFile> create(std::string_view content = {});
  TemporaryFile(TemporaryFile&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();
  /// Where other processes open it, without a suffix: "/proc/1234/fd/5".
  [[nodiscard]] std::string path() const;

 private:
  explicit TemporaryFile(int file) : file_(file) {}
  int file_;
};

/// The program `name` of the CUDA tools: on PATH, under $CUDA_HOME/bin, /usr/local/cuda/bin, or in the build folder,
/// where scripts/fetch_cuda_tools.sh installs those that are missing.
[[nodiscard]] std::optional<std::string> find_cuda_tool(const std::string& name);

/// Runs argv[0] (a path) and returns what it wrote to stdout.
/// Errors: kNotFound or kIo where it cannot be started; kInvalidArgument with the end of its stderr where it exits
/// other than 0.
Result<std::string> run_tool(const std::vector<std::string>& argv);

}  // namespace pinch::sass
