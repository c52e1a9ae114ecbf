// faults KIND [ARGUMENT]: a program that goes wrong in the way it is asked to. Every kind that ends by itself with exit
// code 0 prints {"ms": 1.5} first, as a measured subject would.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

void print_metric() {
  std::puts("{\"ms\": 1.5}");
  std::fflush(stdout);
}

[[noreturn]] void sleep_for_ever() {
  for (;;) ::pause();
}

[[noreturn]] void hang_with_signals_masked() {
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  volatile unsigned long spin = 0;
  for (;;) {
    const unsigned long next = spin + 1;
    spin = next;
  }
}

// One grandchild in the session, one that leaves it, one that leaves it and drops its environment.
void leave_grandchildren() {
  for (int kind = 0; kind < 3; ++kind) {
    if (::fork() != 0) continue;
    if (kind > 0) ::setsid();
    if (kind == 2) {
      char sleep[] = "sleep", time[] = "1000";
      char* argv[] = {sleep, time, nullptr};
      char* environment[] = {nullptr};
      ::execve("/bin/sleep", argv, environment);
    }
    sleep_for_ever();
  }
}

// Forks until `limit` processes are there, each of which forks again and leaves the session; then all wait.
void fork_bomb(int limit) {
  for (int left = limit; left > 1; left /= 2) {
    if (::fork() == 0) ::setsid();
  }
}

void* volatile kept;  // an allocation that nobody keeps may be optimised away

void allocate(std::size_t limit_bytes, bool through_new) {
  constexpr std::size_t kPiece = 8 << 20;
  for (std::size_t got = 0; got < limit_bytes; got += kPiece) {
    void* piece = through_new ? ::operator new(kPiece) : std::malloc(kPiece);
    std::memset(piece, 1, kPiece);  // malloc's null is written to, as careless programs do
    kept = piece;
  }
}

// The output folder's file c.npy: `columns` FP32 values a row, row-major.
void write_npy(const std::vector<float>& values, std::size_t rows, std::size_t columns, std::size_t missing_bytes) {
  const char* folder = std::getenv("PINCH_OUTPUTS");
  if (folder == nullptr) std::exit(9);
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                       std::to_string(columns) + "), }";
  header.resize(117, ' ');
  header += '\n';
  std::FILE* file = std::fopen((std::string(folder) + "/c.npy").c_str(), "wb");
  if (file == nullptr) std::exit(9);
  std::fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file);
  std::fwrite(header.data(), 1, header.size(), file);
  const std::size_t bytes = values.size() * sizeof(float) - missing_bytes;
  std::fwrite(values.data(), 1, bytes, file);
  std::fclose(file);
}

std::vector<float> right_values() {
  std::vector<float> values(64 * 64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1 + static_cast<float>(i % 97) / 64;
  return values;
}

int run(const std::string& kind, const char* argument) {
  const long number = argument == nullptr ? 0 : std::atol(argument);
  if (kind == "ok") {
    print_metric();
  } else if (kind == "exit") {
    std::fprintf(stderr, "refused: launch of 4096 threads\n");
    return static_cast<int>(number);
  } else if (kind == "segfault") {
    std::fprintf(stderr, "about to write to address 0\n");
    *static_cast<volatile int*>(nullptr) = 1;
  } else if (kind == "abort") {
    std::abort();
  } else if (kind == "hang") {
    hang_with_signals_masked();
  } else if (kind == "grandchildren") {
    leave_grandchildren();
    print_metric();
  } else if (kind == "bomb") {
    fork_bomb(static_cast<int>(number));
    sleep_for_ever();
  } else if (kind == "allocate") {
    allocate(static_cast<std::size_t>(number) << 20, /*through_new=*/true);
    print_metric();
  } else if (kind == "allocate_unchecked") {
    allocate(static_cast<std::size_t>(number) << 20, /*through_new=*/false);
    print_metric();
  } else if (kind == "allocate_in_children" || kind == "allocate_in_sessions") {
    // Each stays below the limit that all of them together pass.
    for (int child = 0; child < 8; ++child) {
      if (::fork() == 0) {
        if (kind == "allocate_in_sessions") ::setsid();
        allocate(static_cast<std::size_t>(number) << 20, /*through_new=*/true);
        sleep_for_ever();
      }
    }
    sleep_for_ever();
  } else if (kind == "flood") {
    const std::string block(1 << 20, 'x');
    for (long mib = 0; mib < number; ++mib) {
      if (std::fwrite(block.data(), 1, block.size(), stdout) != block.size()) return 8;
    }
    std::puts("");
    print_metric();
  } else if (kind == "endless_flood") {
    const std::string block(1 << 16, 'x');
    for (;;) std::fwrite(block.data(), 1, block.size(), stdout);
  } else if (kind == "chatter") {  // more than 4 KiB of stderr, the end of it known
    for (int line = 0; line < 1000; ++line) std::fprintf(stderr, "line %d\n", line);
    return 1;
  } else if (kind == "no_metric") {
    std::puts("done");
  } else if (kind == "right") {
    write_npy(right_values(), 64, 64, 0);
    print_metric();
  } else if (kind == "nan") {
    auto values = right_values();
    values[77] = __builtin_nanf("");
    write_npy(values, 64, 64, 0);
    print_metric();
  } else if (kind == "truncated") {
    write_npy(right_values(), 64, 64, 1000);
    print_metric();
  } else if (kind == "wrong_tile") {  // rows 16..31, columns 32..47
    auto values = right_values();
    for (std::size_t row = 16; row < 32; ++row) {
      for (std::size_t column = 32; column < 48; ++column) values[row * 64 + column] += 0.5F;
    }
    write_npy(values, 64, 64, 0);
    print_metric();
  } else if (kind == "flaky") {  // wrong where the count in file `argument` reaches a multiple of 20
    std::FILE* file = std::fopen(argument, "a+b");
    if (file == nullptr) return 9;
    std::fputc('.', file);
    std::fflush(file);
    const long runs = std::ftell(file);
    std::fclose(file);
    auto values = right_values();
    if (runs % 20 == 0) values[5] += 1.0F;
    write_npy(values, 64, 64, 0);
    print_metric();
  } else {
    std::fprintf(stderr, "unknown kind '%s'\n", kind.c_str());
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : nullptr);
}
