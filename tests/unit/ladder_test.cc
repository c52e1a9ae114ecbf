// A ladder on a machine with known faults: each planted inefficiency is found by its own rung and claimed by no other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/simulated_machine.h"
#include "tests/support/trace_builder.h"
#include "tests/unit/sass_support.h"
#include "workbench/ladder/code.h"
#include "workbench/ladder/tune.h"
#include "workbench/ladder/waiting.h"

namespace pinch::ladder {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kLeastNs = 1e6;

// Tiles and blocks of k: 4 x 3 settings.
class GridFamily final : public TacticFamily {
 public:
  static constexpr std::size_t kTiles = 4, kBlocks = 3;
  [[nodiscard]] std::string_view name() const override { return "grid"; }
  [[nodiscard]] std::size_t size() const override { return kTiles * kBlocks; }
  [[nodiscard]] std::string to_string(std::size_t index) const override {
    return "tile" + std::to_string(index / kBlocks) + ".k" + std::to_string(index % kBlocks);
  }
  [[nodiscard]] Knobs knobs(std::size_t index) const override {
    return {{"tile_m", static_cast<std::int64_t>(index / kBlocks)},
            {"k_block", static_cast<std::int64_t>(index % kBlocks)}};
  }
  [[nodiscard]] std::optional<std::string> illegal(std::size_t, const GemmProblem&, const Resources&) const override {
    return std::nullopt;
  }
  [[nodiscard]] std::span<const std::string_view> models() const override { return kModels; }
  [[nodiscard]] Result<Estimate> estimate(std::string_view, std::size_t index, const GemmProblem&,
                                          const Resources&) const override {
    return Estimate{static_cast<double>(index + 1), "ns", 1, 1};
  }

 private:
  static constexpr std::array<std::string_view, 1> kModels = {"time"};
};

// What tracing cost, in rounds that all say the same.
trace::Cost cost_of(double slowed) {
  trace::Cost cost;
  for (int round = 0; round < 7; ++round) {
    cost.times[0].ns.push_back(1000);
    cost.times[1].ns.push_back(1000 * (1 + slowed));
  }
  return cost;
}

// The matrix role of a pipeline waits for `share` of its time; its marks slow it by `slowed`.
Waiting waiting_with(double share, const trace::Cost& cost) {
  test::TraceBuilder builder;
  builder.names = {{{"producer"}, {"consumer", true}}, {{"full", 0}}, {}};
  auto& producer = builder.track(0, 0);
  auto& consumer = builder.track(0, 1);
  for (unsigned i = 0; i < 200; ++i) {
    producer.step(1000 + 1000 * i, 0, i);
    consumer.step(1000 + 1000 * i, 1, i)
        .wait(1000 + 1000 * i + static_cast<unsigned>(1000 * share), 0, static_cast<std::uint64_t>(1000 * share));
  }
  producer.end(1000 + 200 * 1000);
  consumer.end(1000 + 200 * 1000);
  const TempFolder folder;
  builder.write(folder / "trace");
  const auto file = trace::TraceFile::open(folder / "trace");
  const auto analysis = trace::analyse(*file);
  return waiting_of(*analysis, cost);
}

// Every tactic takes the least time but for what is planted.
class PlantedTask final : public Task, public HostSubject {
 public:
  explicit PlantedTask(std::uint64_t seed = 1) : seed_(seed) {
    time_ns.fill(1.5 * kLeastNs);
    time_ns[0] = kLeastNs;
    work_.subject = "gemm";
    work_.sizes = {{"m", std::int64_t{8}}};
    work_.flops = kLeastNs;
    work_.least_bytes = 1;
    roofline_ = {1, 1, 1};  // 1 GFLOP/s: a flop a ns
    machine_.device = machine_.isa = machine_.binary = machine_.compiler = "simulated";
  }

  std::array<double, GridFamily::kTiles * GridFamily::kBlocks> time_ns{};
  double waiting = 0.005, slowed = 0.005;
  std::string kernel;  ///< whose machine code runs; empty: none of a GPU
  std::set<std::size_t> wrong;

