// C = A * B in FP32, blocked. Every element sums k in ascending order whatever the tiles, so all settings agree to the
// bit.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#ifndef TILE_I
#define TILE_I 16
#endif
#ifndef TILE_J
#define TILE_J 64
#endif

namespace {

// Files made by pinch: version 1.0, row-major FP32, a header of 118 bytes or what its length field says.
std::vector<float> read_npy(const std::string& path, std::size_t count) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  unsigned char head[10];
  std::vector<float> values(count);
  if (file == nullptr || std::fread(head, 1, 10, file) != 10) std::exit(3);
  std::fseek(file, 10 + head[8] + 256 * head[9], SEEK_SET);
  if (std::fread(values.data(), sizeof(float), count, file) != count) std::exit(3);
  std::fclose(file);
  return values;
}

void write_npy(const std::string& path, const std::vector<float>& values, int n) {
  std::string header =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(n) + ", " + std::to_string(n) + "), }";
  header.resize(117, ' ');
  header += '\n';
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) std::exit(3);
  std::fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file);
  std::fwrite(header.data(), 1, header.size(), file);
  std::fwrite(values.data(), sizeof(float), values.size(), file);
  std::fclose(file);
}

void multiply(const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c, int n) {
  std::fill(c.begin(), c.end(), 0.0F);
  for (int i0 = 0; i0 < n; i0 += TILE_I) {
    for (int j0 = 0; j0 < n; j0 += TILE_J) {
      const int i1 = std::min(i0 + TILE_I, n), j1 = std::min(j0 + TILE_J, n);
      for (int k = 0; k < n; ++k) {
        for (int i = i0; i < i1; ++i) {
          for (int j = j0; j < j1; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* inputs = std::getenv("PINCH_INPUTS");
  const char* outputs = std::getenv("PINCH_OUTPUTS");
  if (argc != 2 || inputs == nullptr || outputs == nullptr) return 2;
  const int n = std::atoi(argv[1]);
  const auto count = static_cast<std::size_t>(n) * n;
  const std::vector<float> a = read_npy(std::string(inputs) + "/a.npy", count);
  const std::vector<float> b = read_npy(std::string(inputs) + "/b.npy", count);
  std::vector<float> c(count);
  multiply(a, b, c, n);  // untimed: pages and caches
  std::string samples;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    multiply(a, b, c, n);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    samples += (i == 0 ? "" : ", ") + std::to_string(ms);
  }
  write_npy(std::string(outputs) + "/c.npy", c, n);
  std::printf("{\"ms\": [%s]}\n", samples.c_str());
}
