// CUDA probes measured on a planted device: rates, latencies and units, and what is lost when one goes wrong.
#include <gmock/gmock.h>

#include <fmt/core.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "pinch/version.h"
#include "workbench/probe/cuda_probe.h"

namespace pinch::probe {
namespace {

using testing::HasSubstr;

// Measuring, on a device whose instructions take what is written here: one a lane of `lanes` an SM, or a latency of 16.
struct Planted {
  const char* name;
  double lanes;
};
constexpr Planted kPlanted[] = {{"lop3", 64}, {"prmt", 64}, {"ffma", 128}, {"imad", 32}, {"hfma2", 128}, {"shf", 64}};
constexpr int kImad = 3;  // what goes wrong goes wrong here

const std::vector<CudaProbe>& planted_probes() {
  static const std::vector<CudaProbe> probes = [] {
    std::vector<CudaProbe> made;
    for (const Planted& p : kPlanted) made.push_back({.name = p.name, .opcode = p.name, .ptx = "", .most_chains = 4});
    return made;
  }();
  return probes;
}

CudaModule planted_module() {
  CudaOptions options;
  options.probes = &planted_probes();
  CudaModule module;
  module.arch = options.arch;
  module.ptxas = "13.0";
  module.names = "nvdisasm";
  module.nvdisasm = "13.5";
  module.cubin = std::make_shared<const std::string>("");
  module.kernels = choose_kernels(options).value();
  for (CudaKernel& kernel : module.kernels) {
    for (const CudaProbe* probe : kernel.probes) {
      const int each = kernel.operations / static_cast<int>(kernel.probes.size());
      kernel.proofs.push_back({probe->opcode, each, each, 0, "", "", 0, 0});
    }
  }
  return module;
}

class PlantedDevice : public CudaDevice {
 public:
  /// `imad`: what the device does with that probe's kernels.
  explicit PlantedDevice(std::function<Result<double>(double cycles)> imad) : imad_(std::move(imad)) {}
  const CudaAbout& about() const override { return about_; }
  Result<void> load(const std::string&) override { return {}; }
  Result<double> cycles(const std::string& kernel, int threads, int iterations) override {
    int which = 0, chains = 0, operations = 0;
    if (std::sscanf(kernel.c_str(), "probe%d_c%d_n%d", &which, &chains, &operations) == 3) {
      // Few warps do not hide a loop's branch, and less of it where the loop is short: as the difference of two loops,
      // 128 threads are too fast.
      const double branch = threads == 128 ? 512.0 / operations : 0;
      const double one = std::max(16.0 / chains, threads / kPlanted[which].lanes),
                   all = 300 + iterations * (operations * one + branch);
      return which == kImad ? imad_(all) : Result<double>(all);
    }
    EXPECT_EQ(std::sscanf(kernel.c_str(), "pair%d_n%d", &which, &operations), 2);
    const auto lanes = [&](const std::string& name) {
      return std::find_if(std::begin(kPlanted), std::end(kPlanted), [&](const Planted& p) { return name == p.name; })
          ->lanes;
    };
    const auto& [a, b] = cuda_pairs()[static_cast<std::size_t>(which)];
    const double of_a = threads / lanes(a) / 2, of_b = threads / lanes(b) / 2, issue = threads / 128.0;
    const bool shared = lanes(a) == 64 && lanes(b) == 64;  // one unit does all that runs at 64
    return 300 + iterations * operations * std::max(issue, shared ? of_a + of_b : std::max(of_a, of_b));
  }