  [[nodiscard]] const Work& work() const override { return work_; }
  [[nodiscard]] const TacticFamily& family() const override { return family_; }
  [[nodiscard]] const Resources& resources() const override { return resources_; }
  [[nodiscard]] const Machine& machine() const override { return machine_; }
  [[nodiscard]] std::string_view protocol() const override { return "simulated"; }
  [[nodiscard]] Result<std::vector<RankedTactic>> ranked() const override {
    return rank_tactics(family_, {8, 64, 64, Fp4Format::kNvfp4, OutputType::kBf16}, {0, 1});
  }
  [[nodiscard]] Result<void> check_memory(const measure::Policy&, bool) const override { return {}; }
  Result<void> prepare(const measure::Policy&) override {
    simulated_ = std::make_unique<test::SimulatedMachine>(std::vector<double>(time_ns.begin(), time_ns.end()), seed_);
    sampler_ = std::make_unique<measure::HostSampler>(*this, *simulated_, *simulated_);
    return {};
  }
  [[nodiscard]] const Roofline& roofline() const override { return roofline_; }
  [[nodiscard]] std::size_t weight_bytes() const override { return 1; }
  [[nodiscard]] std::size_t cold_set_bytes() const override { return 1; }
  Subject& subject() override { return *this; }
  measure::Sampler& sampler() override { return *sampler_; }
  Result<Rivals> rivals() override { return Rivals{}; }
  Result<Waiting> waits(const std::string&, const std::function<bool()>&) override {
    return waiting_with(waiting, cost_of(slowed));
  }
  Result<Code> code(const std::string& tactic) override {
    if (kernel.empty()) return Task::code(tactic);
    return read_launched(sass::test::data_path("kernels.sm_90a.cubin"), {kernel, 16, 1});
  }

  Checked check(std::size_t tactic) override {
    if (wrong.contains(tactic)) return {measure::Verdict::kWrong, "rel_l2 0.5", 0.5, 1, 0};
    return {measure::Verdict::kOk, "", 1e-3, 1, time_ns[tactic]};
  }
  Result<void> run(std::size_t id, measure::Protocol protocol, int calls) override {
    return simulated_->run(id, protocol, calls);
  }

 private:
  std::uint64_t seed_;
  GridFamily family_;
  Work work_;
  Resources resources_{0, 1};
  Machine machine_;
  Roofline roofline_;
  std::unique_ptr<test::SimulatedMachine> simulated_;
  std::unique_ptr<measure::HostSampler> sampler_;
};

std::vector<Finding> findings_of(PlantedTask& task, const Selection& selection = {},
                                 store::TuneStore* store = nullptr) {
  TuneRequest request;
  request.selection = selection;
  TuneHooks hooks;
  hooks.warn = [](const Error& error) { ADD_FAILURE() << error.message(); };
  const auto report = tune(task, request, store, hooks);
  EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message());
  return report.ok() ? report->findings : std::vector<Finding>(kRungs.size());
}

std::vector<Rung> claims(std::span<const Finding> findings) {
  std::vector<Rung> rungs;
  for (const Finding& finding : findings) {
    if (finding.answer == Answer::kHeadroom) rungs.push_back(finding.rung);
  }
  return rungs;
}

const Finding& of(std::span<const Finding> findings, Rung rung) {
  return findings[static_cast<std::size_t>(rung)];
}

// A planted 25% makes the default's time 1.25 of the least: 20% of it can be saved. Three standard deviations of the
// simulated samples' medians are below one percent.
constexpr double kPlanted = 1.25, kSaved = 20, kNear = 1.5;

TEST(Ladder, AnswersEveryRungAndFindsNothingInWhatIsRight) {
  PlantedTask task;
  const auto findings = findings_of(task);
  ASSERT_EQ(findings.size(), kRungs.size());
  for (std::size_t i = 0; i < findings.size(); ++i) EXPECT_EQ(findings[i].rung, kRungs[i]);
  EXPECT_THAT(claims(findings), IsEmpty());
  for (const Rung rung : {Rung::kThroughput, Rung::kPipeline, Rung::kHandoff, Rung::kTactic, Rung::kProof})
    EXPECT_EQ(of(findings, rung).answer, Answer::kRuledOut) << to_string(rung) << ": " << of(findings, rung).why;
  for (const Rung rung : {Rung::kSchedule, Rung::kAlgebra})
    EXPECT_EQ(of(findings, rung).answer, Answer::kNotApplicable) << of(findings, rung).why;
  EXPECT_EQ(next_to_try(findings), nullptr);
}

