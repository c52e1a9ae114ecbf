// Where the database is when nobody says: $PINCH_DB, else $XDG_CACHE_HOME/pinch/pinch.sqlite, else
// ~/.cache/pinch/pinch.sqlite.
#pragma once

#include <string>

#include "pinch/result.h"

namespace pinch::store {

/// `asked` where it is not empty, else the default place. Errors: none of the variables nor HOME is set.
Result<std::string> database_path(const std::string& asked);

/// Where compiled kernels are kept: "kernels" beside the database of database_path(""); empty where that has no place.
std::string kernels_path();

}  // namespace pinch::store
