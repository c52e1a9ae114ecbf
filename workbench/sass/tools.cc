#include "workbench/sass/tools.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

extern char** environ;

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
  const fs::path root = self.parent_path().parent_path() / "nvdisasm";
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename() == name && it->path().parent_path().filename() == "bin" && is_program(it->path()))
      return it->path().string();
  }
  return std::nullopt;
}

class Pipe {
 public:
  Pipe() : ok_(::pipe2(ends_.data(), O_CLOEXEC) == 0) {}
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] int read_end() const { return ends_[0]; }
  [[nodiscard]] int write_end() const { return ends_[1]; }
  void close_write_end() { close_end(1); }

 private:
  void close_end(std::size_t i) {
    if (ends_[i] >= 0) ::close(ends_[i]);
    ends_[i] = -1;
  }
  std::array<int, 2> ends_{-1, -1};
  bool ok_;
};

// Reads both ends until the child closes them: reading one after the other would block a child that fills the other.
void drain(Pipe& out, Pipe& err, std::string& stdout_text, std::string& stderr_text) {
  std::array<pollfd, 2> fds{pollfd{out.read_end(), POLLIN, 0}, pollfd{err.read_end(), POLLIN, 0}};
  std::array<std::string*, 2> texts{&stdout_text, &stderr_text};
  std::array<char, 65536> buffer;
  for (int open = 2; open > 0;) {
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      const ssize_t got = ::read(fds[i].fd, buffer.data(), buffer.size());
      if (got > 0) {
        texts[i]->append(buffer.data(), static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        fds[i].fd = -1;
        --open;
      }
    }
  }
}

}  // namespace

Result<TemporaryFile> TemporaryFile::create(const std::string& suffix, std::string_view content) {
  const char* folder = std::getenv("TMPDIR");
  std::string path = fmt::format("{}/pinch_XXXXXX{}", folder != nullptr && *folder != 0 ? folder : "/tmp", suffix);
  const int fd = ::mkstemps(path.data(), static_cast<int>(suffix.size()));
  if (fd < 0)
    return Error{
        ErrorCode::kIo,
        fmt::format("cannot create a temporary file: {}; set TMPDIR to a writable folder", std::strerror(errno)), path};
  TemporaryFile file(path);
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int reason = errno;
      ::close(fd);
      return Error{ErrorCode::kIo, fmt::format("cannot write a temporary file: {}", std::strerror(reason)), path};
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  ::close(fd);
  return file;
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
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
  Pipe out, err;
  if (!out.ok() || !err.ok())
    return Error{ErrorCode::kIo, fmt::format("cannot make a pipe: {}", std::strerror(errno)), argv[0]};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write_end(), 1);
  posix_spawn_file_actions_adddup2(&actions, err.write_end(), 2);
  std::vector<char*> raw;
  for (const std::string& argument : argv) raw.push_back(const_cast<char*>(argument.c_str()));
  raw.push_back(nullptr);
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, argv[0].c_str(), &actions, nullptr, raw.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return Error{ErrorCode::kIo, fmt::format("cannot be started: {}", std::strerror(failed)), argv[0]};
  out.close_write_end();
  err.close_write_end();
  std::string stdout_text, stderr_text;
  drain(out, err, stdout_text, stderr_text);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return stdout_text;
  constexpr std::size_t kShown = 2000;
  if (stderr_text.size() > kShown) stderr_text.erase(0, stderr_text.size() - kShown);
  while (!stderr_text.empty() && stderr_text.back() == '\n') stderr_text.pop_back();
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("failed ({}): {}",
                           WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                                             : fmt::format("signal {}", WTERMSIG(status)),
                           stderr_text),
               argv[0]};
}

}  // namespace pinch::sass