TEST(Ladder, ExtraInstructionsAreThroughputs) {
  PlantedTask task;
  for (double& time : task.time_ns) time *= kPlanted;
  const auto findings = findings_of(task);
  EXPECT_THAT(claims(findings), ElementsAre(Rung::kThroughput));
  EXPECT_NEAR(*of(findings, Rung::kThroughput).bound_percent, kSaved, kNear);
  EXPECT_THAT(of(findings, Rung::kThroughput).why, HasSubstr("multiply-adds bind at 80% of their rate"));
}

TEST(Ladder, ABadSplitIsHandoffs) {
  PlantedTask task;
  task.time_ns[0] = kPlanted * kLeastNs;
  task.time_ns[2] = kLeastNs;  // tile 0 with another k_block
  const auto findings = findings_of(task);
  EXPECT_THAT(claims(findings), ElementsAre(Rung::kHandoff));
  EXPECT_NEAR(*of(findings, Rung::kHandoff).bound_percent, kSaved, kNear);
  EXPECT_EQ(of(findings, Rung::kHandoff).evidence["best"], "tile0.k2");
}

TEST(Ladder, ABadTileIsTactics) {
  PlantedTask task;
  for (std::size_t block = 0; block < GridFamily::kBlocks; ++block) task.time_ns[block] *= kPlanted;
  task.time_ns[3 * GridFamily::kBlocks] = kLeastNs;
  const auto findings = findings_of(task);
  EXPECT_THAT(claims(findings), ElementsAre(Rung::kTactic));
  EXPECT_NEAR(*of(findings, Rung::kTactic).bound_percent, kSaved, kNear);
  EXPECT_EQ(of(findings, Rung::kTactic).evidence["best"], "tile3.k0");
}

TEST(Ladder, AStalledProducerIsPipelines) {
  PlantedTask task;
  for (double& time : task.time_ns) time *= kPlanted;  // all of it is waited for
  task.waiting = 1 - 1 / kPlanted;
  task.slowed = 0;
  const auto findings = findings_of(task);
  EXPECT_THAT(claims(findings), ElementsAre(Rung::kPipeline));
  EXPECT_NEAR(*of(findings, Rung::kPipeline).bound_percent, kSaved, kNear);
  EXPECT_THAT(of(findings, Rung::kPipeline).why, HasSubstr("waits for producer"));
}

// Marks that slow a kernel by 8% may have taken its waits' time, or made them.
TEST(Ladder, WaitsThatMarksMayHideAreNotRuledOut) {
  PlantedTask task;
  for (double& time : task.time_ns) time *= kPlanted;
  const auto with = [&](double waiting, double slowed) {
    task.waiting = waiting;
    task.slowed = slowed;
    return findings_of(task);
  };
  const auto sharp = with(0.005, 0.01);
  EXPECT_EQ(of(sharp, Rung::kPipeline).answer, Answer::kRuledOut);
  EXPECT_NEAR(*of(sharp, Rung::kPipeline).bound_percent, 1.5, 0.01) << "both, though it is ruled out";
  const auto hidden = with(0.005, 0.08);
  EXPECT_EQ(of(hidden, Rung::kPipeline).answer, Answer::kNotMeasured);
  EXPECT_NEAR(*of(hidden, Rung::kPipeline).bound_percent, 0.5 * 1.08 + 8, 0.01);
  EXPECT_THAT(
      of(hidden, Rung::kPipeline).why,
      HasSubstr("waits for nobody beyond 0.5% of its time; its marks slow it by up to 8.0% and may hide or make "
                "as much: 8.5% at most"));
  EXPECT_NEAR(of(hidden, Rung::kPipeline).evidence["inflation_at_most"].get<double>(), 0.08, 1e-9);
  EXPECT_THAT(claims(hidden), ElementsAre(Rung::kThroughput));
  EXPECT_NEAR(*of(hidden, Rung::kThroughput).bound_percent, kSaved, kNear) << "nothing of it is taken away";
  const auto made = with(0.05, 0.08);
  EXPECT_THAT(claims(made), ElementsAre(Rung::kThroughput, Rung::kPipeline));
  EXPECT_NEAR(*of(made, Rung::kPipeline).bound_percent, 5 * 1.08 + 8, 0.01);
  EXPECT_NEAR(*of(made, Rung::kThroughput).bound_percent, kSaved, kNear) << "the marks may have made all that is seen";
  const auto seen = with(0.1, 0.02);
  EXPECT_NEAR(*of(seen, Rung::kPipeline).bound_percent, 10 * 1.02 + 2, 0.01);
  EXPECT_NEAR(*of(seen, Rung::kThroughput).bound_percent, kSaved - (10 * 1.02 - 2), kNear);
}

