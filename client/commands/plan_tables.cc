#include "client/commands/plan_tables.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/human_format.h"
#include "client/table.h"
#include "common/flags/wrap.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace sangam {
namespace {

using Names = google::protobuf::RepeatedPtrField<std::string>;
using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kColumns = 100;
// Of the text behind a key.
constexpr size_t kIndent = 13;
// Of a block's name, so that two and their count leave room for workers.
constexpr size_t kNameColumns = 20;
constexpr size_t kWorkerColumns = 44;

std::string Plural(uint64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

// A text of several paragraphs, each from a line of its own.
std::string Paragraphs(absl::string_view key, absl::string_view text) {
  const std::string printable = Printable(text);
  std::string result;
  for (const absl::string_view line : absl::StrSplit(printable, '\n')) {
    absl::StrAppend(&result, HangingText(result.empty() ? key : "", line, kIndent, kColumns));
  }
  return result;
}

std::string Fact(absl::string_view key, absl::string_view value) {
  return HangingText(absl::StrCat("  ", key), OneLine(value), kIndent, kColumns);
}

std::string Shortened(const std::string& name) {
  const std::string line = OneLine(name);
  return line.size() <= kNameColumns ? line : absl::StrCat(line.substr(0, kNameColumns - 2), "..");
}

std::string PercentText(double part) {
  return std::isfinite(part) ? absl::StrFormat("%.1f%%", 100 * part) : "-";
}

std::string BytesOrDash(uint64_t bytes) { return bytes == 0 ? "-" : HumanBytes(bytes); }

std::string BlocksText(const std::string& first, const std::string& last, uint32_t count) {
  std::string text = Shortened(first);
  if (count > 1) absl::StrAppend(&text, "..", Shortened(last), " (", count, ")");
  return text;
}

// Appends the row of a stage, and rows for the workers that do not fit into its last cell.
void AddStageRow(std::vector<std::string> cells, const Names& workers, Rows* rows) {
  const std::vector<std::string> lines =
      WrapWords(OneLine(absl::StrJoin(workers, ", ")), kWorkerColumns);
  const size_t before = cells.size();
  cells.push_back(lines.empty() ? "-" : lines[0]);
  rows->push_back(std::move(cells));
  for (size_t i = 1; i < lines.size(); ++i) {
    rows->emplace_back(before);
    rows->back().push_back(lines[i]);
  }
}

// How the workers are spread: "2 pipelines of 3 workers, 2 stages on each".
std::string LayoutText(const v1::StrategyForecast& forecast) {
  std::string text;
  if (forecast.ranks() <= 1) {
    text = absl::StrCat(Plural(forecast.replicas(), "worker"), ", each with the whole model");
  } else {
    text = absl::StrCat(Plural(forecast.replicas(), "pipeline"), " of ",
                        Plural(forecast.ranks(), "worker"), ", ",
                        Plural(std::max(1u, forecast.chunks()), "stage"), " on each, ",
                        ScheduleName(forecast.schedule()));
    // Of a pipeline that could not be planned there are none.
    if (forecast.lanes() > 0) {
      absl::StrAppend(&text, ", ", Plural(forecast.credits(), "credit"), ", ",
                      Plural(forecast.lanes(), "lane"));
    }
  }
  if (forecast.idle_workers() > 0) {
    absl::StrAppend(&text, "; ", Plural(forecast.idle_workers(), "worker"), " idle");
  }
  return text;
}

bool IsChosen(const v1::PlanReport& report, int index) {
  return report.feasible() && static_cast<uint32_t>(index) == report.chosen();
}

// Most numbers of all strategies, one a line.
std::string Comparison(const v1::PlanReport& report) {
  Rows rows;
  for (int i = 0; i < report.forecast_size(); ++i) {
    const v1::StrategyForecast& forecast = report.forecast(i);
    const uint64_t workers = uint64_t{forecast.ranks()} * forecast.replicas();
    const uint64_t wire = forecast.parameter_wire_bytes() + forecast.activation_wire_bytes();
    rows.push_back({StrategyName(forecast.strategy()), workers == 0 ? "-" : absl::StrCat(workers),
                    BytesOrDash(forecast.memory_bytes()),
                    BytesOrDash(forecast.memory_limit_bytes()), BytesOrDash(wire),
                    HumanSeconds(forecast.step_seconds()),
                    forecast.step_seconds() > 0 ? PercentText(forecast.bubble()) : "-",
                    IsChosen(report, i) ? "chosen"
                    : forecast.fits()   ? "fits"
                                        : "does not fit"});
  }
  return FormatTable({{"STRATEGY"},
                      {"WORKERS", true},
                      {"MEMORY", true},
                      {"LIMIT", true},
                      {"WIRE/STEP", true},
                      {"STEP", true},
                      {"BUBBLE", true},
                      {""}},
                     rows);
}

std::string StrategyText(const v1::StrategyForecast& forecast) {
  std::string text = absl::StrCat("\n", StrategyName(forecast.strategy()), "\n");
  if (!forecast.fits()) absl::StrAppend(&text, Fact("obstacle", forecast.obstacle()));
  if (forecast.ranks() > 0) absl::StrAppend(&text, Fact("layout", LayoutText(forecast)));
  absl::StrAppend(&text, Fact("data", forecast.data()), Fact("purpose", forecast.purpose()),
                  Fact("method", forecast.method()), Fact("scaling", forecast.scaling()));
  if (forecast.memory_bytes() > 0) {
    // 0 is no limit.
    const uint64_t limit = forecast.memory_limit_bytes();
    absl::StrAppend(&text, Fact("memory", absl::StrCat(HumanBytes(forecast.memory_bytes()),
                                                       limit == 0 ? "" : " of ",
                                                       limit == 0 ? "" : HumanBytes(limit),
                                                       " on the worker that needs most")));
  }
  if (forecast.parameter_wire_bytes() > 0) {
    std::string wire =
        absl::StrCat(HumanBytes(forecast.parameter_wire_bytes()), " of gradients and weights");
    if (forecast.activation_wire_bytes() > 0) {
      absl::StrAppend(&wire, ", ", HumanBytes(forecast.activation_wire_bytes()),
                      " of activations and their gradients");
    }
    absl::StrAppend(&text, Fact("wire", absl::StrCat(wire, " in each step")));
  }
  return text;
}

std::string StagesText(const v1::StrategyForecast& forecast) {
  Rows places;
  Rows numbers;
  for (int s = 0; s < forecast.stage_size(); ++s) {
    const v1::StageForecast& stage = forecast.stage(s);
    AddStageRow({absl::StrCat(s), BlocksText(stage.first_block_name(), stage.last_block_name(),
                                             stage.block_count())},
                stage.worker(), &places);
    numbers.push_back({absl::StrCat(s), HumanCount(stage.parameter_count()),
                       HumanSeconds(stage.forward_seconds()),
                       HumanSeconds(stage.backward_seconds()), BytesOrDash(stage.memory_bytes()),
                       BytesOrDash(stage.memory_limit_bytes()), absl::StrCat(stage.in_flight()),
                       BytesOrDash(stage.output_bytes())});
  }
  return absl::StrCat(FormatTable({{"STAGE", true}, {"BLOCKS"}, {"WORKERS"}}, places), "\n",
                      FormatTable({{"STAGE", true},
                                   {"PARAMETERS", true},
                                   {"FORWARD", true},
                                   {"BACKWARD", true},
                                   {"MEMORY", true},
                                   {"LIMIT", true},
                                   {"IN FLIGHT", true},
                                   {"OUTPUT", true}},
                                  numbers));
}

// "4 workers, 8 threads, 12.3 to 14.1 GFLOP/s per thread; 1 server; links of 1.2 GiB/s".
std::string ClusterText(const v1::PlanReport& report) {
  const v1::ClusterFacts& cluster = report.cluster();
  uint64_t threads = 0;
  double slowest = std::numeric_limits<double>::infinity();
  double fastest = 0;
  for (const v1::WorkerFacts& worker : cluster.worker()) {
    threads += worker.threads();
    slowest = std::min(slowest, worker.flops_per_second());
    fastest = std::max(fastest, worker.flops_per_second());
  }
  std::string text = absl::StrCat(Plural(static_cast<uint64_t>(cluster.worker_size()), "worker"),
                                  " with ", Plural(threads, "thread"), " in all");
  if (fastest > 0) {
    const std::string low = HumanRate(slowest / 1e9);
    const std::string high = HumanRate(fastest / 1e9);
    absl::StrAppend(&text, ", ", low, low == high ? "" : absl::StrCat(" to ", high),
                    " GFLOP/s per thread");
  }
  absl::StrAppend(&text, "; ", Plural(cluster.servers(), "server"));
  if (cluster.link_bytes_per_second() >= 1) {
    // No link carries more than what a uint64_t counts.
    const double bytes = std::min(cluster.link_bytes_per_second(), 1e18);
    absl::StrAppend(&text, "; links of ", HumanBytes(static_cast<uint64_t>(bytes)), "/s");
  }
  return absl::StrCat(text, "; block times are ", report.measured() ? "measured" : "estimated");
}

}  // namespace

std::string StrategyName(v1::Strategy strategy) {
  const std::string& name = v1::Strategy_Name(strategy);
  return name.empty() ? absl::StrCat("strategy ", static_cast<int>(strategy)) : name;
}

std::string ScheduleName(v1::Schedule schedule) {
  const std::string& name = v1::Schedule_Name(schedule);
  return name.empty() ? absl::StrCat("schedule ", static_cast<int>(schedule)) : name;
}

std::string FormatPlan(const v1::PlanReport& report) {
  std::string text = absl::StrCat(HangingText("cluster", ClusterText(report), kIndent, kColumns),
                                  "\n", Comparison(report));
  for (const v1::StrategyForecast& forecast : report.forecast()) {
    absl::StrAppend(&text, StrategyText(forecast));
  }
  const auto chosen = static_cast<int64_t>(report.chosen());
  const bool known = report.feasible() && chosen < report.forecast_size();
  const v1::StrategyForecast* forecast =
      known ? &report.forecast(static_cast<int>(chosen)) : nullptr;
  absl::StrAppend(
      &text, "\n",
      HangingText("chosen", known ? StrategyName(forecast->strategy()) : "none", kIndent, kColumns),
      Paragraphs("why", report.explanation()));
  if (known && forecast->stage_size() > 0) absl::StrAppend(&text, "\n", StagesText(*forecast));
  return text;
}

std::string FormatStages(const v1::Job& job) {
  Rows rows;
  for (int s = 0; s < job.stage_size(); ++s) {
    const v1::StageSummary& stage = job.stage(s);
    AddStageRow(
        {absl::StrCat(s), BlocksText(stage.first_block(), stage.last_block(), stage.block_count()),
         HumanCount(stage.parameter_count())},
        stage.worker(), &rows);
  }
  return FormatTable({{"STAGE", true}, {"BLOCKS"}, {"PARAMETERS", true}, {"WORKERS"}}, rows);
}

}  // namespace sangam
