#include "src/core/nearest.h"

#include <algorithm>
#include <numeric>

namespace pinch {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table are enough: a swap reaches two rows back.
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::vector<std::string> nearest_names(std::string_view text, std::span<const std::string> names, std::size_t limit) {
  std::vector<std::pair<std::size_t, std::size_t>> order;  // distance, place
  for (std::size_t i = 0; i < names.size(); ++i) order.emplace_back(edit_distance(text, names[i]), i);
  const std::size_t count = std::min(limit, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end());
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < count; ++i) nearest.push_back(names[order[i].second]);
  return nearest;
}

std::string did_you_mean(std::string_view text, std::span<const std::string> names, std::size_t limit) {
  const auto nearest = nearest_names(text, names, limit);
  if (nearest.empty()) return {};
  std::string question = "did you mean ";
  for (std::size_t i = 0; i < nearest.size(); ++i) {
    if (i > 0) question += i + 1 == nearest.size() ? " or " : ", ";
    question += nearest[i];
  }
  return question + "?";
}

}  // namespace pinch
