#include "common/metrics/metric_page.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>
#include <prometheus/text_serializer.h>

#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sangam {
namespace {

constexpr size_t kMaxLabelBytes = 64;

}  // namespace

struct MetricPage::Families {
  // The series to fill in, nullptr when there are too many.
  prometheus::ClientMetric* Add(const std::string& name, const std::string& help,
                                prometheus::MetricType type, const Labels& labels) {
    const auto [found, added] = index.try_emplace(name, families.size());
    if (added) families.push_back({name, help, type, {}});
    prometheus::MetricFamily& family = families[found->second];
    if (family.metric.size() >= kMaxSeries) return nullptr;
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    for (const auto& [label, value] : labels) {
      metric.label.push_back({label, value.substr(0, kMaxLabelBytes)});
    }
    return &metric;
  }

  std::map<std::string, size_t> index;
  std::vector<prometheus::MetricFamily> families;
};

MetricPage::MetricPage() : families_(std::make_unique<Families>()) {}
MetricPage::~MetricPage() = default;

void MetricPage::Gauge(const std::string& name, const std::string& help, double value,
                       const Labels& labels) {
  auto* const metric = families_->Add(name, help, prometheus::MetricType::Gauge, labels);
  if (metric != nullptr) metric->gauge.value = value;
}

void MetricPage::Counter(const std::string& name, const std::string& help, double value,
                         const Labels& labels) {
  auto* const metric = families_->Add(name, help, prometheus::MetricType::Counter, labels);
  if (metric != nullptr) metric->counter.value = value;
}

void MetricPage::AddHistogram(const std::string& name, const std::string& help,
                              const Histogram& histogram, const Labels& labels) {
  auto* const metric = families_->Add(name, help, prometheus::MetricType::Histogram, labels);
  if (metric == nullptr) return;
  for (const auto& [bound, count] : histogram.buckets) {
    metric->histogram.bucket.push_back({count, bound});
  }
  metric->histogram.bucket.push_back({histogram.count, std::numeric_limits<double>::infinity()});
  metric->histogram.sample_count = histogram.count;
  metric->histogram.sample_sum = histogram.sum;
}

std::string MetricPage::Text() const {
  return prometheus::TextSerializer().Serialize(families_->families);
}

}  // namespace sangam
