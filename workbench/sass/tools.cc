#include "workbench/sass/tools.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

#include "src/core/subprocess.h"

namespace pinch::sass {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  return ::access(path.c_str(), X_OK) == 0 && !fs::is_directory(path);
}

// The wheel's folders name the CUDA release, so the tool is looked for below the folder that the script fills.
std::optional<std::string> in_build_folder(const std::string& name) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return std::nullopt;
  const fs::path root = self.parent_path().parent_path() / "cuda_tools";
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename() == name && it->path().parent_path().filename() == "bin" && is_program(it->path()))
      return it->path().string();
  }
  return std::nullopt;
}

}  // namespace

Result<TemporaryFile> TemporaryFile::create(std::string_view content) {
  const int fd = ::memfd_create("pinch", MFD_CLOEXEC);
  if (fd < 0) return Error{ErrorCode::kIo, fmt::format("cannot create a file in memory: {}", std::strerror(errno)), ""};
  TemporaryFile file(fd);
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      return Error{ErrorCode::kIo, fmt::format("cannot write a file in memory: {}", std::strerror(errno)), ""};
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return file;
}

TemporaryFile::~TemporaryFile() {
  if (file_ >= 0) ::close(file_);
}

std::string TemporaryFile::path() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), file_);
}

std::optional<std::string> find_cuda_tool(const std::string& name) {
  std::vector<std::string> folders;
  const auto add_list = [&](const char* list, const char* below) {
    if (list == nullptr) return;
    std::string_view rest = list;
    while (!rest.empty()) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      if (!folder.empty()) folders.push_back(std::string(folder) + below);
      rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    }
  };
  add_list(std::getenv("PATH"), "");
  add_list(std::getenv("CUDA_HOME"), "/bin");
  folders.emplace_back("/usr/local/cuda/bin");
  for (const std::string& folder : folders) {
    if (const fs::path path = fs::path(folder) / name; is_program(path)) return path.string();
  }
  return in_build_folder(name);
}

Result<std::string> run_tool(const std::vector<std::string>& argv) {
  Command command;
  command.argv = argv;
  command.stdout_kept = std::numeric_limits<std::size_t>::max();
  PINCH_ASSIGN(finished, run(command));
  if (finished.succeeded()) return std::move(finished.out);
  while (!finished.err.empty() && finished.err.back() == '\n') finished.err.pop_back();
  return Error{ErrorCode::kInvalidArgument, fmt::format("failed ({}): {}", finished.describe(), finished.err), argv[0]};
}

}  // namespace pinch::sass
