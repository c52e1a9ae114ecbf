// pinch check compare: is a changed program still right.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "apps/pinch/check_options.h"
#include "apps/pinch/enum_option.h"
#include "apps/pinch/interrupt.h"
#include "src/core/json_text.h"
#include "src/core/temporary_folder.h"
#include "workbench/check/gate.h"

namespace pinch::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct CompareOptions {
  check::Change change = check::Change::kReorder;
  std::string baseline, candidate, reference, tensor, dtype, shape, intermediate;
  check::Formats formats;
  ProgramOptions program;  ///< that makes the reference; none
  JsonOption json;
};

Result<DType> type_of(const std::string& name, const std::string& option) {
  const auto type = check::parse_type(name);
  if (type) return *type;
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("'{}' is none of bf16, f16, f32, f64, e4m3, e5m2, e2m1, u8", name), option};
}

Result<std::optional<check::Array::Layout>> raw_layout(const CompareOptions& options) {
  if (options.dtype.empty() && options.shape.empty()) return std::optional<check::Array::Layout>{};
  PINCH_ASSIGN(type, type_of(options.dtype, "--dtype"));
  check::Array::Layout layout{type, {}};
  for (std::size_t at = 0; at < options.shape.size();) {
    char* end = nullptr;
    const long long size = std::strtoll(options.shape.c_str() + at, &end, 10);
    at = static_cast<std::size_t>(end - options.shape.c_str());
    if (size < 0 || (*end != 'x' && *end != '\0') || end == options.shape.c_str()) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("'{}' is no shape; write 64x128", options.shape),
                   "--shape"};
    }
    layout.shape.push_back(size);
    ++at;
  }
  return std::optional(layout);
}

ordered_json difference_json(const check::Difference& difference) {
  ordered_json ulps = ordered_json::object();
  for (std::size_t i = 0; i < difference.ulps.size(); ++i) {
    const std::string name = i < check::kUlpEdges.size() ? fmt::format("<={}", check::kUlpEdges[i]) : "more";
    ulps[name] = difference.ulps[i];
  }
  return {{"elements", difference.elements},
          {"differing", difference.differing},
          {"rel_l2", difference.rel_l2},
          {"max_abs", difference.max_abs},
          {"cosine", difference.cosine},
          {"nonfinite", difference.nonfinite},
          {"mask_differs", difference.mask_differs},
          {"ulps", ulps}};
}

ordered_json worst_json(const check::Difference& difference) {
  if (difference.worst.empty()) return nullptr;
  const auto number = [](double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json(fmt::format("{}", value));
  };
  ordered_json worst{{"index", difference.worst}};
  if (difference.worst.size() >= 2) {  // of a product: the row of the left operand, the column of the right one
    worst["row"] = difference.worst[difference.worst.size() - 2];
    worst["column"] = difference.worst.back();
  }
  worst["candidate"] = number(difference.worst_a);
  worst["expected"] = number(difference.worst_b);
  return worst;
}

struct Pair {
  std::string name, baseline, candidate, reference;
};

// Two files, or two folders of `record` (or of plain outputs) with the same files in them.
Result<std::vector<Pair>> pairs_of(const CompareOptions& options) {
  std::error_code ignored;
  const auto outputs = [&](const std::string& path) {
    return fs::is_directory(path + "/outputs", ignored) ? path + "/outputs" : path;
  };
  const std::string baseline = outputs(options.baseline), candidate = outputs(options.candidate);
  const std::string reference = options.reference.empty() ? "" : outputs(options.reference);
  if (!fs::is_directory(baseline, ignored)) {
    const bool one_of_many = fs::is_directory(reference, ignored);
    return std::vector<Pair>{
        {"", baseline, candidate, one_of_many ? reference + "/" + fs::path(baseline).filename().string() : reference}};
  }
  PINCH_ASSIGN(files, check::hash_folder(baseline));
  PINCH_ASSIGN(others, check::hash_folder(candidate));
  std::vector<Pair> pairs;
  for (const auto& [name, hash] : files) {
    if (!others.contains(name)) return Error{ErrorCode::kNotFound, fmt::format("has no output {}", name), candidate};
    pairs.push_back(
        {name, baseline + "/" + name, candidate + "/" + name, reference.empty() ? "" : reference + "/" + name});
  }
  if (pairs.empty()) return Error{ErrorCode::kNotFound, "has no outputs", baseline};
  for (const auto& [name, hash] : others) {
    if (!files.contains(name))
      return Error{ErrorCode::kNotFound, fmt::format("has no output {}, which {} has", name, candidate), baseline};
  }
  return pairs;
}

