#include <fmt/core.h>

#include <atomic>

#include "pinch/tactics.h"
#include "src/core/nearest.h"

namespace pinch {

TacticList::TacticList() {
  static std::atomic<std::uint64_t> made{0};
  identity_ = made.fetch_add(1, std::memory_order_relaxed) + 1;
}

Result<std::string_view> find_model(const TacticList& family, std::string_view name) {
  const auto models = family.models();
  if (name.empty()) return models.front();
  for (const std::string_view model : models) {
    if (model == name) return model;
  }
  const std::vector<std::string> names(models.begin(), models.end());
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("unknown model '{}' of the {} family; {}", name, family.name(),
                           did_you_mean(name, names, names.size())),
               "model"};
}

Result<std::size_t> parse_tactic(const TacticList& family, std::string_view text) {
  std::call_once(family.named_, [&] {
    for (std::size_t index = 0; index < family.size(); ++index) family.by_name_.emplace(family.to_string(index), index);
  });
  const auto found = family.by_name_.find(std::string(text));
  if (found != family.by_name_.end()) return found->second;
  std::vector<std::string> names;
  for (std::size_t index = 0; index < family.size(); ++index) names.push_back(family.to_string(index));
  return Error{ErrorCode::kNotFound,
               fmt::format("unknown tactic '{}' of the {} family; {}", text, family.name(), did_you_mean(text, names)),
               "tactic"};
}

}  // namespace pinch
