#include "workbench/probe/cuda_device.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>

#include "pinch/cuda.h"

namespace pinch::probe {
namespace {

constexpr int kMostThreads = 1024, kWarp = 32;
constexpr std::size_t kWords = std::size_t{1} << 15;  // 256 KiB: more than the chains of one block reach
constexpr std::size_t kClockBytes = kMostThreads / kWarp * 2 * sizeof(std::uint64_t);

// The part of the driver interface that probes need; handles are opaque.
struct Driver {
  using Pointer = unsigned long long;
  int (*init)(unsigned) = nullptr;
  int (*driver_version)(int*) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*device_attribute)(int*, int, int) = nullptr;
  int (*context_retain)(void**, int) = nullptr;
  int (*context_release)(int) = nullptr;
  int (*context_set)(void*) = nullptr;
  int (*module_load)(void**, const void*) = nullptr;
  int (*module_function)(void**, void*, const char*) = nullptr;
  int (*allocate)(Pointer*, std::size_t) = nullptr;
  int (*copy_in)(Pointer, const void*, std::size_t) = nullptr;
  int (*copy_out)(void*, Pointer, std::size_t) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                void**) = nullptr;
  int (*synchronise)() = nullptr;
  int (*error_string)(int, const char**) = nullptr;
};

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

class Opened final : public CudaDevice {
 public:
  static Result<std::unique_ptr<CudaDevice>> open() {
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr)
      return Error{ErrorCode::kUnsupported,
                   "no CUDA driver (libcuda.so.1 cannot be opened), so no GPU to measure on; `pinch probe --prove "
                   "--arch ARCH` needs none",
                   ""};
    auto made = std::unique_ptr<Opened>(new Opened);
    Driver& d = made->driver_;
    const bool whole =
        find(library, "cuInit", d.init) && find(library, "cuDriverGetVersion", d.driver_version) &&
        find(library, "cuDeviceGet", d.device_get) && find(library, "cuDeviceGetName", d.device_name) &&
        find(library, "cuDeviceGetAttribute", d.device_attribute) &&
        find(library, "cuDevicePrimaryCtxRetain", d.context_retain) &&
        find(library, "cuDevicePrimaryCtxRelease_v2", d.context_release) &&
        find(library, "cuCtxSetCurrent", d.context_set) && find(library, "cuModuleLoadData", d.module_load) &&
        find(library, "cuModuleGetFunction", d.module_function) && find(library, "cuMemAlloc_v2", d.allocate) &&
        find(library, "cuMemcpyHtoD_v2", d.copy_in) && find(library, "cuMemcpyDtoH_v2", d.copy_out) &&
        find(library, "cuLaunchKernel", d.launch) && find(library, "cuCtxSynchronize", d.synchronise) &&
        find(library, "cuGetErrorString", d.error_string);
    if (!whole)
      return Error{ErrorCode::kUnsupported, "the CUDA driver is too old: a function is missing", "libcuda.so.1"};
    if (const auto started = made->start(); !started)
      return Error{ErrorCode::kUnsupported, started.error().text, started.error().where};
    return std::unique_ptr<CudaDevice>(std::move(made));
  }

  ~Opened() override {
    if (context_ != nullptr) driver_.context_release(device_);
  }

  const CudaAbout& about() const override { return about_; }

  Result<void> load(const std::string& cubin) override {
    return checked(driver_.module_load(&module_, cubin.data()), "loading the probes");
  }

  Result<double> cycles(const std::string& kernel, int threads, int iterations) override {
    auto found = functions_.find(kernel);
    if (found == functions_.end()) {
      void* function = nullptr;
      PINCH_TRY(checked(driver_.module_function(&function, module_, kernel.c_str()), kernel.c_str()));
      found = functions_.emplace(kernel, function).first;
    }
    std::uint32_t count = static_cast<std::uint32_t>(iterations);
    void* parameters[] = {&clocks_, &sink_, &words_, &count};
    const std::size_t warps = static_cast<std::size_t>((threads + kWarp - 1) / kWarp);
    std::array<std::uint64_t, kClockBytes / sizeof(std::uint64_t)> clocks{};
    PINCH_TRY(checked(driver_.copy_in(clocks_, clocks.data(), warps * 16), kernel.c_str()));  // none of an earlier run
    PINCH_TRY(checked(
        driver_.launch(found->second, 1, 1, 1, static_cast<unsigned>(threads), 1, 1, 0, nullptr, parameters, nullptr),
        kernel.c_str()));
    PINCH_TRY(checked(driver_.synchronise(), kernel.c_str()));
    PINCH_TRY(checked(driver_.copy_out(clocks.data(), clocks_, warps * 16), kernel.c_str()));
    std::uint64_t first = ~std::uint64_t{0}, last = 0;
    for (std::size_t w = 0; w < warps; ++w) {
      first = std::min(first, clocks[2 * w]);
      last = std::max(last, clocks[2 * w + 1]);
    }
    if (first == 0 || last <= first)
      return Error{ErrorCode::kDevice, "the SM's clock went backwards, stood still or was not written", kernel};
    return static_cast<double>(last - first);
  }

 private:
  Opened() = default;

  Result<void> checked(int code, const char* doing) const {
    if (code == 0) return {};
    const char* text = nullptr;
    driver_.error_string(code, &text);
    return Error{ErrorCode::kDevice,
                 fmt::format("the CUDA driver says {} ({})", text == nullptr ? "nothing" : text, code), doing};
  }

  Result<void> start() {
    PINCH_TRY(checked(driver_.init(0), "cuInit"));
    PINCH_TRY(checked(driver_.device_get(&device_, 0), "device 0"));
    std::array<char, 128> name{};
    PINCH_TRY(checked(driver_.device_name(name.data(), static_cast<int>(name.size()), device_), "device 0"));
    about_.name = name.data();
    constexpr int kMajor = 75, kMinor = 76;
    int major = 0, minor = 0;
    PINCH_TRY(checked(driver_.device_attribute(&major, kMajor, device_), "device 0"));
    PINCH_TRY(checked(driver_.device_attribute(&minor, kMinor, device_), "device 0"));
    about_.sm = 10 * major + minor;
    about_.driver = cuda::driver_version();
    PINCH_TRY(checked(driver_.driver_version(&about_.cuda), "device 0"));
    PINCH_TRY(checked(driver_.context_retain(&context_, device_), "device 0"));
    PINCH_TRY(checked(driver_.context_set(context_), "device 0"));
    PINCH_TRY(checked(driver_.allocate(&clocks_, kClockBytes), "memory"));
    PINCH_TRY(checked(driver_.allocate(&sink_, kMostThreads * sizeof(std::uint32_t)), "memory"));
    PINCH_TRY(checked(driver_.allocate(&words_, kWords * sizeof(std::uint64_t)), "memory"));
    std::vector<std::uint64_t> own(kWords);  // every word holds its own address
    for (std::size_t i = 0; i < kWords; ++i) own[i] = words_ + i * sizeof(std::uint64_t);
    return checked(driver_.copy_in(words_, own.data(), kWords * sizeof(std::uint64_t)), "memory");
  }

  Driver driver_;
  CudaAbout about_;
  int device_ = 0;
  void *context_ = nullptr, *module_ = nullptr;
  Driver::Pointer clocks_ = 0, sink_ = 0, words_ = 0;
  std::map<std::string, void*> functions_;
};

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::open() {
  return Opened::open();
}

}  // namespace pinch::probe
