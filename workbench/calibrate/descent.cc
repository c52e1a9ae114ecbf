#include "workbench/calibrate/descent.h"

#include <cmath>

namespace pinch::calibrate {
namespace {

bool improve(std::vector<double>& values, std::size_t constant, double factor,
             const std::function<double(std::size_t)>& loss) {
  bool moved = false;
  double now = loss(constant);
  for (const double step : {factor, 1 / factor}) {
    for (;;) {
      const double before = values[constant];
      values[constant] = before * step;
      const double then = loss(constant);
      if (!(then < now * (1 - 1e-6)) || !std::isnormal(values[constant])) {
        values[constant] = before;
        break;
      }
      now = then;
      moved = true;
    }
    if (moved) break;
  }
  return moved;
}

}  // namespace

void descend(std::vector<double>& values, const std::vector<bool>& free,
             const std::function<double(std::size_t)>& loss) {
  for (const double factor : {2.0, 1.3, 1.1, 1.03, 1.01, 1.003}) {
    for (int sweep = 0; sweep < 40; ++sweep) {
      bool moved = false;
      for (std::size_t c = values.size(); c-- > 0;) moved |= free[c] && improve(values, c, factor, loss);
      if (!moved) break;
    }
  }
}

}  // namespace pinch::calibrate
