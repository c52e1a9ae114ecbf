// A subject: a program to sweep, as its TOML file describes it (docs/subject.md).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pinch/result.h"
#include "pinch/tensor.h"
#include "workbench/check/gate.h"
#include "workbench/check/inputs.h"
#include "workbench/pattern/pattern.h"
#include "workbench/sweep/expression.h"
#include "workbench/sweep/value.h"

namespace pinch::sweep {

/// How a knob reaches the program.
enum class KnobKind : std::uint8_t {
  kArg,     ///< stands in `command` as ${name}
  kEnv,     ///< an environment variable
  kDefine,  ///< -DTARGET=VALUE in the build command, at ${defines}
};

struct Knob {
  std::string name;
  KnobKind kind = KnobKind::kArg;
  std::string target;  ///< of kEnv and kDefine: the variable's or the macro's name
  std::vector<Value> values;
  std::size_t standard = 0;  ///< index of the default in `values`
};

/// A number or a list of them that a problem is made of.
struct Axis {
  std::string name;
  std::vector<Value> values;
};

/// A point that breaks a constraint cannot work; one that breaks a contract may seem to, and is unsafe.
struct Rule {
  std::string id;
  Expression require;
  std::string reason;
  bool contract = false;
};

struct Input {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<Expression> shape;
  check::Distribution distribution = check::Distribution::kNormal;
  std::int64_t seed = 1;
  std::string file;  ///< taken from here instead (.npy, .safetensors); absolute
};

struct Output {
  std::string name;
  std::string file;               ///< within PINCH_OUTPUTS
  std::string tensor;             ///< of a .safetensors file; empty: its only one
  std::optional<DType> dtype;     ///< of a raw file
  std::vector<Expression> shape;  ///< of a raw file
};

enum class MetricKind : std::uint8_t { kJson, kRegex, kFile, kWall };
struct Metric {
  MetricKind kind = MetricKind::kWall;
  std::string name;                ///< JSON key, or what the number is called
  std::optional<Pattern> pattern;  ///< of kRegex; one group
  std::string file;                ///< within PINCH_OUTPUTS
  std::string unit = "s";
  bool lower_is_better = true;
};

struct Build {
  std::vector<std::string> command;
  std::vector<std::string> sources;  ///< absolute; their contents are part of build_key()
  std::string binary = "subject";    ///< file name of ${binary}
  double timeout_s = 600;
};

struct Subject {
  std::string name;
  std::string file;    ///< absolute path of the TOML file
  std::string folder;  ///< where commands run; absolute
  std::string text;    ///< the file's contents: part of the key of every stored result
  std::vector<std::string> command;
  std::vector<std::string> sources;  ///< absolute; files that the program imports or reads
  std::optional<Build> build;
  std::vector<Axis> problem;
  std::vector<Knob> knobs;
  std::vector<std::pair<std::string, Expression>> lets;  ///< derived values, each after those it reads
  std::vector<Rule> rules;                               ///< constraints first
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  check::Change change = check::Change::kReorder;  ///< how outputs are compared with the baseline's
  bool nan_allowed = false;                        ///< in outputs
  Metric metric;
  std::vector<std::pair<std::string, std::string>> environment;
  double timeout_s = 60;
  std::uint64_t memory_bytes = 0;
  std::vector<int> cpus;
  int gpus = 0;  ///< that a point needs

  [[nodiscard]] const Knob* knob(std::string_view name) const;
  /// Knobs and axes, in the order of the file: what expressions may read beside the lets.
  [[nodiscard]] std::vector<std::string> names() const;
};

/// Reads a subject file. Errors: kNotFound, kIo; kInvalidArgument with "FILE:LINE: " and what is allowed: TOML that is
/// none, unknown keys, values of a wrong kind, names used twice or not at all, expressions that do not parse or read an
/// unknown name, lets in a cycle, defaults that are no value of their knob.
Result<Subject> read_subject(const std::string& path);
/// The same from text; `path` stands for the file in messages, relative paths are under its folder.
Result<Subject> parse_subject(std::string_view text, const std::string& path);

using Values = std::map<std::string, Value, std::less<>>;

/// The sizes that shape expressions give. Errors: those of evaluating; kInvalidArgument for one that is no integer.
Result<Shape> shape_of(const std::vector<Expression>& shape, const Values& values);

/// `text` with every ${name} replaced; $${ is a literal ${, any other $ itself. Errors: kInvalidArgument for an unknown
/// name or an unclosed "${".
Result<std::string> substitute(std::string_view text, const Values& values);

}  // namespace pinch::sweep
