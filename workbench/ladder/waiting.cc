#include "workbench/ladder/waiting.h"

#include <algorithm>

#include "src/core/temporary_folder.h"
#include "workbench/store/location.h"

namespace pinch::ladder {

Waiting waiting_of(const trace::Analysis& analysis, const trace::Cost& cost) {
  Waiting waiting;
  const trace::RoleReport* late = nullptr;
  for (const trace::RoleReport& role : analysis.roles) {
    if (role.blamed > 0 && (late == nullptr || role.blamed > late->blamed)) late = &role;
  }
  const auto works = [&](const trace::RoleReport& role) {
    return analysis.matrix.role.empty() ? &role != late : role.feeds_matrix;
  };
  const trace::RoleReport::WaitShare* longest = nullptr;
  for (const trace::RoleReport& role : analysis.roles) {
    if (!works(role)) continue;
    waiting.share = std::max(waiting.share, role.tracks_waiting);
    for (const auto& wait : role.waits) {
      if (longest == nullptr || wait.fraction > longest->fraction) longest = &wait;
    }
  }
  // Where the working role is itself the one that is late, what it waits for is known by the wait's name alone.
  const bool another = late != nullptr && !works(*late);
  waiting.for_whom = another ? late->name : longest != nullptr ? longest->name : "nobody";
  waiting.evidence = {{"instrumented", true},
                      {"critical_role", analysis.critical_role},
                      {"late_role", late != nullptr ? nlohmann::ordered_json(late->name) : nullptr},
                      {"steady_share", analysis.steady_share}};
  for (const trace::RoleReport& role : analysis.roles) {
    if (role.steps > 0)
      waiting.evidence["roles"].push_back({{"name", role.name}, {"busy", role.busy}, {"waiting", role.tracks_waiting}});
  }
  const auto inflation = cost.inflation(analysis.level);
  if (inflation) waiting.slowed = std::max(0.0, cost.inflation_interval(analysis.level).high);
  waiting.evidence["inflation"] = inflation ? nlohmann::ordered_json(*inflation) : nlohmann::ordered_json(nullptr);
  waiting.evidence["inflation_at_most"] =
      waiting.slowed ? nlohmann::ordered_json(*waiting.slowed) : nlohmann::ordered_json(nullptr);
  return waiting;
}

namespace {

constexpr int kRounds = 9;  // of which the interval of the median leaves out the fastest and the slowest

Result<Waiting> waiting_in(const trace::Traced& traced) {
  PINCH_ASSIGN(file, trace::TraceFile::open(traced.path));
  PINCH_ASSIGN(analysis, trace::analyse(file));
  return waiting_of(analysis, traced.cost);
}

}  // namespace

Result<Waiting> trace_waiting(const trace::Subject& subject, const std::function<bool()>& stop_requested) {
  PINCH_ASSIGN(folder, TemporaryFolder::create());
  PINCH_ASSIGN(traced, trace::trace_subject(subject, kRounds, trace::Level::kCoarse, folder.path(), stop_requested));
  return waiting_in(traced);
}

trace::CudaKernel waiting_kernel(const std::string& tactic, const std::string& sources, const std::string& folder,
                                 const cuda::Device& device, const std::function<bool()>& stop_requested) {
  return {tactic,
          sources,
          folder,
          device,
          stop_requested,
          {trace::Level::kOff, trace::Level::kCoarse},
          store::kernels_path()};
}

Result<Waiting> trace_waiting(trace::CudaProgram compiled, const std::string& folder,
                              const std::function<bool()>& stop_requested) {
  compiled.program.rounds = kRounds;
  compiled.program.level = trace::Level::kCoarse;
  PINCH_ASSIGN(traced, trace::trace_program(compiled.program, folder, stop_requested));
  PINCH_ASSIGN(waiting, waiting_in(traced));
  waiting.evidence["compiled_s"] = compiled.compiled_s;
  return std::move(waiting);
}

}  // namespace pinch::ladder
