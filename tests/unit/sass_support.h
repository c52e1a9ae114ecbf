// The kernels of tests/data/sass, read for the tests.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

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

}  // namespace pinch::sass::test
