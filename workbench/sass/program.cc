#include "workbench/sass/program.h"

#include <algorithm>

namespace pinch::sass {

bool Instruction::has_modifier(std::string_view modifier) const {
  for (std::size_t at = mnemonic.find('.'); at != std::string_view::npos; at = mnemonic.find('.', at + 1)) {
    const std::string_view rest = mnemonic.substr(at + 1);
    if (rest.substr(0, rest.find('.')) == modifier) return true;
  }
  return false;
}

std::string printable(std::string_view text) {
  std::string clean(text);
  for (char& c : clean) {
    if (c < ' ' || c > '~') c = '?';
  }
  return clean;
}

std::string SourceFile::path() const {
  return printable(folder.empty() ? std::string(name) : std::string(folder) + "/" + std::string(name));
}

int Kernel::unknown_instructions() const {
  return static_cast<int>(
      std::count_if(instructions.begin(), instructions.end(), [](const Instruction& i) { return !i.known(); }));
}

bool Kernel::has_words() const {
  return std::all_of(instructions.begin(), instructions.end(), [](const Instruction& i) { return i.has_word; });
}

}  // namespace pinch::sass