// What a folder's manifest says of its inputs; none where it is no recording. Errors: kCorrupt where its outputs are no
// longer those that were recorded.
Result<std::optional<ordered_json>> recorded_inputs(const std::string& folder) {
  std::ifstream file(folder + "/manifest.json");
  if (!file) return std::optional<ordered_json>{};
  const auto manifest = ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object() || !manifest.contains("outputs") || !manifest.contains("inputs")) {
    return std::optional<ordered_json>{};
  }
  PINCH_ASSIGN(hashes, check::hash_folder(folder + "/outputs"));
  const auto now = ordered_json::parse(json_text(ordered_json(hashes)));
  for (const auto& [name, hash] : manifest["outputs"].items()) {
    if (now.contains(name) && now[name] == hash) continue;
    return Error{ErrorCode::kCorrupt,
                 fmt::format("output {} {}; record it again", name,
                             now.contains(name) ? "has changed since it was recorded" : "is not there any more"),
                 folder};
  }
  return std::optional(manifest["inputs"]);
}

// Recordings of one program on two inputs differ for no fault of its own.
Result<void> check_recordings(const CompareOptions& options) {
  PINCH_ASSIGN(baseline, recorded_inputs(options.baseline));
  const auto same_inputs = [&](const std::optional<ordered_json>& inputs, const std::string& where) -> Result<void> {
    if (!baseline || !inputs || *baseline == *inputs) return {};
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("its inputs are not those of {}; record both with the same --inputs", options.baseline),
                 where};
  };
  PINCH_ASSIGN(candidate, recorded_inputs(options.candidate));
  PINCH_TRY(same_inputs(candidate, options.candidate));
  PINCH_ASSIGN(reference, recorded_inputs(options.reference));
  PINCH_TRY(same_inputs(reference, options.reference));
  const std::string& given = options.program.program.inputs;
  if (given.empty()) return {};
  PINCH_ASSIGN(hashes, check::hash_folder(given));
  return same_inputs(ordered_json::parse(json_text(ordered_json(hashes))), given);
}

// Without a type, bytes can be equal or not, and no more.
Result<std::optional<check::Array::Layout>> as_bytes(const std::string& path) {
  const std::string kind = fs::path(path).extension();
  if (kind == ".npy" || kind == ".safetensors") return std::optional<check::Array::Layout>{};
  std::error_code failed;
  const auto size = fs::file_size(path, failed);
  if (failed) return Error{ErrorCode::kNotFound, "cannot be read: " + failed.message(), path};
  return std::optional(check::Array::Layout{DType::kU8, {static_cast<std::int64_t>(size)}});
}

Result<check::Gate> judge_pair(const CompareOptions& options, const Pair& pair,
                               std::optional<check::Array::Layout> raw) {
  if (!raw && options.change == check::Change::kReorder) {
    PINCH_ASSIGN(bytes, as_bytes(pair.baseline));
    PINCH_ASSIGN(others, as_bytes(pair.candidate));
    if (bytes && others && bytes->shape != others->shape) {
      check::Gate gate;
      gate.reason = fmt::format("{} bytes where the baseline has {}", others->shape[0], bytes->shape[0]);
      return gate;
    }
    raw = bytes;
  }
  PINCH_ASSIGN(baseline, check::Array::open(pair.baseline, options.tensor, raw));
  PINCH_ASSIGN(candidate, check::Array::open(pair.candidate, options.tensor, raw));
  std::optional<check::Array> reference;
  if (!pair.reference.empty()) {
    // A raw reference may be of another type than the outputs; a .npy says its own.
    PINCH_ASSIGN(opened, check::Array::open(pair.reference, options.tensor, raw));
    reference = std::move(opened);
  }
  return check::judge(options.change, baseline, candidate, reference ? &*reference : nullptr, options.formats);
}

// Runs the reference program, whose outputs bear the names of the baseline's.
Result<void> make_reference(CompareOptions& options, const std::string& folder) {
  const InterruptGuard interrupt;
  const check::Program& program = options.program.program;
  PINCH_ASSIGN(run, check::run_program(program, folder, [&] { return interrupt.requested(); }));
  if (!run.ended_well) {
    return Error{ErrorCode::kIllegal, fmt::format("the reference {}\n{}", run.ending, run.err), program.argv.front()};
  }
  options.reference = folder;
  return {};
}

