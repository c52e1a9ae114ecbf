// JSON as text, of names and values that need not be UTF-8: file names, arguments and variables are any bytes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace pinch {

/// What is no UTF-8 becomes U+FFFD. `indent` -1: on one line.
template <class Json>
std::string json_text(const Json& document, int indent = -1) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace pinch
