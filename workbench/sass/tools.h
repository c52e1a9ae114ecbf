// Outside programs that SASS analysis can use: where they are, and running them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pinch/result.h"

namespace pinch::sass {

/// A file that is deleted when its owner goes.
class TemporaryFile {
 public:
  /// Errors: kIo.
  static Result<TemporaryFile> create(const std::string& suffix, std::string_view content = {});
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// The program `name` of the CUDA tools: on PATH, under $CUDA_HOME/bin, /usr/local/cuda/bin, or in the build folder,
/// where scripts/fetch_nvdisasm.sh installs the wheel nvidia-cuda-nvdisasm.
[[nodiscard]] std::optional<std::string> find_cuda_tool(const std::string& name);

/// Runs argv[0] (a path) and returns what it wrote to stdout.
/// Errors: kNotFound or kIo where it cannot be started; kInvalidArgument with the end of its stderr where it exits
/// other than 0.
Result<std::string> run_tool(const std::vector<std::string>& argv);

}  // namespace pinch::sass