int compare(CompareOptions& options) {
  const auto scratch = TemporaryFolder::create();
  if (!scratch) return report(scratch.error());
  if (!options.program.program.argv.empty()) {
    if (!options.reference.empty()) {
      return report({ErrorCode::kInvalidArgument, "give --reference or a command that makes it, not both", ""});
    }
    const auto made = make_reference(options, scratch->path() + "/outputs");
    if (!made) return made.error().code == ErrorCode::kInterrupted ? kSignalled : report(made.error());
  }
  const auto raw = raw_layout(options);
  if (!raw) return report(raw.error());
  if (!options.intermediate.empty()) {
    const auto type = type_of(options.intermediate, "--intermediate");
    if (!type) return report(type.error());
    options.formats.intermediate = *type;
  }
  if (const auto comparable = check_recordings(options); !comparable) return report(comparable.error());
  const auto pairs = pairs_of(options);
  if (!pairs) return report(pairs.error());
  ordered_json document, files = ordered_json::array();
  std::string text;
  bool passed = true;
  for (const Pair& pair : *pairs) {
    const auto gate = judge_pair(options, pair, *raw);
    if (!gate) return report(gate.error());
    const check::Difference& difference = gate->candidate;
    ordered_json entry{{"verdict", gate->passed ? "pass" : "fail"},
                       {"gate", check::to_string(options.change)},
                       {"reason", gate->reason},
                       {"bitwise", difference.bitwise},
                       {"rel_l2", difference.rel_l2},
                       {"max_abs", difference.max_abs},
                       {"cosine", difference.cosine},
                       {"worst", worst_json(difference)},
                       {"pattern", difference.pattern},
                       {"candidate", difference_json(difference)}};
    if (gate->baseline) {
      entry["baseline"] = difference_json(*gate->baseline);
      if (gate->excess) entry["ratio_95"] = {gate->excess->low, gate->excess->high};
    }
    if (gate->absolute_bound) entry["absolute_bound"] = *gate->absolute_bound;
    if (!pair.name.empty()) entry["output"] = pair.name;
    text += fmt::format("{}{}: {}\n", pair.name.empty() ? "" : pair.name + " ", gate->passed ? "pass" : "FAIL",
                        gate->reason);
    text += fmt::format("  rel_l2 {:.3g}, max {:.3g}, {} of {} elements differ{}\n", difference.rel_l2,
                        difference.max_abs, difference.differing, difference.elements,
                        difference.pattern.empty() ? "" : " (" + difference.pattern + ")");
    if (difference.differing > 0) {
      text += fmt::format("  worst [{}]: {} where {} is expected\n  units in the last place:",
                          fmt::join(difference.worst, ", "), difference.worst_a, difference.worst_b);
      for (std::size_t i = 0; i < difference.ulps.size(); ++i) {
        text += fmt::format(" {} {}", i < check::kUlpEdges.size() ? fmt::format("<={}:", check::kUlpEdges[i]) : "more:",
                            difference.ulps[i]);
      }
      text += '\n';
    }
    if (difference.nonfinite > 0) text += fmt::format("  {} elements are NaN or infinite\n", difference.nonfinite);
    // The document is the worst output's, with all of them beside it.
    if (document.is_null() || (passed && !gate->passed)) document = entry;
    passed = passed && gate->passed;
    files.push_back(std::move(entry));
  }
  if (files.size() > 1) document["outputs"] = std::move(files);
  return finish_check(options.json, document, text, passed ? kOk : kFailed);
}

}  // namespace

void add_check_compare(CLI::App& check, int& status) {
  auto* comparer = check.add_subcommand("compare", "Hold a candidate's outputs against the baseline's");
  auto compare_options = std::make_shared<CompareOptions>();
  add_enum(*comparer, "--change", compare_options->change, {check::Change::kReorder, check::Change::kAlgebra},
           "What the change claims: reorder must be equal to the bit, algebra may not have a larger error");
  comparer->add_option("--baseline", compare_options->baseline, "File, or folder of `record`")
      ->required()
      ->type_name("A");
  comparer->add_option("--candidate", compare_options->candidate, "The same of the changed program")
      ->required()
      ->type_name("B");
  comparer
      ->add_option("--reference", compare_options->reference,
                   "The same in FP32 or FP64, what algebra is judged against")
      ->type_name("R");
  comparer->add_option("--tensor", compare_options->tensor, "Tensor of .safetensors files")->type_name("NAME");
  comparer->add_option("--dtype", compare_options->dtype, "Type of raw files")->type_name("TYPE");
  comparer->add_option("--shape", compare_options->shape, "Shape of raw files, as 64x128")->type_name("SHAPE");
  comparer
      ->add_option("--intermediate", compare_options->intermediate,
                   "Narrowest type that values pass through; default the output's")
      ->type_name("TYPE");
  comparer->add_option("--terms", compare_options->formats.terms, "Products summed for one element")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  compare_options->program.add_to(*comparer, "A program that makes the reference, after --, instead of --reference",
                                  /*required=*/false);
  compare_options->json.add_to(*comparer);
  comparer->callback([compare_options, &status] { status = compare(*compare_options); });
}

}  // namespace pinch::cli
