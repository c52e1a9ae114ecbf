// pinch tune SUBJECT.toml: the ladder on a program that a subject file describes.
#pragma once

#include <string>

#include "apps/pinch/cli.h"
#include "apps/pinch/rung_options.h"
#include "workbench/ladder/subject_evidence.h"
#include "workbench/sweep/run.h"

namespace pinch::cli {

inline constexpr const char* kTuneSubjectExamples = R"(Examples:
  pinch tune gemm --m 1,8,32 --n 4096 --k 4096
  pinch tune attention --heads 16 --seq 1024
  pinch tune subject.toml
  pinch tune subject.toml --code build/kernel.cubin --kernel softmax --warps 8 --trace kernel.trace

A subject file alone (docs/subject.md) is swept, which answers handoff, tactic and proof; --code adds throughput, schedule and
algebra, and --trace adds pipeline. docs/design/ladder.md says what each rung is.)";

struct SubjectTuneOptions {
  std::string spec;
  ladder::SubjectFiles files;
  sweep::RunRequest run;
  RungOptions rungs;
  JsonOption json;

  void add_to(CLI::App& command);
};

int tune_subject(SubjectTuneOptions& options);

}  // namespace pinch::cli
