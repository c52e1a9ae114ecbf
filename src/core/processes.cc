#include "src/core/processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

namespace pinch {
namespace {

std::string read_small(const std::string& path) {
  std::string text;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  std::array<char, 16384> block;
  for (ssize_t got = 0; (got = ::read(file, block.data(), block.size())) > 0;)
    text.append(block.data(), static_cast<std::size_t>(got));
  ::close(file);
  return text;
}

std::optional<ProcessEntry> process_entry(pid_t pid) {
  const std::string text = read_small(fmt::format("/proc/{}/stat", pid));
  const auto name_end = text.rfind(')');  // the name may hold blanks and parentheses
  if (name_end == std::string::npos) return std::nullopt;
  ProcessEntry entry;
  entry.pid = pid;
  int parent = 0, group = 0, session = 0;
  long long pages = 0;
  if (std::sscanf(text.c_str() + name_end + 1,
                  " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %*u %*u %lld", &entry.state,
                  &parent, &group, &session, &pages) != 5) {
    return std::nullopt;
  }
  entry.parent = parent;
  entry.session = session;
  entry.rss_pages = static_cast<std::uint64_t>(std::max(0LL, pages));
  return entry;
}

}  // namespace

std::vector<ProcessEntry> all_processes() {
  std::vector<ProcessEntry> entries;
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return entries;
  while (const dirent* each = ::readdir(folder)) {
    pid_t pid = 0;
    const char* end = each->d_name + std::strlen(each->d_name);
    if (const auto [stopped, failed] = std::from_chars(each->d_name, end, pid); failed != std::errc() || stopped != end)
      continue;
    if (const auto entry = process_entry(pid)) entries.push_back(*entry);
  }
  ::closedir(folder);
  return entries;
}

bool has_variable(pid_t pid, std::string_view start) {
  const std::string text = read_small(fmt::format("/proc/{}/environ", pid));
  return text.compare(0, start.size(), start) == 0 || text.find('\0' + std::string(start)) != std::string::npos;
}

std::uint64_t oom_kills() {
  const std::string text = read_small("/proc/vmstat");
  const auto at = text.find("\noom_kill ");
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + 10, nullptr, 10);
}

}  // namespace pinch
