// What /proc says of processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace pinch {

struct ProcessEntry {
  pid_t pid = 0, parent = 0, session = 0;
  char state = '?';
  std::uint64_t rss_pages = 0;
};

/// Those that there are; empty without a /proc.
std::vector<ProcessEntry> all_processes();

/// True where the process was started with NAME=VALUE of which `start` is the beginning.
bool has_variable(pid_t pid, std::string_view start);

/// Kills by the kernel for want of memory since it started; 0 where it does not count them.
std::uint64_t oom_kills();

}  // namespace pinch
