#include "workbench/pattern/pattern.h"

#include <fmt/core.h>
#include <re2/re2.h>

#include "pinch/assert.h"

namespace pinch {
namespace {

// Of the compiled program and its automaton: a larger expression is refused, since the search without an automaton
// takes a step for each character and instruction.
constexpr std::int64_t kMostBytes = 1 << 20;

}  // namespace

Result<Pattern> Pattern::compile(std::string_view expression, std::string_view where) {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kMostBytes);
  auto compiled = std::make_shared<const RE2>(re2::StringPiece(expression.data(), expression.size()), options);
  if (compiled->ok()) return Pattern(std::move(compiled));
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("'{}' is no regular expression: {}", expression, compiled->error()), std::string(where)};
}

bool Pattern::found_in(std::string_view text) const {
  return RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *compiled_);
}

std::optional<std::string_view> Pattern::first_group(std::string_view text) const {
  PINCH_ASSERT(groups() > 0, "the expression has no group");
  re2::StringPiece group;
  if (!RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *compiled_, &group)) return std::nullopt;
  return std::string_view(group.data(), group.size());
}

int Pattern::groups() const {
  return compiled_->NumberOfCapturingGroups();
}

const std::string& Pattern::expression() const {
  return compiled_->pattern();
}

}  // namespace pinch
