#include "src/core/subprocess.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "src/core/processes.h"

namespace pinch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kErrKept = 4096;
constexpr int kPipeBytes = 1 << 20;
constexpr int kTickMs = 50;  // how often the caller and the memory of the tree are asked
constexpr auto kReapLimit = std::chrono::seconds(5);
constexpr const char* kTokenName = "PINCH_PROCESS";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }
  [[nodiscard]] int get() const { return number_; }

 private:
  int number_;
};

// The read end of a pipe, and what came last through it.
class Capture {
 public:
  Capture(Descriptor read_end, std::size_t kept, std::function<void(std::string_view)> seen = {})
      : pipe_(std::move(read_end)), kept_(kept), seen_(std::move(seen)) {}

  [[nodiscard]] int descriptor() const { return pipe_.get(); }

  // Takes what is there, at most a pipe's worth: a subject that never stops writing must not keep the caller from its
  // deadline. Closes at the end of the stream.
  void drain() {
    std::array<char, 65536> block;
    for (int blocks = 0; blocks < 2 * kPipeBytes / 65536 && pipe_.get() >= 0; ++blocks) {
      const ssize_t got = ::read(pipe_.get(), block.data(), block.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return pipe_.close();
      total_ += static_cast<std::uint64_t>(got);
      if (seen_) seen_({block.data(), static_cast<std::size_t>(got)});
      text_.append(block.data(), static_cast<std::size_t>(got));
      // Behind a subtraction, since a caller may keep all there is: twice that would be no number.
      if (text_.size() > kept_ && text_.size() - kept_ > kept_) text_.erase(0, text_.size() - kept_);
    }
  }
  std::string take() {
    if (text_.size() > kept_) text_.erase(0, text_.size() - kept_);
    return std::move(text_);
  }
  [[nodiscard]] std::uint64_t total() const { return total_; }

 private:
  Descriptor pipe_;
  std::size_t kept_;
  std::function<void(std::string_view)> seen_;
  std::uint64_t total_ = 0;
  std::string text_;
};

struct Pipe {
  Descriptor read_end, write_end;
};
std::optional<Pipe> make_pipe() {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  ::fcntl(ends[0], F_SETPIPE_SZ,
          kPipeBytes);  // fewer wake-ups for a subject that writes much; a refusal changes nothing
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

// --- The tree of one run --------------------------------------------------------------------------------------------

class Tree {
 public:
  // Starts the leader; under the lock, so that no other run takes it for an orphan before it is known.
  template <class Start>
  static Result<std::unique_ptr<const Tree>> grow(const std::string& token, const Start& start) {
    const std::lock_guard lock(mutex());
    PINCH_ASSIGN(pid, start());
    leaders().insert(pid);
    return std::unique_ptr<const Tree>(new Tree(pid, token));
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree() {
    const std::lock_guard lock(mutex());
    leaders().erase(leader_);
  }

  [[nodiscard]] pid_t leader() const { return leader_; }
  void kill_group() const { ::kill(-leader_, SIGKILL); }

  // Of the leader's session and of all that descends from it, in sessions of their own too.
  [[nodiscard]] std::uint64_t rss_bytes() const {
    const std::vector<ProcessEntry> entries = all_processes();
    std::set<pid_t> tree;
    std::uint64_t pages = 0;
    for (std::size_t before = 1; before != tree.size();) {
      before = tree.size();
      for (const ProcessEntry& entry : entries) {
        const bool orphan = entry.parent == ::getpid() && has_variable(entry.pid, token_);
        if (entry.session != leader_ && !tree.contains(entry.parent) && !orphan) continue;
        if (tree.insert(entry.pid).second) pages += entry.rss_pages;
      }
    }
    return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  }

  // Ends whatever outlived the leader, which has been waited for. Returns how many there were.
  int end_survivors() const {
    kill_group();
    siginfo_t info = {};
    // Orphans become children of this subreaper; with no child at all there are none. Saves a walk through /proc.
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD) return 0;
    std::set<pid_t> killed;
    const auto start = Clock::now();
    while (Clock::now() - start < kReapLimit) {
      bool alive = false;
      for (const ProcessEntry& entry : all_processes()) {
        if (!mine(entry)) continue;
        if (entry.state == 'Z' || entry.state == 'X') {
          if (entry.parent == ::getpid()) ::waitpid(entry.pid, nullptr, WNOHANG);
          continue;
        }
        alive = true;
        // Another thread's process that ended since the walk, and was waited for, looks like an orphan: it is not
        // there.
        if (::kill(entry.pid, SIGKILL) == 0) killed.insert(entry.pid);
      }
      if (!alive) break;
      ::usleep(500);  // a killed process needs a moment to be gone
    }
    reap(killed);
    return static_cast<int>(killed.size());
  }

 private:
  // By its session, else by the variable it was started with. A process without either that this one adopted (our child
  // in a foreign session, and no leader) is a zombie, or dropped its environment: then it is ours if nobody else runs.
  [[nodiscard]] bool mine(const ProcessEntry& entry) const {
    if (entry.pid == ::getpid()) return false;
    if (entry.session == leader_ || (entry.state != 'Z' && has_variable(entry.pid, token_))) return true;
    if (entry.parent != ::getpid() || entry.session == ::getsid(0)) return false;
    const std::lock_guard lock(mutex());
    return !leaders().contains(entry.pid) && (entry.state == 'Z' || leaders().size() == 1);
  }
  static void reap(const std::set<pid_t>& killed) {
    for (const pid_t pid : killed) ::waitpid(pid, nullptr, WNOHANG);
  }
  Tree(pid_t leader, std::string token) : leader_(leader), token_(std::move(token)) {}
  static std::mutex& mutex() {
    static std::mutex held;
    return held;
  }
  static std::set<pid_t>& leaders() {
    static std::set<pid_t> held;
    return held;
  }

  pid_t leader_;
  std::string token_;
};

// --- Starting -------------------------------------------------------------------------------------------------------

// The affinity of the calling thread, which a child inherits, narrowed while this lives.
class NarrowedAffinity {
 public:
  explicit NarrowedAffinity(const std::vector<int>& cpus) {
    if (cpus.empty()) return;
    cpu_set_t wanted;
    CPU_ZERO(&wanted);
    for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &wanted);
    narrowed_ = ::sched_getaffinity(0, sizeof before_, &before_) == 0;
    failed_ = ::sched_setaffinity(0, sizeof wanted, &wanted) != 0;
  }
  NarrowedAffinity(const NarrowedAffinity&) = delete;
  NarrowedAffinity& operator=(const NarrowedAffinity&) = delete;
  ~NarrowedAffinity() {
    if (narrowed_) ::sched_setaffinity(0, sizeof before_, &before_);
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  cpu_set_t before_ = {};
  bool narrowed_ = false, failed_ = false;
};

std::vector<std::string> environment_of(const Command& command, const std::string& token) {
  std::vector<std::string> texts;
  const auto overridden = [&](std::string_view entry) {
    const std::string_view name = entry.substr(0, entry.find('='));
    return name == kTokenName || std::any_of(command.environment.begin(), command.environment.end(),
                                             [&](const auto& each) { return each.first == name; });
  };
  for (char** each = environ; *each != nullptr; ++each) {
    if (!overridden(*each)) texts.emplace_back(*each);
  }
  for (const auto& [name, value] : command.environment) texts.push_back(name + "=" + value);
  texts.push_back(token);
  return texts;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

void lower_limit(pid_t pid, __rlimit_resource resource, rlim_t value) {
  rlimit limit = {};
  if (::prlimit(pid, resource, nullptr, &limit) != 0) return;
  limit.rlim_max = std::min(limit.rlim_max, value);
  limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
  ::prlimit(pid, resource, &limit, nullptr);
}

Error start_error(const Command& command, int number) {
  const bool absent = number == ENOENT || number == ENOTDIR;
  return {absent ? ErrorCode::kNotFound : ErrorCode::kIo,
          fmt::format("cannot be started{}: {}", command.folder.empty() ? "" : " in " + command.folder,
                      std::strerror(number)),
          command.argv.front()};
}

Result<pid_t> spawn(const Command& command, const std::string& token, int out, int err) {
  std::vector<std::string> argv_texts = command.argv;
  std::vector<std::string> environment_texts = environment_of(command, token);
  const std::vector<char*> argv = pointers(argv_texts);
  const std::vector<char*> environment = pointers(environment_texts);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  if (!command.folder.empty()) posix_spawn_file_actions_addchdir_np(&actions, command.folder.c_str());

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  pid_t pid = 0;
  int failed = 0;
  {
    const NarrowedAffinity affinity(command.cpus);
    failed = affinity.failed() ? EDOM
                               : ::posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environment.data());
  }
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed == EDOM) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("CPUs {}: this machine has none of them", fmt::join(command.cpus, ", ")), ""};
  }
  if (failed != 0) return start_error(command, failed);
  // posix_spawn has no limits of its own. It returns at the exec, so these come before the program's own code runs.
  lower_limit(pid, RLIMIT_CORE, 0);
  if (command.memory_bytes > 0) lower_limit(pid, RLIMIT_DATA, command.memory_bytes);
  return pid;
}

