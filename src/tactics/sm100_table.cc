// Reads the sm100 table.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/tactics/sm100.h"

namespace pinch {
namespace {

using nlohmann::json;

// Field access that throws json::exception; parse_sm100_table turns it into an Error that names the field.
std::int64_t positive(const json& object, const std::string& field) {
  const json& value = object.at(field);
  if (!value.is_number_integer() || value.get<std::int64_t>() < 1 || value.get<std::int64_t>() > 1 << 20) {
    throw json::other_error::create(
        500, fmt::format("{} is {}; a whole number from 1 to 2^20 is needed", field, value.dump()), &object);
  }
  return value.get<std::int64_t>();
}

Sm100Tactic tactic_of(const json& row, const json& ctas_per_tile) {
  const json& cluster = row.at("cluster");
  if (!cluster.is_array() || cluster.size() != 2) {
    throw json::other_error::create(500, "cluster is not a pair: " + cluster.dump(), &row);
  }
  Sm100Tactic tactic;
  tactic.tile_n = positive(row, "tile_n");
  tactic.tile_m = positive(row, "tile_m");
  tactic.tile_k = positive(row, "tile_k");
  tactic.cluster = {cluster[0].get<std::int64_t>(), cluster[1].get<std::int64_t>()};
  tactic.raster_along_m = row.at("raster_along_m").get<bool>();
  tactic.ctas_per_tile = positive(ctas_per_tile, std::to_string(tactic.tile_n));
  return tactic;
}

Sm100Table table_of(const json& document) {
  if (document.at("schema") != "pinch-tactics/1" || document.at("family") != "sm100") {
    throw json::other_error::create(500, "schema pinch-tactics/1 of the family sm100 is needed", &document);
  }
  Sm100Table table;
  table.k_multiple = positive(document.at("legality"), "k_multiple");
  table.n_multiple = positive(document.at("legality"), "n_multiple");
  table.half_bytes_n = positive(document.at("half_bytes_per_k"), "tile_n");
  table.half_bytes_m = positive(document.at("half_bytes_per_k"), "tile_m");
  for (const json& row : document.at("tactics")) {
    const Sm100Tactic tactic = tactic_of(row, document.at("ctas_per_tile"));
    if (std::find(table.tactics.begin(), table.tactics.end(), tactic) != table.tactics.end()) {
      throw json::other_error::create(500, "tactic listed twice: " + to_string(tactic), &row);
    }
    table.tactics.push_back(tactic);
  }
  if (table.tactics.empty()) throw json::other_error::create(500, "tactics is empty", &document);
  return table;
}

}  // namespace

Result<Sm100Table> parse_sm100_table(std::string_view text) {
  try {
    return table_of(json::parse(text));
  } catch (const json::exception& error) {
    return Error{ErrorCode::kCorrupt, error.what(), "sm100 tactic table"};
  }
}

}  // namespace pinch
