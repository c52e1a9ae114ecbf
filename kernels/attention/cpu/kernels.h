// What an instruction set provides: one product of a few rows by a panel, and the softmax of one row.
#pragma once

#include <cstdint>

#include "kernels/attention/numerics.h"
#include "pinch/machine.h"

namespace pinch::attention {

/// In what operands are multiplied. Every quantised P, V, Q and K is exact in bf16.
enum class Element : std::uint8_t {
  kF32,
  kPairs,  ///< bf16, two neighbouring k in a dword
};
constexpr std::int64_t element_bytes(Element element) {
  return element == Element::kF32 ? 4 : 2;
}

/// Columns that a row's kernels walk at once; the visible ones are rounded up to it.
inline constexpr int kStep = 16;

/// c[rows][ldc] = a[rows][lda] . panel, added to decay[row] * c where decay is given. `k` is a multiple of k_step.
///   a      row-major elements
///   panel  [k][columns] floats, or [k / 2][columns] pairs
using Multiply = void (*)(const void* a, std::int64_t lda, const void* panel, std::int64_t k, const float* decay,
                          float* c, std::int64_t ldc);

/// Scores to scale * score, minus infinity from `visible` on. Returns the largest.
using ScaleMax = float (*)(float* s, int visible, int count, float scale);
/// s to P = exp2(s - m) as elements of `p`, in the type of P.V. Returns the sum of P before rounding, 16 lanes of which
/// are added up apart. `s` is scratch afterwards. `count` is a multiple of kStep.
using Probabilities = float (*)(float* s, int count, float m, void* p);

/// The parts of a softmax row by what the tactic says.
struct SoftmaxKernels {
  ScaleMax scale_max = nullptr;
  Probabilities probabilities = nullptr;
};

struct Kernels {
  Element element = Element::kF32;
  int rows = 0;     ///< of one product
  int columns = 0;  ///< of one product: divides 64, so any dim
  int k_step = 1;
  Multiply multiply = nullptr;
  SoftmaxKernels softmax;
  void (*begin)() = nullptr;  ///< around all products of a thread; may be null
  void (*end)() = nullptr;
};

/// How P is formed.
struct PForm {
  PvType pv = PvType::kBf16;
  Quant quant = Quant::kLinear;  ///< of fp4
  Exp2 exp2 = Exp2::kPoly4;      ///< kPoly3, kPoly4 or kPoly5
};

/// The sets exist where the build's target is x86-64; null kernels elsewhere.
Kernels scalar_kernels(const PForm& form);
Kernels avx2_kernels(const PForm& form);
Kernels avx512_kernels(const PForm& form);
Kernels avx512_bf16_kernels(const PForm& form);
Kernels amx_bf16_kernels(const PForm& form);
Kernels find_kernels(CpuIsa isa, const PForm& form);

/// Shape of a set's product without its kernels, for cost models.
struct KernelShape {
  Element element;
  int rows, columns, k_step;
};
constexpr KernelShape shape_of(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kScalar:
      return {Element::kF32, 4, 16, 1};
    case CpuIsa::kAvx2:
      return {Element::kF32, 6, 16, 1};
    case CpuIsa::kAvx512:
      return {Element::kF32, 6, 64, 1};
    case CpuIsa::kAvx512Bf16:
      return {Element::kPairs, 6, 64, 2};
    case CpuIsa::kAmxBf16:
      return {Element::kPairs, 32, 32, 32};
  }
  return {Element::kF32, 4, 16, 1};
}

/// The function of `table` [exp2][form] that the P form names; rows are kPoly3, kPoly4, kPoly5, columns bf16, fp8, fp4
/// linear, fp4 log.
constexpr Probabilities choose(const Probabilities (&table)[3][4], const PForm& form) {
  const int exp2 = form.exp2 == Exp2::kPoly3 ? 0 : form.exp2 == Exp2::kPoly4 ? 1 : 2;
  const int p = form.pv == PvType::kBf16 ? 0 : form.pv == PvType::kFp8 ? 1 : form.quant == Quant::kLinear ? 2 : 3;
  return table[exp2][p];
}

}  // namespace pinch::attention
