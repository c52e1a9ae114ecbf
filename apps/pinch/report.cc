// pinch report: results as one page.
#include <fmt/core.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "apps/pinch/cli.h"
#include "workbench/report/page.h"
#include "workbench/trace/reader.h"

namespace pinch::cli {
namespace {

constexpr const char* kReportExamples = R"(Examples:
  pinch tune gemm --m 1,128 --n 4096 --k 4096 --json tune.json
  pinch report tune.json --out report.html
  pinch report tune.json sweep.json flake.json kernel.trace --out report.html --markdown report.md

The page needs nothing beside itself and asks for nothing: style, charts and data are in the one file.)";

struct ReportOptions {
  std::vector<std::string> documents;
  std::string html, markdown;
  JsonOption json;
};

int write_report(const ReportOptions& options) {
  std::vector<report::Document> documents;
  for (const std::string& path : options.documents) {
    std::ifstream file(path, std::ios::binary);
    if (!file)
      return report(
          {ErrorCode::kNotFound,
           "cannot be opened; give what pinch tune, sweep, check, sass or trace wrote with --json, or a trace", path});
    if (trace::is_trace(file)) {
      documents.push_back({path, nullptr, true});
      continue;
    }
    documents.push_back({path, nlohmann::ordered_json::parse(file, nullptr, /*allow_exceptions=*/false)});
    if (documents.back().json.is_discarded()) return report({ErrorCode::kCorrupt, "is no JSON", path});
  }
  const auto page = report::page_of(documents);
  if (!page) return report(page.error());
  if (!options.html.empty()) {
    if (const auto done = write_result(options.html, report::to_html(*page), "the page"); !done)
      return report(done.error());
  }
  const std::string markdown = report::to_markdown(*page);
  if (!options.markdown.empty()) {
    if (const auto done = write_result(options.markdown, markdown, "Markdown"); !done) return report(done.error());
  }
  const auto written = options.json.write(report::to_json(*page));
  if (!written) return report(written.error());
  if (options.html.empty() && options.markdown.empty() && !options.json.given()) fmt::print("{}", markdown);
  return kOk;
}

}  // namespace

void add_report(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("report", "Make one self-contained page of results");
  command->footer(kReportExamples);
  auto options = std::make_shared<ReportOptions>();
  command
      ->add_option("documents", options->documents,
                   "Traces, and what tune, sweep, check, sass and trace wrote with --json")
      ->required()
      ->type_name("DOCUMENT");
  command->add_option("--out", options->html, "The HTML file; without any output Markdown goes to stdout")
      ->type_name("FILE");
  command->add_option("--markdown", options->markdown, "The same as Markdown")->type_name("FILE");
  options->json.add_to(*command);
  command->callback([options, &status] { status = write_report(*options); });
}

}  // namespace pinch::cli
