#include "workbench/sweep/subject_file.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "src/core/file_error.h"
#include "workbench/sweep/toml_reader.h"

namespace pinch::sweep {
namespace {

namespace fs = std::filesystem;
using check::Change;
using check::Distribution;

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

void require_names(TomlReader& reader, const Expression& expression, std::span<const std::string> allowed) {
  for (std::size_t i = 0; i < expression.names().size(); ++i) {
    if (std::find(allowed.begin(), allowed.end(), expression.names()[i]) == allowed.end()) {
      return reader.fail(expression.unknown_name(i, allowed));
    }
  }
}

void require_variable(TomlReader& reader, const toml::node& place, std::string_view name) {
  if (!name.empty() && name.find('=') == std::string_view::npos && name.find('\0') == std::string_view::npos) return;
  reader.fail(place, fmt::format("{} is no variable's name: at least one character, none of them '=' or NUL",
                                 quote_name(name)));
}

void read_knobs(TomlReader& reader, const toml::table& root, Subject& subject) {
  const toml::table* knobs = reader.table(root, "knobs");
  if (knobs == nullptr) return;
  for (const auto& [key, node] : *knobs) {
    Knob knob;
    knob.name = key.str();
    const toml::table* table = node.as_table();
    if (table == nullptr)
      return reader.fail(node, fmt::format("a knob is a table: [knobs.{}] with values and default", knob.name));
    reader.allow(*table, fmt::format("knob {}", knob.name), {"kind", "target", "values", "default"});
    knob.kind = reader.choice(*table, "kind", KnobKind::kArg,
                              {{"arg", KnobKind::kArg}, {"env", KnobKind::kEnv}, {"define", KnobKind::kDefine}});
    std::string upper = knob.name;
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    knob.target = reader.text(*table, "target", false, upper);
    if (knob.kind == KnobKind::kEnv) require_variable(reader, node, knob.target);
    if (knob.kind == KnobKind::kDefine && !is_name(knob.target)) {
      reader.fail(node, fmt::format("{} is no macro's name: letters, digits and _, not beginning with a digit",
                                    quote_name(knob.target)));
    }
    if (const toml::node* values = reader.get(*table, "values", true, "a value, a list of them, or {from, to, step}")) {
      knob.values = reader.values(*values);
    }
    if (const toml::node* standard = reader.get(*table, "default", true, "one of the values")) {
      const auto wanted = reader.value(*standard);
      const auto found = std::find_if(knob.values.begin(), knob.values.end(),
                                      [&](const Value& each) { return wanted && same(each, *wanted); });
      if (!reader.failed() && found == knob.values.end()) {
        std::vector<std::string> allowed;
        for (const Value& each : knob.values) allowed.push_back(to_string(each));
        if (allowed.size() > 20) allowed.resize(20);
        reader.fail(*standard, fmt::format("default {} is no value of knob {}; values: {}", to_string(*wanted),
                                           knob.name, fmt::join(allowed, ", ")));
      }
      knob.standard = static_cast<std::size_t>(found - knob.values.begin());
    }
    if (reader.failed()) return;
    subject.knobs.push_back(std::move(knob));
  }
}

// toml++ keeps tables sorted by name; a subject's knobs and axes stand in the order of the file.
template <class Named>
void sort_by_place(std::vector<Named>& list, const toml::table& table) {
  std::stable_sort(list.begin(), list.end(), [&](const Named& a, const Named& b) {
    return table.get(a.name)->source().begin < table.get(b.name)->source().begin;
  });
}

void read_lets(TomlReader& reader, const toml::table& root, Subject& subject) {
  const toml::table* lets = reader.table(root, "let");
  if (lets == nullptr) return;
  std::map<std::string, Expression> open;
  for (const auto& [key, node] : *lets) open.emplace(key.str(), reader.expression(node));
  std::vector<std::string> allowed = subject.names();
  for (const auto& [name, expression] : open) allowed.push_back(name);
  for (const auto& [name, expression] : open) require_names(reader, expression, allowed);
  // Those that read nothing open come first; when none is left that does, the rest is in a cycle.
  while (!open.empty() && !reader.failed()) {
    const auto ready = std::find_if(open.begin(), open.end(), [&](const auto& each) {
      const auto& names = each.second.names();
      return std::none_of(names.begin(), names.end(), [&](const std::string& name) { return open.contains(name); });
    });
    if (ready == open.end()) {
      std::vector<std::string> path = {open.begin()->first};
      while (std::find(path.begin(), path.end() - 1, path.back()) == path.end() - 1) {
        const auto& names = open.at(path.back()).names();
        path.push_back(
            *std::find_if(names.begin(), names.end(), [&](const auto& name) { return open.contains(name); }));
      }
      path.erase(path.begin(), std::find(path.begin(), path.end(), path.back()));
      return reader.fail(
          {ErrorCode::kInvalidArgument,
           fmt::format("cyclic_definition: {}; a [let] value may not lead back to itself", fmt::join(path, " -> ")),
           open.at(path.front()).where()});
    }
    subject.lets.emplace_back(ready->first, ready->second);
    open.erase(ready);
  }
}

void read_rules(TomlReader& reader, const toml::table& root, std::string_view key, bool contract, Subject& subject) {
  const toml::node* node = root.get(key);
  if (node == nullptr) return;
  const toml::array* array = node->as_array();
  if (array == nullptr) return reader.fail(*node, fmt::format("rules are written as [[{}]]", key));
  std::vector<std::string> allowed = subject.names();
  for (const auto& [name, expression] : subject.lets) allowed.push_back(name);
  for (const toml::node& each : *array) {
    const toml::table* table = each.as_table();
    if (table == nullptr) return reader.fail(each, fmt::format("rules are written as [[{}]]", key));
    reader.allow(*table, key, {"id", "require", "reason"});
    Rule rule;
    rule.contract = contract;
    if (const toml::node* require =
            reader.get(*table, "require", true, "an expression, as in \"tile * stages <= 4096\"")) {
      rule.require = reader.expression(*require);
    }
    rule.reason = reader.text(*table, "reason", true);
    rule.id = reader.text(*table, "id", false, rule.require.text());
    require_names(reader, rule.require, allowed);
    for (const Rule& other : subject.rules) {
      if (other.id == rule.id) reader.fail(each, fmt::format("the rule {} appears twice", quote_name(rule.id)));
    }
    if (reader.failed()) return;
    subject.rules.push_back(std::move(rule));
  }
}

std::vector<Expression> read_shape(TomlReader& reader, const toml::table& table, const Subject& subject) {
  constexpr std::string_view kAllowed = "a list, as in [\"m\", \"2 * k\", 64]";
  std::vector<Expression> shape;
  const toml::node* node = reader.get(table, "shape", true, kAllowed);
  if (node == nullptr) return shape;
  const toml::array* array = node->as_array();
  if (array == nullptr) return reader.fail(*node, fmt::format("'shape' is {}", kAllowed)), shape;
  std::vector<std::string> axes;
  for (const Axis& axis : subject.problem) axes.push_back(axis.name);
  for (const toml::node& each : *array) {
    shape.push_back(reader.expression(each));
    require_names(reader, shape.back(), axes);
  }
  return shape;
}

DType read_dtype(TomlReader& reader, const toml::table& table) {
  return reader.choice(table, "dtype", DType::kF32,
                       {{"bf16", DType::kBf16},
                        {"f16", DType::kF16},
                        {"f32", DType::kF32},
                        {"f64", DType::kF64},
                        {"e4m3", DType::kF8E4m3},
                        {"e5m2", DType::kF8E5m2},
                        {"e2m1", DType::kF4},
                        {"u8", DType::kU8}},
                       true);
}

// A name becomes a file's name in the folder of inputs.
bool names_file(std::string_view name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !name.empty() && name.size() <= 200 && name.front() != '.' &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

void read_inputs(TomlReader& reader, const toml::table& root, Subject& subject) {
  const toml::table* inputs = reader.table(root, "inputs");
  if (inputs == nullptr) return;
  for (const auto& [key, node] : *inputs) {
    Input input;
    input.name = key.str();
    const toml::table* table = node.as_table();
    if (!names_file(input.name)) {
      return reader.fail(node,
                         fmt::format("input {} cannot be a file's name: use letters, digits, '_', '-' and '.', the "
                                     "last not first, 200 at most",
                                     quote_name(input.name)));
    }
    if (table == nullptr) return reader.fail(node, fmt::format("an input is a table: [inputs.{}]", input.name));
    reader.allow(*table, fmt::format("input {}", input.name), {"dtype", "shape", "distribution", "seed", "file"});
    input.file = reader.text(*table, "file");
    if (!input.file.empty()) {
      reader.allow(*table, "an input taken from a file", {"file"});
      if (fs::path(input.file).is_relative()) input.file = subject.folder + "/" + input.file;
    } else {
      input.dtype = read_dtype(reader, *table);
      input.shape = read_shape(reader, *table, subject);
      input.distribution = reader.choice(*table, "distribution", Distribution::kNormal,
                                         {{"normal", Distribution::kNormal},
                                          {"uniform", Distribution::kUniform},
                                          {"ones", Distribution::kOnes},
                                          {"integers", Distribution::kIntegers}});
      input.seed = reader.integer(*table, "seed", 1);
    }
    if (reader.failed()) return;
    subject.inputs.push_back(std::move(input));
  }
  sort_by_place(subject.inputs, *inputs);
}

void read_outputs(TomlReader& reader, const toml::table& root, Subject& subject) {
  const toml::table* outputs = reader.table(root, "outputs");
  if (outputs == nullptr) return;
  for (const auto& [key, node] : *outputs) {
    Output output;
    output.name = key.str();
    const toml::table* table = node.as_table();
    if (table == nullptr)
      return reader.fail(node, fmt::format("an output is a table: [outputs.{}] with file", output.name));
    reader.allow(*table, fmt::format("output {}", output.name), {"file", "tensor", "dtype", "shape"});
    output.file = reader.text(*table, "file", true);
    output.tensor = reader.text(*table, "tensor");
    const std::string kind = fs::path(output.file).extension();
    if (kind != ".npy" && kind != ".safetensors") {
      output.dtype = read_dtype(reader, *table);
      output.shape = read_shape(reader, *table, subject);
    }
    if (reader.failed()) return;
    subject.outputs.push_back(std::move(output));
  }
  sort_by_place(subject.outputs, *outputs);
}

void read_metric(TomlReader& reader, const toml::table& root, Subject& subject) {
  const TomlReader::Choices<MetricKind> kinds = {{"json", MetricKind::kJson},
                                                 {"regex", MetricKind::kRegex},
                                                 {"file", MetricKind::kFile},
                                                 {"wall", MetricKind::kWall}};
  reader.get(root, "metric", true, "a table, [metric], whose 'kind' is " + TomlReader::one_of(kinds));
  const toml::table* table = reader.table(root, "metric");
  if (table == nullptr) return;
  Metric& metric = subject.metric;
  metric.kind = reader.choice(*table, "kind", MetricKind::kWall, kinds, true);
  std::vector<std::string> keys = {"kind", "unit", "better"};
  if (metric.kind != MetricKind::kWall) keys.emplace_back("name");
  if (metric.kind == MetricKind::kRegex) keys.emplace_back("pattern");
  if (metric.kind == MetricKind::kFile) keys.emplace_back("file");
  reader.allow(*table, "this metric", keys);
  metric.name = reader.text(*table, "name", metric.kind == MetricKind::kJson, "time");
  const std::string expression = reader.text(*table, "pattern", metric.kind == MetricKind::kRegex);
  metric.file = reader.text(*table, "file", metric.kind == MetricKind::kFile);
  metric.unit = reader.text(*table, "unit", false, metric.kind == MetricKind::kWall ? "s" : "");
  metric.lower_is_better = reader.choice(*table, "better", true, {{"lower", true}, {"higher", false}});
  if (reader.failed() || metric.kind != MetricKind::kRegex) return;
  auto pattern = Pattern::compile(expression, reader.where(*table->get("pattern")));
  if (!pattern) return reader.fail(pattern.error());
  if (pattern->groups() != 1) {
    reader.fail(*table->get("pattern"), "'pattern' has one group around the number, as in \"time: ([0-9.]+)\"");
  }
  metric.pattern = std::move(*pattern);
}

void read_limits(TomlReader& reader, const toml::table& root, Subject& subject) {
  const toml::table* table = reader.table(root, "limits");
  if (table == nullptr) return;
  reader.allow(*table, "limits", {"timeout_s", "memory_mib", "cpus", "gpus"});
  subject.timeout_s = reader.number(*table, "timeout_s", subject.timeout_s);
  subject.memory_bytes = static_cast<std::uint64_t>(std::min(reader.number(*table, "memory_mib", 1) * (1 << 20), 1e18));
  if (!table->contains("memory_mib")) subject.memory_bytes = 0;
  const std::int64_t gpus = reader.integer(*table, "gpus", 0);
  if (gpus < 0 || gpus > 1024) reader.fail(*table->get("gpus"), fmt::format("gpus is {}; 0 to 1024 are allowed", gpus));
  subject.gpus = static_cast<int>(gpus);
  if (const toml::node* cpus = table->get("cpus")) {
    for (const Value& each : reader.values(*cpus)) {
      const auto* cpu = std::get_if<std::int64_t>(&each);
      if (cpu == nullptr || *cpu < 0 || *cpu > 1023) return reader.fail(*cpus, "'cpus' is a list of CPU numbers");
      subject.cpus.push_back(static_cast<int>(*cpu));
    }
  }
}

std::vector<std::string> absolute(std::vector<std::string> files, const std::string& folder) {
  for (std::string& file : files) {
    if (fs::path(file).is_relative()) file = folder + "/" + file;
  }
  return files;
}

void read_build(TomlReader& reader, const toml::table& root, Subject& subject) {
  const toml::table* table = reader.table(root, "build");
  if (table == nullptr) return;
  reader.allow(*table, "build", {"command", "sources", "binary", "timeout_s"});
  Build build;
  build.command = reader.texts(*table, "command", true);
  build.sources = reader.texts(*table, "sources", true);
  build.binary = reader.text(*table, "binary", false, build.binary);
  build.timeout_s = reader.number(*table, "timeout_s", build.timeout_s);
  if (build.binary.empty() || build.binary.find('/') != std::string::npos) {
    reader.fail(*table, "'binary' is a file name; the folder is the build cache's");
  }
  build.sources = absolute(std::move(build.sources), subject.folder);
  subject.build = std::move(build);
}

// The names that ${...} in `list` uses; an unknown one fails at the list's line.
std::set<std::string> used_names(TomlReader& reader, const toml::node& node, const std::vector<std::string>& list,
                                 const std::vector<std::string>& known) {
  std::set<std::string> used;
  for (const std::string& text : list) {
    for (std::size_t at = 0; (at = text.find("${", at)) != std::string::npos;) {
      if (at > 0 && text[at - 1] == '$') {
        at += 2;
        continue;
      }
      const auto close = text.find('}', at);
      if (close == std::string::npos) {
        reader.fail(node, fmt::format("{}: \"${{\" is not closed; a literal one is written $${{", quote_name(text)));
        return used;
      }
      const std::string name = text.substr(at + 2, close - at - 2);
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        reader.fail(node, fmt::format("${{{}}} is unknown; there are: {}", name, fmt::join(known, ", ")));
      }
      used.insert(name);
      at = close + 1;
    }
  }
  return used;
}

void check_uses(TomlReader& reader, const toml::table& root, const Subject& subject) {
  std::vector<std::string> known = subject.names();
  for (const auto& [name, expression] : subject.lets) known.push_back(name);
  for (const char* name : {"inputs", "outputs", "device"}) known.emplace_back(name);
  if (subject.build) known.emplace_back("binary");
  const auto in_command = used_names(reader, *root.get("command"), subject.command, known);
  std::set<std::string> in_build;
  if (subject.build) {
    known.emplace_back("defines");
    in_build = used_names(reader, *root.get("build")->as_table()->get("command"), subject.build->command, known);
    for (const char* name : {"inputs", "outputs", "device"}) {
      if (in_build.contains(name)) reader.fail(*root.get("build"), fmt::format("a build does not know ${{{}}}", name));
    }
  }
  for (const Knob& knob : subject.knobs) {
    const toml::node& place = *root.get("knobs")->as_table()->get(knob.name);
    // A let in the command may read the knob.
    const bool in_let = std::any_of(subject.lets.begin(), subject.lets.end(), [&](const auto& let) {
      const auto& names = let.second.names();
      return std::find(names.begin(), names.end(), knob.name) != names.end();
    });
    if (knob.kind == KnobKind::kArg && !in_command.contains(knob.name) && !in_build.contains(knob.name) && !in_let) {
      reader.fail(place,
                  fmt::format("knob {} is of kind arg, so ${{{}}} must stand in 'command'; or give kind = \"env\" "
                              "or \"define\"",
                              knob.name, knob.name));
    }
    if (knob.kind == KnobKind::kDefine && !in_build.contains("defines")) {
      reader.fail(place, fmt::format("knob {} is of kind define, so ${{defines}} must stand in the [build] command",
                                     knob.name));
    }
  }
}

Result<Subject> read_table(const toml::table& root, std::string_view text, const std::string& path) {
  TomlReader reader(path);
  Subject subject;
  subject.text = text;
  std::error_code ignored;
  subject.file = fs::absolute(path, ignored).lexically_normal();
  reader.allow(root, "a subject",
               {"name", "command", "sources", "folder", "environment", "build", "problem", "knobs", "let", "constraint",
                "contract", "inputs", "outputs", "check", "metric", "limits"});
  subject.name = reader.text(root, "name", true);
  const std::string folder = reader.text(root, "folder", false, ".");
  subject.folder = (fs::path(subject.file).parent_path() / folder).lexically_normal();
  if (subject.folder.size() > 1 && subject.folder.back() == '/') subject.folder.pop_back();
  subject.command = reader.texts(root, "command", true);
  subject.sources = absolute(reader.texts(root, "sources"), subject.folder);
  read_build(reader, root, subject);
  if (const toml::table* problem = reader.table(root, "problem")) {
    for (const auto& [key, node] : *problem) subject.problem.push_back({std::string(key.str()), reader.values(node)});
    sort_by_place(subject.problem, *problem);
  }
  read_knobs(reader, root, subject);
  if (reader.failed()) return reader.error();
  if (!subject.knobs.empty()) sort_by_place(subject.knobs, *root.get("knobs")->as_table());

  std::set<std::string> taken = {"inputs", "outputs", "device", "binary", "defines",
                                 "and",    "or",      "not",    "true",   "false"};
  const auto claim = [&](const std::string& name, const toml::node& place) {
    if (!is_name(name))
      reader.fail(place,
                  fmt::format("{}: a name is letters, digits and _, not beginning with a digit", quote_name(name)));
    if (!taken.insert(name).second) reader.fail(place, fmt::format("the name {} is taken", quote_name(name)));
  };
  for (const char* section : {"problem", "knobs", "let"}) {
    const toml::table* table = reader.table(root, section);
    if (table == nullptr) continue;
    for (const auto& [key, node] : *table) claim(std::string(key.str()), node);
  }
  read_lets(reader, root, subject);
  read_rules(reader, root, "constraint", false, subject);
  read_rules(reader, root, "contract", true, subject);
  read_inputs(reader, root, subject);
  read_outputs(reader, root, subject);
  if (const toml::table* check = reader.table(root, "check")) {
    reader.allow(*check, "check", {"change", "nan"});
    subject.nan_allowed = reader.flag(*check, "nan");
    subject.change = reader.choice(*check, "change", Change::kReorder,
                                   {{"reorder", Change::kReorder}, {"algebra", Change::kAlgebra}});
  }
  read_metric(reader, root, subject);
  read_limits(reader, root, subject);
  if (const toml::table* environment = reader.table(root, "environment")) {
    for (const auto& [key, node] : *environment) {
      require_variable(reader, node, key.str());
      const auto value = reader.value(node);
      if (value) subject.environment.emplace_back(key.str(), to_string(*value));
    }
  }
  if (!reader.failed()) check_uses(reader, root, subject);
  if (reader.failed()) return reader.error();
  return subject;
}

}  // namespace

Result<Subject> parse_subject(std::string_view text, const std::string& path) {
  try {
    const toml::table root = toml::parse(text, path);
    return read_table(root, text, path);
  } catch (const toml::parse_error& error) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("not TOML, column {}: {}", error.source().begin.column, error.description()),
                 fmt::format("{}:{}", path, error.source().begin.line)};
  }
}

Result<Subject> read_subject(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return Error{ErrorCode::kInvalidArgument, "is a folder; give the subject's TOML file", path};
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return with_advice(os_error(path, "be opened", errno), "give a subject's TOML file (docs/subject.md)");
  std::stringstream text;
  text << file.rdbuf();
  return parse_subject(text.str(), path);
}

}  // namespace pinch::sweep
