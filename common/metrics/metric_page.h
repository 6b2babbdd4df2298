#ifndef SANGAM_COMMON_METRICS_METRIC_PAGE_H_
#define SANGAM_COMMON_METRICS_METRIC_PAGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace sangam {

// Metrics of one moment, as Prometheus reads them. Not thread-safe.
//
// Names begin with sangam_ (or process_), have base units, and end in _total for what only rises.
// A label's value is cut to 64 bytes; a metric has at most kMaxSeries series, the rest is dropped:
// nothing that peers choose makes a page grow without bound.
class MetricPage {
 public:
  static constexpr size_t kMaxSeries = 1024;

  using Labels = std::vector<std::pair<std::string, std::string>>;
  struct Histogram {
    std::vector<std::pair<double, uint64_t>> buckets;  // upper bound, count up to it
    uint64_t count = 0;
    double sum = 0;
  };

  MetricPage();
  ~MetricPage();

  // `help` is that of the first call for a name.
  void Gauge(const std::string& name, const std::string& help, double value,
             const Labels& labels = {});
  void Counter(const std::string& name, const std::string& help, double value,
               const Labels& labels = {});
  void AddHistogram(const std::string& name, const std::string& help, const Histogram& histogram,
                    const Labels& labels = {});

  // In Prometheus' text format.
  std::string Text() const;

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_METRICS_METRIC_PAGE_H_
