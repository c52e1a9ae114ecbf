// What is asked of a subject once its file is read.
#include <fmt/core.h>

#include <algorithm>

#include "src/core/file_error.h"
#include "workbench/sweep/subject_file.h"

namespace pinch::sweep {

const Knob* Subject::knob(std::string_view wanted) const {
  const auto found = std::find_if(knobs.begin(), knobs.end(), [&](const Knob& each) { return each.name == wanted; });
  return found == knobs.end() ? nullptr : &*found;
}

std::vector<std::string> Subject::names() const {
  std::vector<std::string> list;
  for (const Axis& axis : problem) list.push_back(axis.name);
  for (const Knob& each : knobs) list.push_back(each.name);
  return list;
}

Result<Shape> shape_of(const std::vector<Expression>& shape, const Values& values) {
  Shape sizes;
  for (const Expression& expression : shape) {
    std::vector<const Value*> read;
    for (const std::string& name : expression.names()) read.push_back(&values.find(name)->second);
    PINCH_ASSIGN(value, expression.evaluate(read));
    const auto* size = std::get_if<std::int64_t>(&value);
    if (size == nullptr || *size < 0) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} gives {} ({}); a size is an integer of at least 0", quote_name(expression.text()),
                               to_string(value), kind_of(value)),
                   expression.where()};
    }
    sizes.push_back(*size);
  }
  return sizes;
}

Result<std::string> substitute(std::string_view text, const Values& values) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at, 3) == "$${") {
      result += "${";
      at += 3;
    } else if (text.substr(at, 2) != "${") {
      result += text[at++];
    } else {
      const auto close = text.find('}', at);
      const auto found =
          close != std::string_view::npos ? values.find(text.substr(at + 2, close - at - 2)) : values.end();
      if (found == values.end()) {
        return Error{
            ErrorCode::kInvalidArgument,
            fmt::format("{}: \"${{\" begins the ${{name}} of a knob, a problem axis or a [let] value; a literal "
                        "one is written $${{",
                        quote_name(text)),
            ""};
      }
      result += to_string(found->second);
      at = close + 1;
    }
  }
  return result;
}

}  // namespace pinch::sweep
