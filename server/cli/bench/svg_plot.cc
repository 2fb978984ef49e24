#include "server/cli/bench/svg_plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace quire::cli::bench {

// The hues stay apart for people who do not see all colours.
const char kPlotStyle[] = R"(:root { --text: #1a1a1a; --weak: #666; --line: #ddd; --page: #fff;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; }
@media (prefers-color-scheme: dark) { :root { --text: #eee; --weak: #aaa; --line: #444;
  --page: #16181b; --c0: #56b4e9; --c1: #e69f00; --c2: #2fc59b; } }
svg { max-width: 100%; height: auto; }
svg text { font: 12px sans-serif; fill: var(--weak); }
svg .title { font-weight: bold; font-size: 14px; fill: var(--text); }
svg .grid { stroke: var(--line); }
svg polyline { fill: none; stroke-width: 2; }
svg .s0 { stroke: var(--c0); } svg .s1 { stroke: var(--c1); } svg .s2 { stroke: var(--c2); }
svg circle { fill: var(--page); stroke-width: 2; })";

namespace {

constexpr double kWidth = 480;
constexpr double kHeight = 300;
constexpr double kLeft = 56;
constexpr double kRight = 16;
constexpr double kTop = 52;
constexpr double kBottom = 44;
constexpr double kMinTickGap = 30;  // between labels below the plot
constexpr int kWantedSteps = 5;

// Where values lie in the picture.
class Axes {
 public:
  explicit Axes(const Plot& plot) {
    double largest = 0;
    for (const Series& series : plot.series) {
      for (const double y : series.ys) {
        if (!std::isnan(y)) largest = std::max(largest, y);
      }
    }
    step_ = NiceStep(largest / kWantedSteps);
    y_end_ = step_ * std::max(1.0, std::ceil(largest / step_));
    // Sweeps that double would crowd on the left.
    is_log_ = plot.xs.back() >= 8 * plot.xs.front();
    x_begin_ = Scale(plot.xs.front());
    x_end_ = Scale(plot.xs.back());
  }

  double step() const { return step_; }
  double y_end() const { return y_end_; }
  double X(double x) const {
    if (x_end_ <= x_begin_) return (kLeft + kWidth - kRight) / 2;
    const double room = kWidth - kLeft - kRight - 24;
    return kLeft + 12 + room * (Scale(x) - x_begin_) / (x_end_ - x_begin_);
  }
  double Y(double y) const { return kHeight - kBottom - (kHeight - kTop - kBottom) * y / y_end_; }

 private:
  // 1, 2 or 5 times a power of ten, not below `least`.
  static double NiceStep(double least) {
    if (least <= 0) return 1;
    const double power = std::pow(10, std::floor(std::log10(least)));
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * power >= least) return factor * power;
    }
    return 10 * power;
  }
  double Scale(double x) const { return is_log_ ? std::log2(x) : x; }

  bool is_log_ = false;
  double step_ = 1;
  double x_begin_ = 0;
  double x_end_ = 0;
  double y_end_ = 1;
};

std::string Text(double x, double y, absl::string_view anchor, absl::string_view text) {
  return absl::StrFormat("<text x='%.1f' y='%.1f' text-anchor='%s'>%s</text>\n", x, y, anchor,
                         EscapeHtml(text));
}

std::string Grid(const Plot& plot, const Axes& axes) {
  std::string svg;
  for (double y = 0; y <= axes.y_end() + axes.step() / 2; y += axes.step()) {
    absl::StrAppendFormat(&svg, "<line class='grid' x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f'/>\n",
                          kLeft, kWidth - kRight, axes.Y(y), axes.Y(y));
    absl::StrAppend(&svg, Text(kLeft - 6, axes.Y(y) + 4, "end", absl::StrFormat("%g", y)));
  }
  double last = -kMinTickGap;
  for (const double x : plot.xs) {
    if (axes.X(x) - last < kMinTickGap) continue;
    last = axes.X(x);
    absl::StrAppend(&svg, Text(last, kHeight - kBottom + 18, "middle", absl::StrFormat("%g", x)));
  }
  absl::StrAppend(&svg, Text((kLeft + kWidth) / 2, kHeight - 8, "middle", plot.x_label));
  return svg;
}

std::string Line(const Plot& plot, const Axes& axes, size_t index) {
  const Series& series = plot.series[index];
  std::string points, marks;
  for (size_t i = 0; i < plot.xs.size(); ++i) {
    if (std::isnan(series.ys[i])) continue;
    const double x = axes.X(plot.xs[i]), y = axes.Y(series.ys[i]);
    absl::StrAppendFormat(&points, "%.1f,%.1f ", x, y);
    absl::StrAppendFormat(&marks,
                          "<circle class='s%d' cx='%.1f' cy='%.1f' r='4'><title>%s at %g: "
                          "%.4g</title></circle>\n",
                          index, x, y, EscapeHtml(series.name), plot.xs[i], series.ys[i]);
  }
  return absl::StrFormat("<polyline class='s%d' points='%s'/>\n%s", index, points, marks);
}

std::string Legend(const Plot& plot) {
  std::string svg;
  double x = kLeft;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    absl::StrAppendFormat(&svg, "<polyline class='s%d' points='%.1f,36 %.1f,36'/>\n", i, x, x + 18);
    absl::StrAppend(&svg, Text(x + 23, 40, "start", plot.series[i].name));
    x += 40 + 7.0 * static_cast<double>(plot.series[i].name.size());
  }
  return svg;
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string ToSvg(const Plot& plot) {
  std::string svg = absl::StrFormat(
      "<svg viewBox='0 0 %g %g' width='%g' height='%g' role='img' aria-label='%s'>\n"
      "<text class='title' x='%g' y='18'>%s</text>\n",
      kWidth, kHeight, kWidth, kHeight, EscapeHtml(plot.title), kLeft, EscapeHtml(plot.title));
  if (!plot.xs.empty()) {
    const Axes axes(plot);
    absl::StrAppend(&svg, Grid(plot, axes));
    for (size_t i = 0; i < plot.series.size(); ++i) absl::StrAppend(&svg, Line(plot, axes, i));
    // A single line is what the title says.
    if (plot.series.size() > 1) absl::StrAppend(&svg, Legend(plot));
  }
  return absl::StrCat(svg, "</svg>\n");
}

}  // namespace quire::cli::bench
