// What a mistyped name was probably meant to be.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pinch {

/// Insertions, deletions, replacements and swaps of neighbours that turn one text into the other (optimal string
/// alignment: no part is edited twice).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// At most `limit` of the names, nearest first, equal distances in the order given.
std::vector<std::string> nearest_names(std::string_view text, std::span<const std::string> names,
                                       std::size_t limit = 3);

/// "did you mean a, b or c?", or nothing where there are no names.
std::string did_you_mean(std::string_view text, std::span<const std::string> names, std::size_t limit = 3);

}  // namespace pinch
