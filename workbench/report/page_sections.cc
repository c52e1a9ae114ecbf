#include <fmt/core.h>

#include "workbench/report/page.h"
#include "workbench/report/sections.h"

namespace pinch::report {
namespace {

using nlohmann::ordered_json;

Result<void> add(const ordered_json& json, const std::string& name, Page& page) {
  if (json.is_array()) {
    for (const auto& each : json) PINCH_TRY(add(each, name, page));
  } else if (json.contains("picks")) {
    page.sections.push_back(tune_section(json));
  } else if (json.contains("subject") && json.contains("problems")) {
    for (Section& section : sweep_sections(json)) page.sections.push_back(std::move(section));
  } else if (json.contains("clusters")) {
    page.sections.push_back(flake_section(json, name));
  } else if (json.contains("gate") && json.contains("candidate")) {
    page.sections.push_back(compare_section(json, name));
  } else if (json.contains("needed")) {
    page.sections.push_back(bisect_section(json, name));
  } else if (json.contains("kernels")) {
    page.sections.push_back(sass_section(json, name));
  } else if (json.contains("roles") && json.contains("critical_role")) {
    page.sections.push_back(trace_section(json));
  } else {
    return Error{ErrorCode::kInvalidArgument,
                 "is no trace, and no document of pinch tune, sweep, check, sass or trace (--json FILE)", name};
  }
  return {};
}

}  // namespace

Result<Page> page_of(const std::vector<Document>& documents) {
  Page page;
  page.title = "Pinch report";
  for (const Document& document : documents) {
    try {
      if (document.is_trace) {
        PINCH_ASSIGN(section, trace_section(document.name));
        page.sections.push_back(std::move(section));
      } else {
        PINCH_TRY(add(document.json, document.name, page));
      }
    } catch (const nlohmann::json::exception& error) {
      return Error{ErrorCode::kCorrupt, fmt::format("not as pinch writes it: {}", error.what()), document.name};
    }
  }
  return page;
}

}  // namespace pinch::report
