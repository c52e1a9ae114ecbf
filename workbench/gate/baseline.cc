#include "workbench/gate/baseline.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "src/core/fnv.h"
#include "workbench/pattern/pattern.h"
#include "workbench/sass/analysis.h"
#include "workbench/sass/input.h"
#include "workbench/sass/report_json.h"

namespace pinch::gate {
namespace {

using nlohmann::ordered_json;

constexpr const char* kSchema = "pinch-gate/1";
constexpr const char* kSections[] = {"code", "tunes", "checks"};

// --- from documents to entries

// "FFMA 12, MOV 3"
std::string counts_text(const std::map<std::string_view, int>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, count);
  return text;
}

std::map<std::string, int> counts_of(const std::string& text) {
  std::map<std::string, int> counts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(", ", begin), text.size()), space = text.rfind(' ', end - 1);
    counts[text.substr(begin, space - begin)] = std::stoi(text.substr(space + 1, end - space - 1));
    begin = end + 2;
  }
  return counts;
}

// Every word, control codes too, and for people how often each opcode stands there. Null where a listing has no words.
ordered_json words_of(const sass::Kernel& kernel) {
  std::uint64_t digest = kFnvOffset;
  std::map<std::string_view, int> counts;
  for (const sass::Instruction& i : kernel.instructions) {
    if (!i.has_word) return nullptr;
    const std::array words{i.low, i.high};
    digest = fnv({reinterpret_cast<const char*>(words.data()), sizeof words}, digest);
    ++counts[i.mnemonic];
  }
  return {{"instructions", kernel.instructions.size()},
          {"digest", fmt::format("{:016x}", digest)},
          {"opcodes", counts_text(counts)}};
}

// What sass::gate reads of a kernel, its words, and no more: the file is read by people when it changes.
ordered_json code_entry(const ordered_json& kernel, const ordered_json& words) {
  ordered_json entry{
      {"what", fmt::format("{} ({})", kernel.at("name").get<std::string>(), kernel.at("arch").get<std::string>())}};
  for (const char* key :
       {"name", "arch", "built_with", "mnemonics_from", "registers", "frame_bytes", "shared_bytes", "local"})
    entry[key] = kernel.at(key);
  const auto ids = [](const ordered_json& lints) {
    auto list = ordered_json::array();
    for (const auto& lint : lints) list.push_back(lint.at("id"));
    return list;
  };
  entry["lints"] = ids(kernel.at("lints"));
  entry["loops"] = ordered_json::array();
  for (const auto& loop : kernel.at("loops")) {
    ordered_json kept;
    for (const char* key : {"begin", "warps", "sub_partitions", "bound_cycles", "simulated_cycles"})
      kept[key] = loop.at(key);
    kept["lints"] = ids(loop.at("lints"));
    entry["loops"].push_back(std::move(kept));
  }
  entry["words"] = words;
  return entry;
}

std::string text_of(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}
std::string sizes_text(const ordered_json& sizes) {
  std::string text;
  for (const auto& [name, value] : sizes.items())
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, text_of(value));
  return text;
}

// How far the time is above the unit that binds, where a tune knows it.
ordered_json headroom_of(const ordered_json& document) {
  if (!document.contains("findings")) return nullptr;
  for (const auto& finding : document["findings"]) {
    if (finding.value("rung", "") == "throughput") return finding.at("bound_percent");
  }
  return nullptr;
}

// Of pinch tune gemm or attention.
ordered_json tune_entry(const ordered_json& document) {
  ordered_json entry{{"what", sizes_text(document.at("problem"))},
                     {"device", document.at("machine").at("device")},
                     {"isa", document.at("machine").at("isa")},
                     {"compiler", document.at("provenance").at("compiler")},
                     {"default", document.at("default")},
                     {"best", document.at("best")},
                     {"regret", document.at("regret")},
                     {"tie_band", document.at("tie_band")},
                     {"headroom_percent", headroom_of(document)},
                     {"rel_l2", nullptr},
                     {"wrong", ordered_json::array()}};
  for (const auto& pick : document.at("picks")) {
    if (pick.at("tactic") == document.at("best")) entry["rel_l2"] = pick.at("rel_l2");
    if (pick.at("verdict") == "wrong") entry["wrong"].push_back(pick.at("tactic"));
  }
  return entry;
}

