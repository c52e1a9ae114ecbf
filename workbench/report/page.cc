#include "workbench/report/page.h"

#include <fmt/core.h>

#include <algorithm>

#include "embedded/chart_js.h"
#include "embedded/page_css.h"
#include "embedded/page_js.h"
#include "src/core/html_text.h"
#include "src/core/json_text.h"

namespace pinch::report {
namespace {

using nlohmann::ordered_json;

// JSON as the text of a <script>, whose end and whose comments begin with "<".
std::string for_script(const ordered_json& json) {
  std::string text;
  for (const char c : json_text(json)) text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return text;
}

bool is_number(const std::string& cell) {
  return !cell.empty() && cell.find_first_not_of("0123456789.+-e%") == std::string::npos;
}

ordered_json bars_json(const Bars& bars) {
  ordered_json json{{"unit", bars.unit}, {"bars", ordered_json::array()}};
  const auto optional = [](const std::optional<double>& value) {
    return value ? ordered_json(*value) : ordered_json(nullptr);
  };
  for (const Bars::Bar& bar : bars.list) {
    json["bars"].push_back({{"label", bar.label},
                            {"kind", bar.kind},
                            {"value", bar.value},
                            {"low", optional(bar.low)},
                            {"high", optional(bar.high)}});
  }
  json["rule"] = optional(bars.rule);
  json["rule_label"] = bars.rule_label;
  return json;
}

ordered_json lanes_json(const Lanes& lanes) {
  ordered_json spans = ordered_json::array();
  for (const Lanes::Span& span : lanes.spans) spans.push_back({span.lane, span.from, span.to, span.tone});
  return {{"unit", lanes.unit},     {"labels", lanes.labels}, {"spans", spans},
          {"legend", lanes.legend}, {"begin", lanes.begin},   {"end", lanes.end}};
}

ordered_json table_json(const Table& table) {
  return {{"columns", table.columns}, {"rows", table.rows}};
}

// A heat map is a table for those who do not see its shades.
Table table_of(const HeatMap& heat) {
  Table table;
  table.columns = {fmt::format("{} \\ {}", heat.down, heat.across)};
  table.columns.insert(table.columns.end(), heat.columns.begin(), heat.columns.end());
  for (std::size_t r = 0; r < heat.rows.size(); ++r) {
    std::vector<std::string> row = {heat.rows[r]};
    for (const HeatMap::Cell& cell : heat.cells[r]) {
      row.push_back(fmt::format("{}{}{}", cell.text.empty() ? "-" : cell.text, cell.is_default ? " (default)" : "",
                                cell.is_best ? " (best)" : ""));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

constexpr std::size_t kTones = 8;  // of page.css

class Html {
 public:
  std::string page(const Page& page) {
    // The policy of the page itself: whatever is in it, no request leaves it.
    text_ = fmt::format(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" "
        "content=\"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:\">\n"
        "<title>{0}</title>\n<style>\n{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
        html_text(page.title), embedded::page_css);
    for (const Section& each : page.sections) section(each);
    if (charts_ > 0) {
      text_ += fmt::format("<script>{}</script>\n<script>\n{}</script>\n", embedded::chart_js, embedded::page_js);
    }
    return text_ + "</body>\n</html>\n";
  }

 private:
  void section(const Section& section) {
    text_ += fmt::format("<section>\n<h2>{}</h2>\n", html_text(section.title));
    for (const std::string& each : section.paragraphs) text_ += fmt::format("<p>{}</p>\n", html_text(each));
    for (const Figure& each : section.figures) figure(each);
    text_ += "</section>\n";
  }

  void figure(const Figure& figure) {
    text_ += fmt::format("<figure>\n<h3>{}</h3>\n", html_text(figure.title));
    if (!figure.about.empty()) text_ += fmt::format("<p class=\"about\">{}</p>\n", html_text(figure.about));
    if (figure.bars || figure.lanes) {
      ++charts_;
      if (figure.lanes) legend(*figure.lanes);
      text_ += fmt::format(
          "<div><canvas data-from=\"chart{0}\" role=\"img\" aria-label=\"{1}; the table below has its "
          "data\"></canvas></div>\n"
          "<script type=\"application/json\" id=\"chart{0}\">{2}</script>\n<details>\n<summary>Data</summary>\n",
          charts_, html_text(figure.title),
          for_script(figure.bars ? bars_json(*figure.bars) : lanes_json(*figure.lanes)));
      table(figure.table, figure.title);
      text_ += "</details>\n";
    } else if (figure.heat) {
      heat(*figure.heat, figure.title);
    } else {
      table(figure.table, figure.title);
    }
    text_ += "</figure>\n";
  }

  void legend(const Lanes& lanes) {
    text_ += "<p class=\"legend\">";
    for (std::size_t i = 0; i < lanes.legend.size(); ++i)
      text_ += fmt::format("<span style=\"--tone:var(--tone{})\">{}</span> ", i % kTones, html_text(lanes.legend[i]));
    text_ += "</p>\n";
  }

  // A region that scrolls must be reachable by keyboard.
  void open_table(const std::string& title, const char* kind) {
    text_ += fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table{}>\n",
                         html_text(title), kind);
  }
  void head(const std::vector<std::string>& columns) {
    text_ += "<thead><tr>";
    for (const std::string& column : columns) text_ += fmt::format("<th scope=\"col\">{}</th>", html_text(column));
    text_ += "</tr></thead>\n<tbody>\n";
  }
  void close_table() { text_ += "</tbody>\n</table></div>\n"; }

  void table(const Table& table, const std::string& title) {
    open_table(title, "");
    head(table.columns);
    for (const auto& row : table.rows) {
      text_ += "<tr>";
      for (const std::string& cell : row) {
        const bool command = cell.starts_with("pinch ");
        text_ += fmt::format("<td{}>{}{}{}</td>", is_number(cell) ? " class=\"number\"" : "", command ? "<code>" : "",
                             html_text(cell), command ? "</code>" : "");
      }
      text_ += "</tr>\n";
    }
    close_table();
  }

  void heat(const HeatMap& heat, const std::string& title) {
    open_table(title, " class=\"heat\"");
    const Table table = table_of(heat);
    head(table.columns);
    for (std::size_t r = 0; r < heat.rows.size(); ++r) {
      text_ += fmt::format("<tr><th scope=\"row\">{}</th>", html_text(heat.rows[r]));
      for (std::size_t c = 0; c < heat.columns.size(); ++c) {
        const HeatMap::Cell& cell = heat.cells[r][c];
        text_ += fmt::format("<td class=\"{}{}\" style=\"--shade:{:.3f}\">{}</td>", cell.is_best ? "best " : "",
                             cell.is_default ? "default" : "", cell.shade, html_text(table.rows[r][c + 1]));
      }
      text_ += "</tr>\n";
    }
    close_table();
  }

  std::string text_;
  int charts_ = 0;
};

// A pipe ends a cell of Markdown, and a line break its row.
std::string cell_text(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

void add_row(std::string& text, const std::vector<std::string>& cells) {
  for (const std::string& cell : cells) text += fmt::format("| {} ", cell_text(cell));
  text += "|\n";
}

}  // namespace

std::size_t Lanes::lane(const std::string& label) {
  const auto found = std::find(labels.begin(), labels.end(), label);
  if (found != labels.end()) return static_cast<std::size_t>(found - labels.begin());
  labels.push_back(label);
  return labels.size() - 1;
}

std::string to_html(const Page& page) {
  return Html().page(page);
}

std::string to_markdown(const Page& page) {
  std::string text = fmt::format("# {}\n", page.title);
  for (const Section& section : page.sections) {
    text += fmt::format("\n## {}\n", section.title);
    for (const std::string& each : section.paragraphs) text += fmt::format("\n{}\n", each);
    for (const Figure& figure : section.figures) {
      text += fmt::format("\n### {}\n\n{}{}", figure.title, figure.about, figure.about.empty() ? "" : "\n\n");
      const Table table = figure.heat ? table_of(*figure.heat) : figure.table;
      add_row(text, table.columns);
      add_row(text, std::vector<std::string>(table.columns.size(), "---"));
      for (const auto& row : table.rows) add_row(text, row);
    }
  }
  return text;
}

ordered_json to_json(const Page& page) {
  ordered_json json{{"title", page.title}, {"sections", ordered_json::array()}};
  for (const Section& section : page.sections) {
    ordered_json figures = ordered_json::array();
    for (const Figure& figure : section.figures) {
      ordered_json each{{"title", figure.title}, {"about", figure.about}};
      each["table"] = table_json(figure.heat ? table_of(*figure.heat) : figure.table);
      if (figure.bars) each["bars"] = bars_json(*figure.bars);
      if (figure.lanes) each["lanes"] = lanes_json(*figure.lanes);
      figures.push_back(std::move(each));
    }
    json["sections"].push_back({{"title", section.title}, {"paragraphs", section.paragraphs}, {"figures", figures}});
  }
  return json;
}

}  // namespace pinch::report
