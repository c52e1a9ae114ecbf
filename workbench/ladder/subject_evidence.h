// What a sweep of a user's own subject knows, as evidence for the ladder's rungs.
#pragma once

#include <optional>
#include <string>

#include "workbench/ladder/climb.h"
#include "workbench/sweep/sweep_report.h"

namespace pinch::ladder {

/// What a subject's author has beside its command. An empty name: not given.
struct SubjectFiles {
  std::string code;                   ///< cubin, fatbin or program with device code
  std::string kernel;                 ///< regular expression; the first kernel that matches is read
  int warps = 1;                      ///< of one sub-partition
  std::string trace;                  ///< written by a program with the marks of pinch/trace.h
  std::optional<double> trace_slows;  ///< percent of the untraced time that the marks cost, as pinch trace says
};

/// The hot loop of the kernel and the waits of the trace. Errors: those of reading the files; kNotFound where no kernel
/// matches.
Result<Known<Code>> read_code(const SubjectFiles& files);
Result<Known<Waiting>> read_waiting(const SubjectFiles& files);

/// `result`: of one problem of the report, or null where nothing was swept. Knobs that a contract reads, itself or by a
/// [let], are handoff's: a breach of theirs may seem to work, as when a producer overtakes its consumer. Errors: those
/// of evaluating rules.
Result<Evidence> evidence_of(const sweep::Report& report, const sweep::ProblemResult* result, const SubjectFiles& files,
                             const Known<Code>& code, const Known<Waiting>& waiting);

}  // namespace pinch::ladder
