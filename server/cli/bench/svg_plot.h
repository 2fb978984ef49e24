#ifndef QUIRE_SERVER_CLI_BENCH_SVG_PLOT_H_
#define QUIRE_SERVER_CLI_BENCH_SVG_PLOT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace quire::cli::bench {

struct Series {
  std::string name;
  std::vector<double> ys;  // one for each x; NaN: none there
};

struct Plot {
  std::string title;
  std::string x_label;
  std::vector<double> xs;      // above 0, rising
  std::vector<Series> series;  // at most kMaxSeries
};

constexpr int kMaxSeries = 3;

// An <svg> element. Colours are those of the classes s0, s1, s2 of kPlotStyle.
std::string ToSvg(const Plot& plot);

// CSS for all plots of a page, for light and dark.
extern const char kPlotStyle[];

std::string EscapeHtml(absl::string_view text);

}  // namespace quire::cli::bench

#endif  // QUIRE_SERVER_CLI_BENCH_SVG_PLOT_H_