TEST(Ladder, WhatMarksCostIsTheUpperEndOfWhatIsKnown) {
  trace::Cost cost = cost_of(0.01);
  cost.times[1].ns[2] = cost.times[1].ns[5] = 1080;
  const Waiting waiting = waiting_with(0.005, cost);  // of seven rounds the interval ends at the greatest
  EXPECT_NEAR(waiting.evidence["inflation"].get<double>(), 0.01, 1e-9);
  EXPECT_NEAR(waiting.slowed.value(), 0.08, 1e-9);
  EXPECT_EQ(waiting_with(0.005, cost_of(-0.01)).slowed, 0) << "marks make nothing faster";
}

TEST(Ladder, RulesNoWaitsOutWhereMarksHaveAnUnknownCost) {
  Evidence evidence;
  evidence.settings.list = {{"it", {}, 100, true}};
  evidence.waiting = waiting_with(0.005, {});
  const auto nothing = climb(evidence, {});
  EXPECT_EQ(of(nothing, Rung::kPipeline).answer, Answer::kNotMeasured);
  EXPECT_FALSE(of(nothing, Rung::kPipeline).bound_percent.has_value());
  EXPECT_THAT(of(nothing, Rung::kPipeline).why, HasSubstr("what its marks cost is not known"));
  evidence.waiting = waiting_with(0.3, {});
  const auto found = climb(evidence, {});
  EXPECT_EQ(of(found, Rung::kPipeline).answer, Answer::kHeadroom);
  EXPECT_NEAR(*of(found, Rung::kPipeline).bound_percent, 30, 0.01);
  evidence.limit = Limit{99, "reads", {}};  // whatever is hidden, no more than this can be saved
  const auto limited = climb(evidence, {});
  EXPECT_EQ(of(limited, Rung::kPipeline).answer, Answer::kRuledOut);
  EXPECT_NEAR(*of(limited, Rung::kPipeline).bound_percent, 1, 1e-9);
  EXPECT_THAT(of(limited, Rung::kPipeline).why, HasSubstr("what is above the limit is noise"));
}

// The producer waits for the consumer's slots far longer than the consumer for it: the consumer is late.
TEST(Ladder, ALateWorkerWaitsForWhatItsWaitIsCalled) {
  test::TraceBuilder builder;
  builder.names = {{{"producer"}, {"consumer", true}}, {{"full", 0}, {"empty", 1}}, {}};
  auto& producer = builder.track(0, 0);
  auto& consumer = builder.track(0, 1);
  for (unsigned i = 0; i < 200; ++i) {
    producer.step(1000 + 1000 * i, 0, i).wait(1900 + 1000 * i, 1, 800);
    consumer.step(1000 + 1000 * i, 1, i).wait(1100 + 1000 * i, 0, 50);
  }
  producer.end(201000);
  consumer.end(201000);
  const TempFolder folder;
  builder.write(folder / "trace");
  const Waiting waiting = waiting_of(*trace::analyse(*trace::TraceFile::open(folder / "trace")), trace::Cost{});
  EXPECT_EQ(waiting.evidence["late_role"], "consumer");
  EXPECT_EQ(waiting.for_whom, "full");
  EXPECT_NEAR(waiting.share, 0.05, 0.001);
}