 private:
  CudaAbout about_{"a planted device", 90, 13010, "580.1"};
  std::function<Result<double>(double)> imad_;
};

Result<Model> measured_with(const std::function<Result<double>(double cycles)>& imad, double deadline_s = 30) {
  CudaOptions options;
  options.deadline_s = deadline_s;
  return measure_cuda(planted_module(), options, [&]() -> Result<std::unique_ptr<CudaDevice>> {
    return std::unique_ptr<CudaDevice>(new PlantedDevice(imad));
  });
}

TEST(CudaMeasurement, FindsRatesLatenciesAndUnits) {
  const auto model = measured_with([](double cycles) { return cycles; });
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->device, "a planted device");
  for (const Planted& p : kPlanted) {
    const Entry* rate = model->find(p.name);
    ASSERT_NE(rate, nullptr);
    EXPECT_NEAR(rate->value.value(), p.lanes, 1e-9) << p.name;
    EXPECT_NEAR(model->find(std::string(p.name) + ".latency")->value.value(), 16, 1e-9) << p.name;
    EXPECT_EQ(rate->mark, "");
    EXPECT_EQ(rate->tools, fmt::format("CUDA 13.1, driver 580.1, nvdisasm 13.5, pinch {}, ptxas 13.0", version()));
  }
  const auto group = [&](const char* name) { return model->find(name)->group; };
  EXPECT_EQ(group("lop3"), group("prmt"));
  EXPECT_EQ(group("lop3"), group("shf"));
  EXPECT_NE(group("lop3"), group("ffma"));
  EXPECT_NE(group("ffma"), group("hfma2"));  // two units, though a warp scheduler feeds one of them a cycle
  const auto pair = std::find_if(model->pairs.begin(), model->pairs.end(),
                                 [](const Overlap& p) { return p.first == "ffma" && p.second == "hfma2"; });
  ASSERT_NE(pair, model->pairs.end());
  EXPECT_NEAR(pair->overlap.value(), 1, 1e-9);
  EXPECT_NEAR(pair->most, 1, 1e-9);
  EXPECT_TRUE(parse_model(to_json(*model).dump(), "text").ok());
}

TEST(CudaMeasurement, GivesTheLatencyOfOneInstructionOrSaysOfWhich) {
  const std::vector<CudaProbe> probes = [] {
    std::vector<CudaProbe> made = planted_probes();
    made[0].per_op = made[0].chained = 2;  // two of one opcode: half of the chain's time
    made[2].also = "ffma.other";
    return made;
  }();
  CudaModule module = planted_module();
  for (CudaKernel& kernel : module.kernels) {
    for (std::size_t p = 0; p < kernel.probes.size(); ++p) {
      const auto which = static_cast<std::size_t>(kernel.probes[p] - planted_probes().data());
      kernel.probes[p] = &probes[which];
      if (which == 1 && kernel.probes.size() == 1) {
        kernel.proofs[p].others = kernel.operations;
        kernel.proofs[p].instead = fmt::format("FADD x {}", kernel.operations);
      }
      if (which == 2) {
        kernel.proofs[p].also = "ffma.other";
        kernel.proofs[p].of_also = kernel.operations / 2;
      }
    }
  }
  const auto model = measure_cuda(module, {}, []() -> Result<std::unique_ptr<CudaDevice>> {
    return std::unique_ptr<CudaDevice>(new PlantedDevice([](double cycles) { return cycles; }));
  });
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_NEAR(model->find("lop3.latency")->value.value(), 8, 1e-9);
  EXPECT_NEAR(model->find("prmt.latency")->value.value(), 16, 1e-9);
  EXPECT_THAT(model->find("prmt.latency")->proof, HasSubstr("of the whole chain, with FADD x 32"));
  EXPECT_THAT(model->find("ffma.latency")->proof, HasSubstr("the mean of a chain of ffma and ffma.other"));
  for (const Overlap& pair : model->pairs) {
    if (pair.first == "ffma" || pair.second == "ffma") {
      EXPECT_THAT(pair.mark, HasSubstr("decides nothing"));
    }
  }
  EXPECT_EQ(model->find("shf.latency")->proof.find("chain"), std::string::npos);
}

// One probe is lost with its pairs, and says why; all others are as they were.
void expect_only_imad_lost(const Result<Model>& model, const std::string& why) {
  ASSERT_TRUE(model.ok()) << model.error().message();
  for (const Planted& p : kPlanted) {
    const Entry* entry = model->find(p.name);
    ASSERT_NE(entry, nullptr) << p.name;
    EXPECT_EQ(entry->value.has_value(), std::string(p.name) != "imad") << p.name;
  }
  EXPECT_THAT(model->find("imad")->mark, HasSubstr(why));
  EXPECT_THAT(model->find("imad.latency")->mark, HasSubstr(why));
  for (const Overlap& pair : model->pairs) {
    const bool lost = pair.first == "imad" || pair.second == "imad";
    EXPECT_EQ(pair.overlap.has_value(), !lost) << pair.first << " + " << pair.second;
    EXPECT_EQ(pair.mark.empty(), !lost);
  }
  EXPECT_TRUE(parse_model(to_json(*model).dump(), "text").ok());
}

TEST(CudaMeasurement, LosesOnlyTheProbeThatTheDeviceBreaksOff) {
  expect_only_imad_lost(measured_with([](double) -> Result<double> {
                          return Error{ErrorCode::kDevice, "an illegal address was met (700)", "imad"};
                        }),
                        "an illegal address was met (700)");
}

TEST(CudaMeasurement, LosesOnlyTheProbeThatKillsItsProcess) {
  expect_only_imad_lost(measured_with([](double cycles) -> Result<double> {
                          ::raise(SIGKILL);
                          return cycles;
                        }),
                        "killed by SIGKILL");
}

TEST(CudaMeasurement, LosesOnlyTheProbeThatNeverEnds) {
  expect_only_imad_lost(measured_with(
                            [](double) -> Result<double> {
                              for (;;) ::pause();
                            },
                            1),
                        "no end after 1 s");
}

TEST(CudaMeasurement, LosesOnlyTheProbeWhoseClockStandsStill) {
  expect_only_imad_lost(measured_with([](double) { return 300.0; }), "the clock is not to be trusted");
}

TEST(CudaMeasurement, MarksADeviceThatIsSharedOrThrottled) {
  int calls = 0;
  const auto model = measured_with([&](double cycles) { return ++calls / 2 % 2 == 0 ? cycles : 1.2 * cycles; });
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_TRUE(model->find("imad")->value.has_value());
  EXPECT_GT(model->find("imad")->spread, kMaxSpread);
  EXPECT_THAT(model->find("imad")->mark, HasSubstr("shared or throttled"));
  EXPECT_EQ(model->find("ffma")->mark, "");
}

TEST(CudaMeasurement, RunsNothingThatIsNotProved) {
  CudaModule module = planted_module();
  for (CudaKernel& kernel : module.kernels) {
    if (kernel.probes[0]->name == "imad") kernel.proofs[0].found = 1;
  }
  const auto model = measure_cuda(module, {}, []() -> Result<std::unique_ptr<CudaDevice>> {
    return std::unique_ptr<CudaDevice>(new PlantedDevice([](double) -> Result<double> {
      ADD_FAILURE() << "it was run";
      return 1.0;
    }));
  });
  expect_only_imad_lost(model, "not proved");
  EXPECT_FALSE(model->find("imad")->proved);
  EXPECT_THAT(model->find("imad")->proof, HasSubstr("found 1"));
}

TEST(CudaMeasurement, NeedsTheDeviceThatTheProbesAreFor) {
  CudaModule module = planted_module();
  module.arch = "sm_103a";
  const auto other = measure_cuda(module, {}, []() -> Result<std::unique_ptr<CudaDevice>> {
    return std::unique_ptr<CudaDevice>(new PlantedDevice([](double cycles) { return cycles; }));
  });
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(other.error().message(), HasSubstr("is an sm_90, the probes are for sm_103a"));
  const auto none = measure_cuda(module, {}, []() -> Result<std::unique_ptr<CudaDevice>> {
    return Error{ErrorCode::kUnsupported, "no driver", ""};
  });
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace pinch::probe
