// pinch sass on a page.
#include <fmt/core.h>

#include <algorithm>

#include "workbench/report/sections.h"

namespace pinch::report {

using nlohmann::ordered_json;

Section sass_section(const ordered_json& document, const std::string& name) {
  Section section{"Machine code: " + name, {}, {}};
  Table kernels{{"kernel", "arch", "registers", "frame bytes", "spills", "arrays", "built with"}, {}};
  Figure loops{"Loops",
               "Simulated time over what the busiest unit and the longest chain allow, by kernel and first byte; the "
               "dashed rule is that bound. Loops that only wait are left out.",
               Bars{},
               {},
               {},
               {{"kernel", "loop", "role", "warps", "instructions", "bound by", "bound cycles", "simulated", "slack",
                 "findings"},
                {}}};
  loops.bars->unit = "simulated over the bound";
  loops.bars->rule = 1;
  for (const auto& kernel : document.at("kernels")) {
    const auto& local = kernel.at("local");
    const auto sum = [&](const char* loads, const char* stores) {
      return std::to_string(local.at(loads).get<int>() + local.at(stores).get<int>());
    };
    const std::string kernel_name = text_of(kernel.at("name"));
    kernels.rows.push_back({kernel_name, text_of(kernel.at("arch")), text_of(kernel.at("registers")),
                            text_of(kernel.at("frame_bytes")), sum("spill_loads", "spill_stores"),
                            sum("array_loads", "array_stores"), text_of(kernel.at("built_with"))});
    for (const auto& loop : kernel.at("loops")) {
      if (loop.at("spins").get<bool>()) continue;
      const auto slack = number_of(loop.at("slack"));
      std::string findings;
      for (const auto& lint : loop.at("lints")) findings += (findings.empty() ? "" : ", ") + text_of(lint.at("id"));
      loops.table.rows.push_back({kernel_name, text_of(loop.at("begin")), text_of(loop.at("role")),
                                  text_of(loop.at("warps")), text_of(loop.at("instructions")),
                                  text_of(loop.at("bound_by")), text_of(loop.at("warps_bound_cycles")),
                                  text_of(loop.at("simulated_cycles")), text_of(loop.at("slack")), findings});
      if (slack && loops.bars->list.size() < kBars)
        loops.bars->list.push_back(
            {fmt::format("{} +{}", kernel_name, text_of(loop.at("begin"))), "other", *slack, {}, {}});
    }
  }
  section.figures.push_back(table_figure("Kernels", "", std::move(kernels)));
  if (!loops.table.rows.empty()) section.figures.push_back(std::move(loops));
  return section;
}

}  // namespace pinch::report