TEST(Ladder, AWrongTacticIsProofs) {
  PlantedTask task;
  task.time_ns[1] = kLeastNs / 2;
  task.wrong = {1};
  const auto findings = findings_of(task);
  EXPECT_THAT(claims(findings), IsEmpty()) << "a wrong result is no headroom, however fast";
  EXPECT_THAT(of(findings, Rung::kProof).why, HasSubstr("1 of 12 settings are wrong and out: tile0.k1: rel_l2 0.5"));
}

TEST(Ladder, ASpilledArrayInItsOwnMachineCodeIsSchedules) {
  PlantedTask task;
  for (double& time : task.time_ns) time *= kPlanted;
  task.kernel = "forced_spill";
  const TempFolder folder;
  auto store = store::TuneStore::open(folder / "tune.sqlite");
  ASSERT_TRUE(store.ok());
  const auto findings = findings_of(task, {}, &*store);
  EXPECT_THAT(claims(findings), ElementsAre(Rung::kSchedule));
  EXPECT_NEAR(*of(findings, Rung::kSchedule).bound_percent, kSaved, kNear) << "no order beats the multiply-adds";
  EXPECT_THAT(of(findings, Rung::kSchedule).why, HasSubstr("spill-in-loop"));
  EXPECT_THAT(of(findings, Rung::kSchedule).command, HasSubstr("--kernel '^forced_spill$' --warps 4"));
  const auto stored = findings_of(task, {}, &*store);
  for (std::size_t i = 0; i < kRungs.size(); ++i) {
    EXPECT_EQ(stored[i].why, findings[i].why) << "as stored";
    EXPECT_EQ(stored[i].evidence, findings[i].evidence);
  }
}

// Two faults at once share the time: neither is counted twice.
TEST(Ladder, BoundsAreOfDisjointPartsOfTheTime) {
  PlantedTask task;
  for (double& time : task.time_ns) time *= kPlanted;
  task.time_ns[0] *= kPlanted;
  task.time_ns[1] = kPlanted * kLeastNs;
  const auto findings = findings_of(task);
  EXPECT_THAT(claims(findings), ElementsAre(Rung::kThroughput, Rung::kHandoff));
  EXPECT_NEAR(*of(findings, Rung::kHandoff).bound_percent, kSaved, kNear);
  EXPECT_NEAR(*of(findings, Rung::kThroughput).bound_percent, 0.8 * kSaved, kNear);
  EXPECT_EQ(next_to_try(findings)->rung, Rung::kHandoff);
}

TEST(Ladder, RulesNothingOutThatItDidNotReach) {
  PlantedTask task;
  const auto selection = Selection::create("", {"throughput", "proof"}, {});
  const auto findings = findings_of(task, *selection);
  EXPECT_EQ(of(findings, Rung::kThroughput).answer, Answer::kRuledOut);
  for (const Rung rung : {Rung::kPipeline, Rung::kSchedule, Rung::kAlgebra, Rung::kHandoff, Rung::kTactic}) {
    EXPECT_EQ(of(findings, rung).answer, Answer::kNotMeasured);
    EXPECT_EQ(of(findings, rung).why, "left out by --only throughput,proof");
  }
  Evidence evidence;  // of four settings one was not reached
  evidence.settings.list = {
      {"a", {{"t", "1"}}, 100, true}, {"b", {{"t", "2"}}, 120, true}, {"c", {{"t", "3"}}, 0, false}};
  const auto partial = climb(evidence, {});
  EXPECT_EQ(of(partial, Rung::kTactic).answer, Answer::kNotMeasured);
  EXPECT_THAT(of(partial, Rung::kTactic).why, HasSubstr("1 of 2 other legal settings were tried"));
}

