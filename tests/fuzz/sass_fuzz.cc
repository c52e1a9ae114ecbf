// Any bytes are either refused, naming the file, or give kernels that can be analysed, printed and compared.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/fuzz/require.h"
#include "workbench/sass/analysis.h"
#include "workbench/sass/diff.h"
#include "workbench/sass/input.h"
#include "workbench/sass/line_table.h"
#include "workbench/sass/report_json.h"
#include "workbench/sass/report_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pinch::sass;
  const Bytes bytes = std::as_bytes(std::span(data, size));
  const LineTable lines = read_line_table(bytes, {{0x30, 1}, {read_at<std::uint16_t>(bytes, 0).value_or(0), 2}});
  for (const auto& [function, rows] : lines.functions) {
    for (const LineRow& row : rows) require(row.line == 0 || row.file < lines.files.size());
  }
  InputOptions input;
  input.disassembler = "none";
  const auto program =
      read_program_bytes(std::make_shared<const std::string>(reinterpret_cast<const char*>(data), size), "fuzz", input);
  if (!program.ok()) {
    require(program.error().where.rfind("fuzz", 0) == 0 && !program.error().text.empty());
    return 0;
  }
  AnalysisOptions options;
  options.arch = "sm_90a";
  options.warps = 2;
  const auto reports = analyse(*program, options);
  if (!reports.ok()) return 0;  // an arch without a machine model
  for (const KernelReport& report : *reports) {
    for (const LoopReport& loop : report.loops) {
      require(loop.begin < loop.end && loop.instructions > 0);
      require(loop.bound_cycles >= 0 && loop.simulated_cycles.value_or(0) >= 0);
    }
    require(!listing(*report.kernel, report.flow).empty());
    require(!table(report, options).empty());
  }
  static_cast<void>(to_json(*reports, options).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  const auto same = diff(*reports, *reports);
  require(same.ok());
  for (const KernelPair& pair : same->kernels) require(pair.a != nullptr && pair.b != nullptr);
  return 0;
}
