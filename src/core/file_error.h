// How the file readers and writers word their refusals: "FILE: byte N: rule_name: what was found; what is allowed".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pinch/result.h"

namespace pinch {

/// The file breaks its format. `rule` is the refusal's stable name, `offset` the byte of the file where it shows.
Error corrupt(std::string_view file, std::uint64_t offset, std::string_view rule, std::string_view text);

/// The operating system refused: the text ends in strerror(number). kNotFound for ENOENT, else kIo.
Error os_error(std::string_view file, std::string_view action, int number);

/// The error; of a file that is not there, with what to give instead.
Error with_advice(Error error, std::string_view advice);

/// A name from a file in double quotes, control characters and quotes escaped and long ones cut, so that it can neither
/// steer a terminal nor flood it.
std::string quote_name(std::string_view name);

}  // namespace pinch
