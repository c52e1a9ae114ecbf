// A page of results: sections of text, charts and tables, written as one HTML file that needs nothing else, as Markdown
// and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "pinch/result.h"

namespace pinch::report {

struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

/// Horizontal bars, each with an interval where one is known, and a rule across all of them.
struct Bars {
  struct Bar {
    std::string label;
    std::string kind;  ///< "default", "best", "other", "headroom", "quiet": its colour
    double value = 0;
    std::optional<double> low, high;
  };
  std::string unit;
  std::vector<Bar> list;
  std::optional<double> rule;
  std::string rule_label;
};

/// A value for each pair of two knobs' values, as a table whose cells are shaded.
struct HeatMap {
  std::string across, down, unit;
  std::vector<std::string> columns, rows;
  struct Cell {
    std::string text;  ///< empty: nothing was measured
    double shade = 0;  ///< 0 the best of all, 1 the worst
    bool is_default = false, is_best = false;
  };
  std::vector<std::vector<Cell>> cells;  ///< by row
};

/// Spans on lanes above one another: a timeline, or a loop's instructions by unit.
struct Lanes {
  struct Span {
    std::size_t lane = 0;
    double from = 0, to = 0;
    std::size_t tone = 0;  ///< its colour: a place in the legend
  };
  std::string unit;
  std::vector<std::string> labels;
  std::vector<Span> spans;
  std::vector<std::string> legend;
  double begin = 0, end = 0;

  /// The lane of that label, a new one where there is none.
  std::size_t lane(const std::string& label);
};

/// A chart, which has the table of its data, a heat map, which is one, or a table.
struct Figure {
  std::string title, about;
  std::optional<Bars> bars;
  std::optional<HeatMap> heat;
  std::optional<Lanes> lanes;
  Table table;  ///< of a heat map: empty
};

struct Section {
  std::string title;
  std::vector<std::string> paragraphs;
  std::vector<Figure> figures;
};

struct Page {
  std::string title;
  std::vector<Section> sections;
};

/// A document by its file's name.
struct Document {
  std::string name;
  nlohmann::ordered_json json;
  bool is_trace = false;  ///< a trace file of that name instead
};

/// A section a document: of pinch tune, sweep, check, sass and trace, in the order given. Errors: kInvalidArgument for
/// a document of another kind; kCorrupt for one that is not as pinch writes it; those of reading a trace.
Result<Page> page_of(const std::vector<Document>& documents);

/// One file: style, charts' library and data are in it, and its policy forbids it to ask for anything. Light and dark,
/// narrow and printed; without JavaScript the tables stay.
std::string to_html(const Page& page);
std::string to_markdown(const Page& page);
nlohmann::ordered_json to_json(const Page& page);

}  // namespace pinch::report
