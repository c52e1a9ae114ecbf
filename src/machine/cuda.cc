#include "pinch/cuda.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <array>

namespace pinch::cuda {

namespace {

// The few functions of the driver API that discovery takes, declared here so that no toolkit is needed to build it.
// Source: CUDA Driver API reference manual, device management.
using Status = int;
struct Uuid {
  std::array<unsigned char, 16> bytes;
};
enum Attribute : int { kSmCount = 16, kL2Bytes = 38, kMajor = 75, kMinor = 76 };

/// One function of an open library; null where it lacks it.
template <class Function>
Function* function(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

struct Driver {
  Status (*init)(unsigned) = nullptr;
  Status (*error_name)(Status, const char**) = nullptr;
  Status (*count)(int*) = nullptr;
  Status (*get)(int*, int) = nullptr;
  Status (*name)(char*, int, int) = nullptr;
  Status (*uuid)(Uuid*, int) = nullptr;
  Status (*attribute)(int*, int, int) = nullptr;
  Status (*memory)(std::size_t*, int) = nullptr;

  [[nodiscard]] bool complete() const {
    return init != nullptr && error_name != nullptr && count != nullptr && get != nullptr && name != nullptr &&
           uuid != nullptr && attribute != nullptr && memory != nullptr;
  }
};

Result<Driver> open_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("no CUDA driver: {}; install NVIDIA's driver, or run where there is one", ::dlerror()),
                 "device"};
  }
  Driver driver;
  driver.init = function<Status(unsigned)>(library, "cuInit");
  driver.error_name = function<Status(Status, const char**)>(library, "cuGetErrorName");
  driver.count = function<Status(int*)>(library, "cuDeviceGetCount");
  driver.get = function<Status(int*, int)>(library, "cuDeviceGet");
  driver.name = function<Status(char*, int, int)>(library, "cuDeviceGetName");
  driver.uuid = function<Status(Uuid*, int)>(library, "cuDeviceGetUuid_v2");
  driver.attribute = function<Status(int*, int, int)>(library, "cuDeviceGetAttribute");
  driver.memory = function<Status(std::size_t*, int)>(library, "cuDeviceTotalMem_v2");
  if (driver.complete()) return driver;
  return Error{ErrorCode::kUnsupported, "libcuda.so.1 is older than CUDA 11.4; install a newer driver", "device"};
}

Error refusal(const Driver& driver, const char* call, Status status) {
  const char* name = nullptr;
  if (driver.error_name(status, &name) != 0 || name == nullptr) name = "an unknown error";
  return {ErrorCode::kUnsupported, fmt::format("the CUDA driver refused {}: {}", call, name), "device"};
}

Result<std::vector<Device>> list_devices() {
  PINCH_ASSIGN(driver, open_driver());
  if (const Status status = driver.init(0); status != 0) return refusal(driver, "cuInit", status);
  int count = 0;
  if (const Status status = driver.count(&count); status != 0) return refusal(driver, "cuDeviceGetCount", status);
  if (count == 0) return Error{ErrorCode::kUnsupported, "the CUDA driver lists no device", "device"};
  std::vector<Device> list;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int handle = 0;
    std::array<char, 256> name{};
    Uuid uuid{};
    Device device;
    device.ordinal = ordinal;
    int l2_bytes = 0;
    for (const Status status :
         {driver.get(&handle, ordinal), driver.name(name.data(), static_cast<int>(name.size()), handle),
          driver.uuid(&uuid, handle), driver.attribute(&device.major, kMajor, handle),
          driver.attribute(&device.minor, kMinor, handle), driver.attribute(&device.sm_count, kSmCount, handle),
          driver.attribute(&l2_bytes, kL2Bytes, handle), driver.memory(&device.memory_bytes, handle)}) {
      if (status != 0) return refusal(driver, "a question about a device", status);
    }
    device.name = name.data();
    for (const unsigned char byte : uuid.bytes) device.uuid += fmt::format("{:02x}", byte);
    device.l2_bytes = static_cast<std::size_t>(l2_bytes);
    list.push_back(std::move(device));
  }
  return list;
}

/// The kernel driver's version is not in the driver API: its management library has it.
std::string read_driver_version() {
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  const auto init = function<int()>(library, "nvmlInit_v2");
  const auto version = function<int(char*, unsigned)>(library, "nvmlSystemGetDriverVersion");
  const auto shutdown = function<int()>(library, "nvmlShutdown");
  if (init == nullptr || version == nullptr || shutdown == nullptr || init() != 0) return {};
  std::array<char, 96> text{};
  const bool known = version(text.data(), text.size()) == 0;
  shutdown();
  return known ? text.data() : "";
}

}  // namespace

const Result<std::vector<Device>>& devices() {
  static const Result<std::vector<Device>> list = list_devices();
  return list;
}

Result<Device> sm90_device(int ordinal) {
  const Result<std::vector<Device>>& list = devices();
  if (!list) return list.error();
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= list->size()) {
    return Error{ErrorCode::kNotFound, fmt::format("no device {}; there are 0 to {}", ordinal, list->size() - 1),
                 "device"};
  }
  const Device& device = (*list)[static_cast<std::size_t>(ordinal)];
  if (device.major == 9 && device.minor == 0) return device;
  return Error{ErrorCode::kUnsupported,
               fmt::format("device {} is a {} of compute capability {}.{}; these kernels run on 9.0 (Hopper)", ordinal,
                           device.name, device.major, device.minor),
               "device"};
}

const std::string& driver_version() {
  static const std::string version = read_driver_version();
  return version;
}

}  // namespace pinch::cuda