bool says_out_of_memory(const std::string& err) {
  static constexpr std::array<std::string_view, 8> kWords = {
      "std::bad_alloc",         "MemoryError",         "out of memory", "Out of memory",
      "Cannot allocate memory", "ERROR_OUT_OF_MEMORY", "OutOfMemory",   "cudaErrorMemoryAllocation"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return err.find(word) != std::string::npos; });
}

}  // namespace

std::string_view to_string(Ending ending) {
  switch (ending) {
    case Ending::kExited:
      return "exited";
    case Ending::kSignalled:
      return "signalled";
    case Ending::kTimedOut:
      return "timed_out";
    case Ending::kOutOfMemory:
      return "out_of_memory";
    case Ending::kStopped:
      return "stopped";
  }
  return "unknown";
}

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? fmt::format("signal {}", number) : fmt::format("SIG{}", name);
}

std::string Finished::describe() const {
  switch (ending) {
    case Ending::kExited:
      return fmt::format("exited with {}", code);
    case Ending::kSignalled:
      return "killed by " + signal_name(signal);
    case Ending::kTimedOut:
      return fmt::format("no end after {:.3g} s", wall_s);
    case Ending::kOutOfMemory:
      return fmt::format("out of memory; largest process {:.0f} MiB", static_cast<double>(peak_bytes) / (1 << 20));
    case Ending::kStopped:
      return "stopped";
  }
  return "unknown";
}

