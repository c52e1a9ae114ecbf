// Text that stands in a page of HTML, between tags or as an attribute in double quotes, and says what it said.
#pragma once

#include <string>
#include <string_view>

namespace pinch {

inline std::string html_text(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

}  // namespace pinch
