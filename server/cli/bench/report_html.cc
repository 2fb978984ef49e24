#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "server/cli/bench/reports.h"
#include "server/cli/bench/svg_plot.h"

namespace quire::cli::bench {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

constexpr char kPageStyle[] = R"(body { font: 15px/1.5 sans-serif; color: var(--text);
  background: var(--page); max-width: 1040px; margin: 2em auto; padding: 0 1em; }
.plots { display: flex; flex-wrap: wrap; gap: 16px; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: 4px 10px; text-align: right;
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
)";

using Value = std::function<double(const PointResult& point)>;

std::vector<double> ValuesOf(const std::vector<PointResult>& points, const Value& value) {
  std::vector<double> values;
  values.reserve(points.size());
  for (const PointResult& point : points) values.push_back(value(point));
  return values;
}

// Median and tail of one of the distributions.
std::vector<Series> Percentiles(const std::vector<PointResult>& points,
                                Distribution PointResult::*which) {
  const auto series = [&](const char* name, double Distribution::*percentile) {
    return Series{name, ValuesOf(points, [&](const PointResult& point) {
                    const Distribution& values = point.*which;
                    return values.count > 0 ? values.*percentile : kNone;
                  })};
  };
  return {series("p50", &Distribution::p50), series("p95", &Distribution::p95),
          series("p99", &Distribution::p99)};
}

std::vector<Plot> Plots(const RunInfo& run, const std::vector<PointResult>& points) {
  const bool is_closed = points.front().concurrency > 0;
  const char* const x_label = is_closed ? "requests at once" : "requests a second, asked";
  const std::vector<double> xs = ValuesOf(
      points, [&](const PointResult& point) { return is_closed ? point.concurrency : point.rate; });
  const auto tokens =
      ValuesOf(points, [](const PointResult& point) { return point.generated_tokens_per_s; });
  std::vector<Series> requests = {{"completed", ValuesOf(points, [](const PointResult& point) {
                                     return point.requests_per_s;
                                   })}};
  if (run.slo.ttft_ms > 0 || run.slo.tpot_ms > 0) {
    requests.push_back({"within the SLO", ValuesOf(points, [](const PointResult& point) {
                          return point.goodput_per_s.value_or(kNone);
                        })});
  }
  return {
      {"Generated tokens a second", x_label, xs, {{"tokens/s", tokens}}},
      {"Requests a second", x_label, xs, std::move(requests)},
      {"Time to first token (TTFT), ms", x_label, xs, Percentiles(points, &PointResult::ttft_ms)},
      {"Time per output token (TPOT), ms", x_label, xs, Percentiles(points, &PointResult::tpot_ms)},
      {"Gaps between tokens (ITL), ms", x_label, xs, Percentiles(points, &PointResult::itl_ms)},
      {"From due to done, ms", x_label, xs, Percentiles(points, &PointResult::total_ms)}};
}

std::string Cell(double value) { return absl::StrFormat("<td>%.2f</td>", value); }

std::string Cells(const Distribution& values) {
  if (values.count == 0) return "<td>-</td><td>-</td><td>-</td>";
  return absl::StrCat(Cell(values.mean), Cell(values.p50), Cell(values.p99));
}

std::string Table(const std::vector<PointResult>& points) {
  std::string html =
      "<div class='table'><table>\n<tr><th>load</th><th>completed</th><th>failed</th>"
      "<th>unfinished</th><th>s</th><th>tokens/s</th><th>prompt tokens/s</th><th>requests/s</th>"
      "<th>within SLO/s</th>";
  for (const char* name : {"TTFT", "TPOT", "ITL", "total"}) {
    absl::StrAppend(&html, "<th>", name, " mean</th><th>p50</th><th>p99</th>");
  }
  absl::StrAppend(&html, "</tr>\n");
  for (const PointResult& point : points) {
    absl::StrAppend(&html, "<tr><td>", NameOf(point), "</td><td>", point.completed, "</td><td>",
                    point.failed, "</td><td>", point.unfinished, "</td>", Cell(point.seconds),
                    Cell(point.generated_tokens_per_s), Cell(point.prompt_tokens_per_s),
                    Cell(point.requests_per_s));
    absl::StrAppend(&html, point.goodput_per_s ? Cell(*point.goodput_per_s) : "<td>-</td>",
                    Cells(point.ttft_ms), Cells(point.tpot_ms), Cells(point.itl_ms),
                    Cells(point.total_ms), "</tr>\n");
  }
  return absl::StrCat(html, "</table></div>\n");
}

}  // namespace

std::string ToHtml(const RunInfo& run, std::vector<PointResult> points) {
  // Lines are drawn from left to right, whatever the order of the sweep was.
  std::sort(points.begin(), points.end(), [](const PointResult& a, const PointResult& b) {
    return std::pair(a.concurrency, a.rate) < std::pair(b.concurrency, b.rate);
  });
  std::string html = absl::StrCat(
      "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
      "<meta name='viewport' content='width=device-width'>\n<title>quire bench: ",
      EscapeHtml(run.target.model), "</title>\n<style>\n", kPlotStyle, "\n", kPageStyle,
      "</style>\n</head>\n<body>\n<h1>quire bench</h1>\n<p>", EscapeHtml(ToText(run)));
  absl::StrAppend(&html, " Seed ", run.seed, ".");
  if (run.slo.ttft_ms > 0) absl::StrAppend(&html, " SLO: TTFT ", run.slo.ttft_ms, " ms.");
  if (run.slo.tpot_ms > 0) absl::StrAppend(&html, " SLO: TPOT ", run.slo.tpot_ms, " ms.");
  absl::StrAppend(&html, "</p>\n");
  if (points.empty()) return absl::StrCat(html, "<p>Nothing was measured.</p>\n</body>\n</html>\n");
  absl::StrAppend(&html, "<div class='plots'>\n");
  for (const Plot& plot : Plots(run, points)) absl::StrAppend(&html, ToSvg(plot));
  return absl::StrCat(html, "</div>\n", Table(points), "</body>\n</html>\n");
}

}  // namespace quire::cli::bench