Result<Finished> run(const Command& command, const std::function<bool()>& stop_requested) {
  if (command.argv.empty() || command.argv.front().empty()) {
    return Error{ErrorCode::kInvalidArgument, "an empty command; give a program and its arguments", ""};
  }
  static const int subreaper = ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  static_cast<void>(subreaper);
  static std::atomic<unsigned> counter = 0;
  const std::string token = fmt::format("{}={}.{}.", kTokenName, ::getpid(), counter++);

  auto out_pipe = make_pipe();
  auto err_pipe = make_pipe();
  if (!out_pipe || !err_pipe) return start_error(command, errno);
  const std::uint64_t kills_before = command.memory_bytes > 0 ? oom_kills() : 0;
  const auto start = Clock::now();
  PINCH_ASSIGN(tree, Tree::grow(token, [&] {
                 return spawn(command, token, out_pipe->write_end.get(), err_pipe->write_end.get());
               }));
  out_pipe->write_end.close();
  err_pipe->write_end.close();
  const pid_t pid = tree->leader();
  Capture out(std::move(out_pipe->read_end), command.stdout_kept, command.stdout_seen);
  Capture err(std::move(err_pipe->read_end), kErrKept);
  const Descriptor ended(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));

  std::optional<Ending> forced;
  int status = 0;
  rusage usage = {};
  auto next_look = start + std::chrono::milliseconds(kTickMs);
  while (::wait4(pid, &status, WNOHANG, &usage) == 0) {
    if (!forced) {
      if (command.timeout_s > 0 && seconds_since(start) >= command.timeout_s) forced = Ending::kTimedOut;
      if (stop_requested && stop_requested()) forced = Ending::kStopped;
      if (command.memory_bytes > 0 && Clock::now() >= next_look) {
        if (tree->rss_bytes() > command.memory_bytes) forced = Ending::kOutOfMemory;
        next_look = Clock::now() + std::chrono::milliseconds(kTickMs);
      }
      if (forced) tree->kill_group();
    }
    // Without pidfd_open (Linux before 5.3) the end is found by asking.
    int wait_ms = ended.get() < 0 ? 2 : kTickMs;
    if (command.timeout_s > 0 && !forced) {
      const double left_ms = (command.timeout_s - seconds_since(start)) * 1e3;
      wait_ms = std::clamp(static_cast<int>(left_ms) + 1, 1, wait_ms);
    }
    std::array<pollfd, 3> waits = {pollfd{out.descriptor(), POLLIN, 0}, pollfd{err.descriptor(), POLLIN, 0},
                                   pollfd{ended.get(), POLLIN, 0}};
    ::poll(waits.data(), waits.size(), wait_ms);
    out.drain();
    err.drain();
  }
  Finished result;
  result.wall_s = seconds_since(start);
  result.left_behind = tree->end_survivors();
  if (forced) result.left_behind = 0;  // the deadline or the caller ended them, not the subject
  out.drain();
  err.drain();

  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  result.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  result.peak_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  result.stdout_bytes = out.total();
  result.out = out.take();
  result.err = err.take();
  result.ending = WIFSIGNALED(status) ? Ending::kSignalled : Ending::kExited;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (forced) {
    result.ending = *forced;
  } else if (!result.succeeded()) {
    rusage own = {};
    ::getrusage(RUSAGE_SELF, &own);
    const bool known = result.peak_bytes > static_cast<std::uint64_t>(own.ru_maxrss) * 1024;
    const bool near_limit = command.memory_bytes > 0 && known && result.peak_bytes >= command.memory_bytes / 10 * 9;
    const bool killed = result.signal == SIGKILL && command.memory_bytes > 0 && oom_kills() > kills_before;
    if (near_limit || killed || says_out_of_memory(result.err)) result.ending = Ending::kOutOfMemory;
  }
  return result;
}

int kill_by_environment(std::string_view name, std::string_view prefix) {
  const std::string start = fmt::format("{}={}", name, prefix);
  int killed = 0;
  for (const ProcessEntry& entry : all_processes()) {
    if (entry.pid == ::getpid() || entry.state == 'Z' || !has_variable(entry.pid, start)) continue;
    killed += ::kill(entry.pid, SIGKILL) == 0 ? 1 : 0;
  }
  return killed;
}

}  // namespace pinch
