#include "workbench/sass/ptx.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "workbench/sass/bytes.h"
#include "workbench/sass/operands.h"

namespace pinch::sass {
namespace {

std::vector<std::string_view> split_operands(std::string_view s) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= s.size(); ++i) {
    if (i < s.size() && (s[i] == '{' || s[i] == '[' || s[i] == '(')) ++depth;
    if (i < s.size() && (s[i] == '}' || s[i] == ']' || s[i] == ')')) --depth;
    if (i < s.size() && (s[i] != ',' || depth > 0)) continue;
    const std::string_view part = trim(s.substr(begin, i - begin));
    if (!part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

class PtxReader {
  static constexpr std::string_view kNameCharacters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$%";

  // All further in is one: no compiler nests so deep, and a branch is looked up in each.
  static constexpr int kMostScopes = 64;
  struct Scope {
    std::map<std::string_view, std::size_t> labels;
    std::vector<std::size_t> branches;
  };

 public:
  explicit PtxReader(std::string_view text) : text_(text) {}

  std::vector<PtxFunction> read() {
    for (std::string_view rest = text_; !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      ++line_;
      line(trim(rest.substr(0, end)));
      rest.remove_prefix(std::min(rest.size(), end + 1));
    }
    close();
    return std::move(functions_);
  }

 private:
  // Inline assembly puts several statements on one line; a declaration may take many lines.
  void line(std::string_view s) {
    s = trim(s.substr(0, s.find("//")));
    if (s.empty()) return;
    if (!inside_) return declaration(s);
    while (!s.empty()) {
      if (s.front() == '{') {
        if (++depth_ <= kMostScopes) scopes_.emplace_back();
        s = trim(s.substr(1));
      } else if (s.front() == '}') {
        s = trim(s.substr(1));
        if (--depth_ == 0) return close();
        if (depth_ < kMostScopes) leave_scope();
      } else {
        s = statement(s);
      }
    }
  }

  void declaration(std::string_view s) {
    for (std::string_view mark : {".entry ", ".func "}) {
      const auto at = s.find(mark);
      if (at == std::string_view::npos) continue;
      std::string_view name = trim(s.substr(at + mark.size()));
      if (!name.empty() && name.front() == '(') name = trim(name.substr(std::min(name.size(), name.find(')') + 1)));
      pending_name_ = std::string(name.substr(0, name.find_first_of("( \t")));
    }
    if (pending_name_.empty()) return;
    if (s.back() == ';') return pending_name_.clear();  // a declaration without body
    if (s.front() == '{' || s.back() == '{') {
      functions_.push_back({pending_name_, {}});
      pending_name_.clear();
      inside_ = true;
      depth_ = 1;
      scopes_.assign(1, {});
    }
  }

  // One statement up to its semicolon, or a label; returns what follows it.
  std::string_view statement(std::string_view s) {
    const auto end = s.find_first_of(";");
    const std::size_t name = std::min(s.find_first_not_of(kNameCharacters), s.size());
    const std::string_view behind = trim(s.substr(name));
    if (name > 0 && !behind.empty() && behind.front() == ':' && behind.substr(0, 2) != "::") {
      scopes_.back().labels[s.substr(0, name)] = functions_.back().instructions.size();
      return trim(behind.substr(1));
    }
    const std::string_view rest = end == std::string_view::npos ? std::string_view{} : trim(s.substr(end + 1));
    s = trim(s.substr(0, end));
    if (s.empty() || s.front() == '.') return rest;  // directives
    PtxInstruction made;
    made.line = line_;
    if (s.front() == '@') {
      made.guarded = true;
      const auto space = s.find_first_of(" \t");
      s = space == std::string_view::npos ? std::string_view{} : trim(s.substr(space));
    }
    const auto space = s.find_first_of(" \t");
    made.opcode = s.substr(0, space);
    if (space != std::string_view::npos) made.operands = split_operands(s.substr(space));
    if (made.is("bra") && !made.operands.empty())
      scopes_.back().branches.push_back(functions_.back().instructions.size());
    functions_.back().instructions.push_back(std::move(made));
    return rest;
  }

  // Inline assembly has labels of its own between braces, often the same in each: what a scope does not hold is around
  // it.
  void leave_scope() {
    const Scope scope = std::move(scopes_.back());
    scopes_.pop_back();
    for (const std::size_t branch : scope.branches) {
      PtxInstruction& from = functions_.back().instructions[branch];
      const auto found = scope.labels.find(from.operands[0]);
      if (found != scope.labels.end()) {
        from.target = static_cast<int>(found->second);
      } else if (!scopes_.empty()) {
        scopes_.back().branches.push_back(branch);
      }
    }
  }

  // A branch back to a label makes what lies between a loop; the shortest around an instruction is its innermost.
  void close() {
    if (!inside_) return;
    inside_ = false;
    while (!scopes_.empty()) leave_scope();
    auto& code = functions_.back().instructions;
    struct Span {
      std::size_t first, last;
    };
    std::vector<Span> spans;
    for (std::size_t i = 0; i < code.size(); ++i) {
      const auto target = static_cast<std::size_t>(code[i].target);
      if (code[i].target >= 0 && target <= i) spans.push_back({target, i});
    }
    // Shortest first; an instruction keeps the first that it gets, and `next` leads past those that have one.
    std::vector<std::size_t> order(spans.size()), next(code.size() + 1);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return spans[a].last - spans[a].first < spans[b].last - spans[b].first;
    });
    std::iota(next.begin(), next.end(), std::size_t{0});
    const auto free_from = [&](std::size_t i) {
      while (next[i] != i) i = next[i] = next[next[i]];
      return i;
    };
    for (const std::size_t s : order) {
      for (std::size_t i = free_from(spans[s].first); i <= spans[s].last; i = free_from(i)) {
        code[i].loop = static_cast<int>(s);
        next[i] = i + 1;
      }
    }
  }

  std::string_view text_;
  std::vector<PtxFunction> functions_;
  std::vector<Scope> scopes_;
  std::string pending_name_;
  std::uint32_t line_ = 0;
  int depth_ = 0;
  bool inside_ = false;
};

}  // namespace

bool PtxInstruction::has(std::string_view modifier) const {
  for (std::size_t at = opcode.find('.'); at != std::string_view::npos; at = opcode.find('.', at + 1)) {
    const std::string_view rest = opcode.substr(at + 1);
    if (rest.substr(0, rest.find('.')) == modifier) return true;
  }
  return false;
}

std::uint32_t PtxFunction::line_of(std::string_view opcode) const {
  const auto found =
      std::find_if(instructions.begin(), instructions.end(), [&](const PtxInstruction& i) { return i.is(opcode); });
  return found == instructions.end() ? 0 : found->line;
}

bool looks_like_ptx(std::string_view text) {
  const std::string_view head = text.substr(0, 65536);
  return contains(head, ".version") && contains(head, ".target") && contains(head, ".address_size") &&
         head.find('\0') == std::string_view::npos;
}

std::string ptx_target(std::string_view text) {
  const auto at = text.find(".target");
  if (at == std::string_view::npos) return {};
  const std::string_view rest = trim(text.substr(at + 7, 64));
  return std::string(rest.substr(0, rest.find_first_of(", \t\r\n")));
}

std::vector<PtxFunction> read_ptx(std::string_view text) {
  return PtxReader(text).read();
}

}  // namespace pinch::sass
