// Discovery through the driver: what it says where there is none, and that what it lists is sound where there is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pinch/cuda.h"

namespace pinch::cuda {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

TEST(CudaDevices, AreListedOrTheDriverIsNamed) {
  const Result<std::vector<Device>>& list = devices();
  if (!list) {
    EXPECT_EQ(list.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(list.error().text, HasSubstr("driver"));
    EXPECT_EQ(list.error().where, "device");
    return;
  }
  ASSERT_FALSE(list->empty());
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Device& device = (*list)[i];
    EXPECT_EQ(device.ordinal, static_cast<int>(i));
    EXPECT_FALSE(device.name.empty());
    EXPECT_THAT(device.uuid, SizeIs(32));
    EXPECT_GT(device.sm_count, 0);
    EXPECT_GT(device.major, 0);
    EXPECT_GT(device.memory_bytes, std::size_t{1} << 28);
  }
}

TEST(CudaDevices, OneThatIsNotThereIsRefused) {
  for (const int ordinal : {-1, 1000}) {
    const Result<Device> device = sm90_device(ordinal);
    ASSERT_FALSE(device.ok());
    EXPECT_EQ(device.error().code, devices().ok() ? ErrorCode::kNotFound : ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace pinch::cuda
