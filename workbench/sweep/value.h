// The value of a knob, a problem axis or an expression.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace pinch::sweep {

using Value = std::variant<bool, std::int64_t, double, std::string>;

/// As it is put on a command line: true, 64, 0.5 (the shortest text that reads back equal), text as it is.
std::string to_string(const Value& value);
/// The same where it stands for one of `all` in a list "a=1,b=2": a text is quoted where it could be taken for more
/// than itself, or for a number or truth value beside it.
std::string listed(const Value& value, std::span<const Value> all);

/// "a boolean", "an integer", "a number", "a text".
std::string_view kind_of(const Value& value);

/// Of numbers and booleans (0 and 1). A text has none: 0.
double number_of(const Value& value);

/// Equal in value: 2 equals 2.0; values of different kinds otherwise differ.
bool same(const Value& a, const Value& b);

}  // namespace pinch::sweep
