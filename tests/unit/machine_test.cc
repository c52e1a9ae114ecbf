#include "pinch/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace pinch {
namespace {

TEST(Machine, IsaNamesParseBack) {
  for (const CpuIsa isa : cpu_isas()) EXPECT_EQ(parse_cpu_isa(to_string(isa)).value(), isa);
}

TEST(Machine, UnknownIsaOffersTheNames) {
  const auto isa = parse_cpu_isa("avx1024");
  ASSERT_FALSE(isa.ok());
  EXPECT_EQ(isa.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(isa.error().message(), testing::HasSubstr("avx512_bf16"));
}

TEST(Machine, ChoiceAllowsWhatItSays) {
  const CpuChoice free{false, CpuIsa::kAvx512}, forced{true, CpuIsa::kAvx2};
  EXPECT_TRUE(free.allows(CpuIsa::kScalar));
  EXPECT_TRUE(free.allows(CpuIsa::kAvx512));
  EXPECT_FALSE(free.allows(CpuIsa::kAvx512Bf16));
  EXPECT_TRUE(forced.allows(CpuIsa::kAvx2));
  EXPECT_FALSE(forced.allows(CpuIsa::kScalar));
}

// The kernel's own list of CPU flags is an independent reading of the same hardware.
TEST(Machine, BestIsaAgreesWithTheKernelsFlags) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line) && line.rfind("flags", 0) != 0) {
  }
  if (!file) GTEST_SKIP() << "no /proc/cpuinfo with flags";
  line += ' ';
  const auto has = [&](const std::string& flag) { return line.find(' ' + flag + ' ') != std::string::npos; };
  CpuIsa expected = CpuIsa::kScalar;
  if (has("avx2") && has("fma")) expected = CpuIsa::kAvx2;
  if (has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl")) expected = CpuIsa::kAvx512;
  if (expected == CpuIsa::kAvx512 && has("avx512_bf16")) expected = CpuIsa::kAvx512Bf16;
  // The flag says that tiles exist, not that this process was granted them.
  if (cpu_machine().best_isa == CpuIsa::kAmxBf16) {
    EXPECT_TRUE(has("amx_bf16"));
  } else {
    EXPECT_EQ(cpu_machine().best_isa, expected);
  }
}

TEST(Machine, DescribesThisCpu) {
  const CpuMachine& cpu = cpu_machine();
  EXPECT_FALSE(cpu.brand.empty());
  EXPECT_GE(cpu.cores, 1);
}

}  // namespace
}  // namespace pinch
