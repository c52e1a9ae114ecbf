// An entry of a machine model with every field that one must have.
#pragma once

#include <string>

#include "workbench/probe/model.h"

namespace pinch::probe {

inline Entry entry_of(const std::string& name, double value, Origin origin) {
  Entry entry;
  entry.name = name;
  entry.value = value;
  entry.unit = "lanes/clk/SM";
  entry.origin = origin;
  entry.method = "by hand";
  entry.proof = "none";
  entry.source = "test";
  entry.device = "a device";
  entry.date = "2026-01-02";
  entry.tools = "none";
  return entry;
}

}  // namespace pinch::probe
