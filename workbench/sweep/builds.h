// Builds of a subject, one a set of defines, cached by the contents they depend on.
#pragma once

#include <functional>
#include <string>

#include "pinch/result.h"
#include "workbench/sweep/subject_file.h"

namespace pinch::sweep {

struct Built {
  std::string binary;    ///< path; empty where it failed
  std::string sha256;    ///< of the binary
  std::string failure;   ///< what the compiler said, the last 4 KiB; empty where it worked
  double compile_s = 0;  ///< 0: it was cached
};

/// What every build of the subject depends on beside its command: the contents of its sources, the compiler's file, and
/// the variables that compilers read. Errors: kNotFound, kIo for a source.
Result<std::string> build_key(const Subject& subject);

/// Runs the subject's build with the knobs of `values` unless FOLDER/<hash> holds its result: the hash is over the
/// command and build_key(). A build that fails is not cached. Safe with others that build the same at
/// once. Errors: kNotFound, kIo for a source or the folder; kInterrupted.
Result<Built> build(const Subject& subject, const Values& values, const std::string& folder,
                    const std::function<bool()>& stop_requested = {});

/// The knobs of kind define as compiler arguments: {"-DTILE=16", "-DLAYOUT=row"}.
std::vector<std::string> defines(const Subject& subject, const Values& values);

}  // namespace pinch::sweep