// Of pinch tune FILE: one problem of a subject.
ordered_json subject_entry(const ordered_json& document) {
  const auto& problem = document.at("problems").at(0);
  const auto& best = document.at("best");
  const auto& environment = document.at("environment");
  ordered_json entry{{"what", document.at("subject").get<std::string>()},
                     {"device", environment.at("cpu")},
                     {"isa", environment.at("gpus")},
                     {"compiler", nullptr},
                     {"default", nullptr},
                     {"best", best.is_null() ? ordered_json(nullptr) : ordered_json(sizes_text(best.at("knobs")))},
                     {"regret", problem.at("regret_of_default")},
                     {"tie_band", problem.at("band")},
                     {"headroom_percent", headroom_of(document)},
                     {"rel_l2", nullptr},
                     {"wrong", ordered_json::array()}};
  for (const auto& point : document.at("points")) {
    if (entry["what"] == document.at("subject") && !point.at("problem").empty())
      entry["what"] = fmt::format("{} {}", document.at("subject").get<std::string>(), sizes_text(point.at("problem")));
    if (point.at("verdict") == "wrong" || point.at("verdict") == "unstable")
      entry["wrong"].push_back(sizes_text(point.at("knobs")));
  }
  return entry;
}

ordered_json check_entry(const ordered_json& document, const std::string& path) {
  return {{"what", path},
          {"gate", document.at("gate")},
          {"verdict", document.at("verdict")},
          {"rel_l2", document.at("rel_l2")}};
}

Result<void> add_result(const ordered_json& document, const std::string& path, ordered_json& baseline) {
  if (document.is_array()) {
    for (const auto& each : document) PINCH_TRY(add_result(each, path, baseline));
    return {};
  }
  if (document.contains("picks")) {
    baseline["tunes"].push_back(tune_entry(document));
  } else if (document.contains("subject") && document.contains("problems")) {
    baseline["tunes"].push_back(subject_entry(document));
  } else if (document.contains("gate") && document.contains("rel_l2")) {
    baseline["checks"].push_back(check_entry(document, path));
  } else {
    return Error{ErrorCode::kInvalidArgument,
                 "is no document of `pinch tune --json` or `pinch check compare --json`; code is given with --code",
                 path};
  }
  return {};
}

Result<void> read_result(const std::string& path, ordered_json& baseline) {
  std::ifstream file(path);
  if (!file)
    return Error{ErrorCode::kNotFound,
                 "cannot be opened; give what pinch tune or pinch check compare wrote with --json", path};
  const auto document = ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return Error{ErrorCode::kCorrupt, "is no JSON", path};
  try {
    return add_result(document, path, baseline);
  } catch (const nlohmann::json::exception& error) {
    return Error{ErrorCode::kCorrupt, fmt::format("not as pinch writes it: {}", error.what()), path};
  }
}

Result<void> read_code(const std::string& path, const std::string& kernels, ordered_json& baseline) {
  sass::InputOptions input;
  if (!kernels.empty()) {
    PINCH_ASSIGN(wanted, Pattern::compile(kernels, "--kernel"));
    input.wants = [wanted](std::string_view name) { return wanted.found_in(name); };
  }
  input.disassembler = "none";
  PINCH_ASSIGN(program, sass::read_program(path, input));
  const sass::AnalysisOptions options;
  PINCH_ASSIGN(reports, sass::analyse(program, options));
  for (const sass::KernelReport& report : reports)
    baseline["code"].push_back(code_entry(sass::to_json(report, options), words_of(*report.kernel)));
  return {};
}

// --- from two baselines to what changed

class Comparison {
 public:
  explicit Comparison(const Thresholds& thresholds) : thresholds_(thresholds) {}