TEST(Selection, NamesRungsAndRefusesOthers) {
  const auto until = Selection::create("schedule", {}, {"pipeline"});
  ASSERT_TRUE(until.ok());
  EXPECT_TRUE(until->asks(Rung::kThroughput) && until->asks(Rung::kSchedule));
  EXPECT_FALSE(until->asks(Rung::kPipeline) || until->asks(Rung::kAlgebra));
  EXPECT_EQ(until->text(), "--until schedule --skip pipeline");
  EXPECT_THAT(Selection::create("tactics", {}, {}).error().message(), HasSubstr("did you mean tactic?"));
  EXPECT_FALSE(Selection::create("", {"proof"}, {"proof"}).ok());
}

// --- rungs that read machine code; as many warps as hide latencies

// `ptx_loop`: what the source of the loop asks for, with its own findings.
Evidence evidence_of_kernel(const std::string& name, int warps, const std::string& ptx_loop = "",
                            const std::string& file = "kernels.sm_90a.cubin") {
  sass::AnalysisOptions options;
  options.warps = warps;
  const sass::Program program = sass::test::program_of(file);
  sass::KernelReport report = sass::test::report_of(program, name, options);
  if (!ptx_loop.empty()) {
    const std::string text =  // the functions look into it
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(\n.param .u64 p\n)\n{\n" + ptx_loop + "}\n";
    const auto functions = sass::read_ptx(text);
    report.lints = sass::lint_ptx(functions.at(0), *sass::Machine::of("sm_90a").value());
  }
  const auto code = code_of(report);
  EXPECT_TRUE(code.ok()) << (code.ok() ? "" : code.error().message());
  Evidence evidence;
  evidence.settings.list = {{"it", {}, 100, true}};
  evidence.settings.band = 0.05;  // the simulator's mean error on loops of an H200 is 5.2%
  if (code.ok()) evidence.code = *code;
  return evidence;
}

TEST(LadderCode, ALoopAtItsBoundHasNoHeadroom) {
  const auto findings = climb(evidence_of_kernel("wgmma_loop", 8), {});
  EXPECT_THAT(claims(findings), IsEmpty());
  EXPECT_EQ(of(findings, Rung::kThroughput).why, "tensor bounds the loop; units that are not it are ruled out");
  EXPECT_NEAR(of(findings, Rung::kThroughput).evidence["pipes"]["tensor"].get<double>(), 1, 0.01);
}

TEST(LadderCode, ASpilledArrayIsSchedules) {
  const auto findings = climb(evidence_of_kernel("forced_spill", 16), {});
  EXPECT_THAT(claims(findings), ElementsAre(Rung::kSchedule));
  EXPECT_THAT(of(findings, Rung::kSchedule).why, HasSubstr("spill-in-loop"));
  EXPECT_GT(*of(findings, Rung::kSchedule).bound_percent, 50) << "98 of its 155 instructions move spilled registers";
}

// Products behind branches, as a ring of slots of which the last may be empty has them: the iteration that multiplies.
TEST(LadderCode, ProductsBehindBranchesAreRead) {
  const auto right = climb(evidence_of_kernel("guarded_products", 16, "", "branches.sm_90a.cubin"), {});
  EXPECT_THAT(claims(right), IsEmpty()) << of(right, Rung::kSchedule).why;
  EXPECT_EQ(of(right, Rung::kThroughput).why, "tensor bounds the loop; units that are not it are ruled out");
  EXPECT_TRUE(of(right, Rung::kSchedule).evidence["branches"].get<bool>());
  const auto spilled = climb(evidence_of_kernel("guarded_spill", 16, "", "branches.sm_90a.cubin"), {});
  EXPECT_THAT(claims(spilled), ElementsAre(Rung::kSchedule));
  EXPECT_THAT(of(spilled, Rung::kSchedule).why, HasSubstr("spill-in-loop"));
  EXPECT_THAT(of(spilled, Rung::kSchedule).why, HasSubstr("takes its products' branches"));
}

