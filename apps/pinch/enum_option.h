// An option whose values are the names of an enum, as its to_string gives them.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

namespace pinch::cli {

/// Adds the option; `value` holds its default. Another word is refused with the words there are.
template <class Enum>
void add_enum(CLI::App& command, const std::string& name, Enum& value, std::initializer_list<Enum> values,
              const std::string& help) {
  std::vector<std::string> names;
  for (const Enum each : values) names.emplace_back(to_string(each));
  const auto parse = [&value, list = std::vector<Enum>(values)](const std::string& text) {
    value = *std::find_if(list.begin(), list.end(), [&](Enum each) { return to_string(each) == text; });
  };
  command.add_option_function<std::string>(name, parse, help)
      ->check(CLI::IsMember(names))
      ->default_str(std::string(to_string(value)));
}

}  // namespace pinch::cli