  Result<Held> run(const ordered_json& baseline, const ordered_json& current) {
    for (const char* section : kSections) {
      section_ = section;
      std::map<std::string, const ordered_json*> now;
      for (const auto& entry : current.at(section)) now[entry.at("what").get<std::string>()] = &entry;
      for (const auto& before : baseline.at(section)) {
        what_ = before.at("what").get<std::string>();
        const auto after = now.find(what_);
        if (after == now.end()) {
          if (!thresholds_.allow_missing) fail("not there now; give its file, or pass --allow-missing");
          continue;
        }
        if (section_ == "code") {
          tools("built with", before.at("built_with"), after->second->at("built_with"));
          if (thresholds_.same_code) same_words(before, *after->second);
        }
        if (section_ == "tunes") tune(before, *after->second);
        if (section_ == "checks") check(before, *after->second);
        now.erase(after);
      }
      for (const auto& [what, entry] : now) held_.unjudged.push_back({section_, what, "not in the baseline"});
    }
    PINCH_TRY(code(baseline, current));
    if (held_.figures > 0 || !held_.failures.empty()) return std::move(held_);
    return Error{ErrorCode::kInvalidArgument, "nothing of the baseline is comparable with these files", ""};
  }

 private:
  void fail(std::string text) { held_.failures.push_back({section_, what_, std::move(text)}); }
  void leave(std::string text) { held_.unjudged.push_back({section_, what_, std::move(text)}); }

  static std::optional<double> known(const ordered_json& value) {
    return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
  }

  // More than `allowed` is a failure; a figure that was known must be known.
  void number(const char* name, const ordered_json& before, const ordered_json& after, double allowed,
              const char* form) {
    const auto was = known(before), is = known(after);
    if (!was) return;
    ++held_.figures;
    const auto text = [&](double value) { return fmt::format(fmt::runtime(form), value); };
    if (!is) return fail(fmt::format("{} not known, baseline {}", name, text(*was)));
    if (*is > allowed) fail(fmt::format("{} {}, baseline {} (allowed {})", name, text(*is), text(*was), text(allowed)));
  }

  void tools(const char* name, const ordered_json& before, const ordered_json& after) {
    if (before.is_null() || before == "" || thresholds_.allow_tools) return;
    ++held_.figures;
    if (before != after) fail(fmt::format("{} \"{}\", baseline \"{}\"", name, text_of(after), text_of(before)));
  }

  void same_words(const ordered_json& before, const ordered_json& after) {
    ++held_.figures;
    const auto &was = before.value("words", ordered_json()), &is = after.at("words");
    if (was.is_null()) return fail("the baseline has no digest of its words; write it again");
    if (is.is_null()) return fail("has no words to compare, as a listing without them");
    if (was.at("digest") == is.at("digest")) return;
    const auto counts = [](const ordered_json& words) { return counts_of(words.at("opcodes").get<std::string>()); };
    std::map<std::string, std::pair<int, int>> changes;
    for (const auto& [name, count] : counts(was)) changes[name].first = count;
    for (const auto& [name, count] : counts(is)) changes[name].second = count;
    std::erase_if(changes, [](const auto& change) { return change.second.first == change.second.second; });
    if (changes.empty())
      return fail(fmt::format("the same {} opcodes in another order, or with other operands or control codes",
                              text_of(is.at("instructions"))));
    std::string text;
    constexpr std::size_t kShown = 8;
    std::size_t shown = 0;
    for (const auto& [name, count] : changes) {
      if (++shown > kShown) break;
      text += fmt::format("{} {} {} -> {}", text.empty() ? "" : ",", name, count.first, count.second);
    }
    if (changes.size() > kShown) text += fmt::format(" and {} more", changes.size() - kShown);
    fail("other instructions:" + text);
  }

