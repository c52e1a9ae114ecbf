#include "workbench/probe/apart.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <optional>

#include "src/core/subprocess.h"

namespace pinch::probe {
namespace {

using Clock = std::chrono::steady_clock;

// What a process sends for each item: its error code or kDone, the length of the text, the text.
struct Header {
  std::int32_t code = 0;
  std::uint32_t length = 0;
};
constexpr std::int32_t kDone = -1;

bool write_all(int to, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(to, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

[[noreturn]] void work_on(int first, int count, const std::function<Result<std::string>(int)>& work, int to) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int item = first; item < count; ++item) {
    const Result<std::string> given = work(item);
    const std::string& text = given ? *given : given.error().text;
    const std::string where = given ? std::string() : given.error().where;
    const std::string sent = given ? text : text + '\0' + where;
    const Header header{given ? kDone : static_cast<std::int32_t>(given.error().code),
                        static_cast<std::uint32_t>(sent.size())};
    if (!write_all(to, &header, sizeof header) || !write_all(to, sent.data(), sent.size()) || !given) break;
  }
  ::_exit(0);
}

enum class Read { kWhole, kEnded, kLate };

Read read_all(int from, void* data, std::size_t size, Clock::time_point until) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd wait{from, POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return Read::kLate;
    const ssize_t n = ::read(from, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Read::kEnded;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return Read::kWhole;
}

}  // namespace

std::vector<Result<std::string>> run_apart(int count, const std::function<Result<std::string>(int item)>& work,
                                           double deadline_s, const std::function<void(int item)>& begun) {
  std::vector<Result<std::string>> results;
  const auto failed = [](const std::string& why) { return Error{ErrorCode::kUnsupported, why, "the probing process"}; };
  while (static_cast<int>(results.size()) < count) {
    int ends[2];
    const pid_t child = ::pipe(ends) == 0 ? ::fork() : -1;
    if (child < 0) {
      results.emplace_back(failed(fmt::format("cannot be started: {}", std::strerror(errno))));
      continue;
    }
    if (child == 0) {
      ::close(ends[0]);
      work_on(static_cast<int>(results.size()), count, work, ends[1]);
    }
    ::close(ends[1]);
    Read read = Read::kWhole;
    bool gave_up = false;
    while (!gave_up && static_cast<int>(results.size()) < count) {
      begun(static_cast<int>(results.size()));
      const auto until = Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(1000 * deadline_s));
      Header header;
      std::string text;
      read = read_all(ends[0], &header, sizeof header, until);
      if (read == Read::kWhole) {
        text.resize(header.length);
        read = read_all(ends[0], text.data(), text.size(), until);
      }
      if (read != Read::kWhole) break;
      if (header.code == kDone) {
        results.emplace_back(std::move(text));
        continue;
      }
      const auto split = text.find('\0');
      results.emplace_back(Error{static_cast<ErrorCode>(header.code), text.substr(0, split), text.substr(split + 1)});
      gave_up = true;
    }
    ::close(ends[0]);
    if (read == Read::kLate) ::kill(child, SIGKILL);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (read == Read::kLate) results.emplace_back(failed(fmt::format("no end after {:g} s", deadline_s)));
    if (read == Read::kEnded)
      results.emplace_back(failed(WIFSIGNALED(status) ? "killed by " + signal_name(WTERMSIG(status))
                                                      : fmt::format("exited with {}", WEXITSTATUS(status))));
  }
  return results;
}

}  // namespace pinch::probe
