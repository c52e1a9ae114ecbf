# The build step of pinch_embed: writes INPUT as a raw string literal into the header OUTPUT.
file(READ "${INPUT}" text)
string(FIND "${text}" ")pinch_text\"" clash)
if(NOT clash EQUAL -1)
  message(FATAL_ERROR "${SHOWN} contains the delimiter of the string literal: )pinch_text\"")
endif()
# Compilers must take literals of 65536 characters and no more: longer texts are adjacent literals.
set(literals "")
string(LENGTH "${text}" length)
set(at 0)
while(at LESS length)
  string(SUBSTRING "${text}" ${at} 60000 piece)
  string(APPEND literals "R\"pinch_text(${piece})pinch_text\"\n")
  math(EXPR at "${at} + 60000")
endwhile()
file(WRITE "${OUTPUT}" "// Made from ${SHOWN}; edit that file.\n#pragma once\n\n#include <string_view>\n\nnamespace pinch::embedded {\n\n"
  "inline constexpr std::string_view ${NAME} = ${literals};\n\n}  // namespace pinch::embedded\n")
