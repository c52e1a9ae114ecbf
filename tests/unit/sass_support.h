// The kernels of tests/data/sass, read for the tests.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "workbench/sass/analysis.h"
#include "workbench/sass/input.h"

namespace pinch::sass::test {

inline std::string data_path(const std::string& name) {
  return std::string(PINCH_SOURCE_DIR) + "/tests/data/sass/" + name;
}

inline std::shared_ptr<const std::string> read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return std::make_shared<const std::string>(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// With the opcode map alone, so that the tests read the same on every machine.
inline Program program_at(const std::string& path) {
  InputOptions options;
  options.disassembler = "none";
  auto program = read_program(path, options);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message());
  return program.ok() ? std::move(program.value()) : Program{};
}

inline Program program_of(const std::string& name) {
  return program_at(data_path(name));
}

inline const Kernel& kernel_of(const Program& program, const std::string& name) {
  static const Kernel none;
  for (const Kernel& kernel : program.kernels) {
    if (kernel.name == name) return kernel;
  }
  ADD_FAILURE() << "no kernel " << name;
  return none;
}

inline KernelReport report_of(const Program& program, const std::string& name, const AnalysisOptions& options = {}) {
  auto report = analyse_kernel(kernel_of(program, name), nullptr, options);
  EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message());
  return report.ok() ? std::move(report.value()) : KernelReport{};
}

inline Program from_text(const std::string& text) {
  auto program = read_program_bytes(std::make_shared<const std::string>(text), "text", {});
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message());
  return program.ok() ? std::move(program.value()) : Program{};
}

inline Result<Program> read_bytes(const std::string& bytes) {
  return read_program_bytes(std::make_shared<const std::string>(bytes), "planted", {});
}

inline std::vector<std::string> paths(const Kernel& kernel) {
  std::vector<std::string> made;
  for (const SourceFile& file : kernel.files) made.push_back(file.path());
  return made;
}

inline double pipe(const LoopReport& loop, Pipe p) {
  return loop.pipes[static_cast<std::size_t>(p)];
}

// One loop: `body` lines of "control|text", then a branch back.
struct Line {
  Control control;
  std::string text;
};

inline Program loop_of(const std::vector<Line>& body) {
  std::string text = "\t.target\tsm_90a\n\t.section\t.text.loop,\"ax\"\n.L_x_0:\n";
  int offset = 0;
  const auto add = [&](const Control& c, const std::string& line) {
    const std::uint64_t field = c.stall | std::uint64_t{c.keeps_warp} << 4 | std::uint64_t{c.write_barrier} << 5 |
                                std::uint64_t{c.read_barrier} << 8 | std::uint64_t{c.wait_mask} << 11 |
                                std::uint64_t{c.reuse} << 17;
    text += fmt::format("        /*{:04x}*/   {} ;   /* 0x{:016x} */\n     /* 0x{:016x} */\n", offset, line, 0,
                        field << 41);
    offset += 16;
  };
  for (const Line& line : body) add(line.control, line.text);
  add({.stall = 1, .keeps_warp = true}, "@P0 BRA `(.L_x_0)");
  add({.stall = 5}, "EXIT");
  return from_text(text);
}

inline constexpr Control kNext{.stall = 1, .keeps_warp = true};

}  // namespace pinch::sass::test