  void tune(const ordered_json& before, const ordered_json& after) {
    if (before.at("device") != after.at("device") || before.at("isa") != after.at("isa"))
      return leave("measured on another device, or with other instructions");
    tools("compiler", before.at("compiler"), after.at("compiler"));
    ++held_.figures;
    for (const auto& wrong : after.at("wrong")) fail(fmt::format("{} gives a wrong result", text_of(wrong)));
    const auto was = known(before.at("regret"));
    const double band = std::max(known(before.at("tie_band")).value_or(0), known(after.at("tie_band")).value_or(0));
    number("regret of the default", before.at("regret"), after.at("regret"),
           was.value_or(1) * (1 + band + thresholds_.regret_percent / 100), "{:.3f}");
    number("time above the unit that binds, in percent,", before.at("headroom_percent"), after.at("headroom_percent"),
           known(before.at("headroom_percent")).value_or(0) + thresholds_.headroom_points, "{:.1f}");
    number("relative L2 error of the pick", before.at("rel_l2"), after.at("rel_l2"), error_allowed(before), "{:.4g}");
    ++held_.figures;
    if (before.at("best") == after.at("best")) return;
    const std::string change =
        fmt::format("picks {}, baseline {}", text_of(after.at("best")), text_of(before.at("best")));
    // Another pick is a failure where the default, which both know, costs more than noise either before or now.
    const bool tie = was.value_or(1) <= 1 + band && known(after.at("regret")).value_or(2) <= 1 + band;
    tie ? leave(change + ", both within the noise of the default") : fail(change);
  }

  [[nodiscard]] double error_allowed(const ordered_json& before) const {
    return known(before.at("rel_l2")).value_or(0) * (1 + thresholds_.error_percent / 100);
  }

  void check(const ordered_json& before, const ordered_json& after) {
    ++held_.figures;
    if (before.at("gate") != after.at("gate"))
      fail(fmt::format("held as {}, baseline {}", text_of(after.at("gate")), text_of(before.at("gate"))));
    if (before.at("verdict") != after.at("verdict"))
      fail(fmt::format("verdict {}, baseline {}", text_of(after.at("verdict")), text_of(before.at("verdict"))));
    number("relative L2 error", before.at("rel_l2"), after.at("rel_l2"), error_allowed(before), "{:.4g}");
  }

  // Registers, spills, cycles and findings as sass::gate holds them, of kernels that are there.
  Result<void> code(const ordered_json& baseline, const ordered_json& current) {
    if (baseline.at("code").empty() || current.at("code").empty()) return {};
    sass::GateThresholds thresholds = thresholds_.code;
    thresholds.allow_missing = true;  // said above
    PINCH_ASSIGN(result, sass::gate({{"kernels", baseline.at("code")}}, {{"kernels", current.at("code")}}, thresholds));
    held_.figures += result.compared;
    section_ = "code";
    for (const sass::GateFinding& finding : result.failures) {
      what_ = fmt::format("{} ({})", finding.kernel, finding.arch);
      fail(finding.what);
    }
    return {};
  }

  const Thresholds& thresholds_;
  Held held_;
  std::string section_, what_;
};

}  // namespace

Result<ordered_json> baseline_of(const Sources& sources) {
  ordered_json baseline{{"schema", kSchema}};
  for (const char* section : kSections) baseline[section] = ordered_json::array();
  for (const std::string& path : sources.code) PINCH_TRY(read_code(path, sources.kernels, baseline));
  for (const std::string& path : sources.results) PINCH_TRY(read_result(path, baseline));
  std::size_t entries = 0;
  for (const char* section : kSections) {
    auto& list = baseline[section];
    std::sort(list.begin(), list.end(),
              [](const ordered_json& a, const ordered_json& b) { return a["what"] < b["what"]; });
    // A template that two objects of a program instantiate is in it twice.
    if (std::string_view(section) == "code") list.erase(std::unique(list.begin(), list.end()), list.end());
    for (std::size_t i = 1; i < list.size(); ++i) {
      if (list[i]["what"] == list[i - 1]["what"])
        return Error{ErrorCode::kInvalidArgument, "two of the files hold it; give one of them", list[i]["what"]};
    }
    entries += list.size();
  }
  if (entries > 0) return baseline;
  return Error{ErrorCode::kInvalidArgument, "no figures: give --code FILE or --result DOCUMENT", ""};
}

Result<Held> hold(const ordered_json& baseline, const ordered_json& current, const Thresholds& thresholds) {
  try {
    if (!baseline.is_object() || baseline.value("schema", "") != kSchema)
      return Error{ErrorCode::kCorrupt, "is no baseline; write one with: pinch gate write", ""};
    return Comparison(thresholds).run(baseline, current);
  } catch (const nlohmann::json::exception& error) {
    return Error{ErrorCode::kCorrupt, fmt::format("not as pinch writes it: {}", error.what()), ""};
  }
}

}  // namespace pinch::gate