TEST(LadderCode, IsReadForTheWarpsThatALaunchHas) {
  const std::string file = sass::test::data_path("kernels.sm_90a.cubin");
  const auto alone = read_launched(file, {"wgmma_loop", 4, 1}), many = read_launched(file, {"wgmma_loop", 16, 2});
  ASSERT_TRUE(alone.ok() && many.ok()) << (alone.ok() ? many : alone).error().message();
  EXPECT_EQ(alone->evidence["warps"], 1);
  EXPECT_EQ(many->evidence["warps"], 8);
  EXPECT_LT(many->schedule_share, alone->schedule_share) << "more warps hide more";
  int counted = 0;
  for (const auto& run : many->evidence["order"]) counted += run[1].get<int>();
  const auto& loop = many->evidence["loop"];
  EXPECT_EQ(counted * sass::kInstructionBytes, loop[1].get<int>() - loop[0].get<int>());
  EXPECT_EQ((LaunchedKernel{"", 12, 1}).consumer_warps(), 2) << "one warpgroup of three produces";
  EXPECT_THAT(read_launched(file, {"wgmma", 4, 1}).error().message(), HasSubstr("no machine code of wgmma"));
}

TEST(LadderCode, OfTwoLoopsThatMultiplyAlikeTheLongerIsAnEdge) {
  const sass::Program program = sass::test::program_of("kernels.sm_90a.cubin");
  sass::KernelReport report = sass::test::report_of(program, "wgmma_loop", {});
  const auto alone = code_of(report);
  for (const bool first : {true, false}) {
    sass::KernelReport two = report;
    sass::LoopReport edge = two.loops.front();
    edge.instructions += 100;
    edge.simulated_cycles = 2 * edge.simulated_cycles.value();
    two.loops.insert(first ? two.loops.begin() : two.loops.end(), edge);
    EXPECT_EQ(code_of(two)->evidence, alone->evidence);
  }
  for (sass::LoopReport& loop : report.loops) loop.pipes[static_cast<std::size_t>(sass::Pipe::kTensor)] = 0;
  const auto behind = code_of(report);
  ASSERT_FALSE(behind.ok()) << "its products are on no loop's path: any other loop would be taken for the hot one";
  EXPECT_THAT(behind.error().message(), HasSubstr("on no loop's way round"));
}

TEST(LadderCode, WhatIsWaitedForIsNotWastedByTheCode) {
  Evidence evidence = evidence_of_kernel("forced_spill", 16);
  const double alone = *of(climb(evidence, {}), Rung::kSchedule).bound_percent;
  evidence.waiting = Waiting{0.4, 0.0, "producer", {}};
  const auto findings = climb(evidence, {});
  EXPECT_NEAR(*of(findings, Rung::kSchedule).bound_percent, 0.6 * alone, 0.01);
  evidence.limit = Limit{70, "reads", {}};  // of 100: less than either rung's share is above it
  const auto limited = climb(evidence, {});
  EXPECT_THAT(claims(limited), ElementsAre(Rung::kPipeline));
  EXPECT_NEAR(*of(limited, Rung::kPipeline).bound_percent, 30, 1e-9);
  EXPECT_THAT(of(limited, Rung::kSchedule).why, HasSubstr("noise, or is another rung's"));
}

TEST(LadderCode, WaitingForEveryProductIsSchedules) {
  const auto findings = climb(evidence_of_kernel("wgmma_serial", 1), {});
  EXPECT_THAT(claims(findings), ElementsAre(Rung::kSchedule));
  EXPECT_THAT(of(findings, Rung::kSchedule).why, HasSubstr("wgmma-serialised"));
}

TEST(LadderCode, InstructionsThatNeedNotExistAreAlgebras) {
  // Three divisions by one value are two reciprocals too many: 16 of the 32 cycles that the loop takes a warp.
  const auto findings =
      climb(evidence_of_kernel("wgmma_loop", 8,
                               "$L__BB0_1:\n\tdiv.rn.f32 %f6, %f24, %f30;\n\tdiv.rn.f32 %f7, %f25, %f30;\n"
                               "\tdiv.rn.f32 %f8, %f26, %f30;\n\t@%p1 bra $L__BB0_1;\n\tret;\n"),
            {});
  EXPECT_THAT(claims(findings), ElementsAre(Rung::kAlgebra));
  EXPECT_NEAR(*of(findings, Rung::kAlgebra).bound_percent, 50, 0.1);
  EXPECT_THAT(of(findings, Rung::kAlgebra).why, HasSubstr("2 instructions x 8 cycles"));
}

}  // namespace
}  // namespace pinch::ladder
