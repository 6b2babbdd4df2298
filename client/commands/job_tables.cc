#include "client/commands/job_tables.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/commands/plan_tables.h"
#include "client/human_format.h"
#include "client/table.h"
#include "common/flags/wrap.h"

namespace sangam {
namespace {

using Facts = std::vector<std::pair<std::string, std::string>>;

// The name of the member that is set, "adamw"; "" when none is.
template <typename Message>
std::string SetMember(const Message& message, absl::string_view oneof) {
  const auto* descriptor = Message::descriptor()->FindOneofByName(std::string(oneof));
  const auto* field = message.GetReflection()->GetOneofFieldDescriptor(message, descriptor);
  return field == nullptr ? "" : field->name();
}

std::string StepsText(const v1::Progress& progress) {
  if (progress.steps_total() == 0) return absl::StrCat(progress.steps_done());
  return absl::StrCat(progress.steps_done(), "/", progress.steps_total());
}

std::string AccuracyText(const v1::Job& job) {
  if (job.evaluation_size() == 0 || !HasAccuracy(job.spec())) return "-";
  return absl::StrFormat("%.4f", job.evaluation(job.evaluation_size() - 1).accuracy());
}

std::string Since(const v1::Job& job, absl::Time now) {
  if (job.history_size() == 0) return "-";
  return HumanDuration(now - ToTime(job.history(job.history_size() - 1).time()));
}

std::string ModelText(const v1::Job& job) {
  int layers = 0;
  for (const v1::BlockSpec& block : job.spec().model().block()) layers += block.layer_size();
  return absl::StrCat(layers, " layers in ", job.spec().model().block_size(), " blocks, ",
                      HumanCount(job.layout().parameter_count()), " parameters (",
                      HumanBytes(job.layout().parameter_count() * 4), ")");
}

std::string BatchText(const v1::BatchSpec& batch) {
  std::string text = absl::StrCat(batch.size(), " samples");
  if (batch.has_micro_batches()) {
    absl::StrAppend(&text, " in ", batch.micro_batches(), " micro-batches");
  }
  if (batch.has_shares()) absl::StrAppend(&text, ", ", batch.shares(), " shares");
  return text;
}

void AddProgress(const v1::Job& job, Facts* facts) {
  const v1::Progress& progress = job.progress();
  if (progress.steps_total() == 0) return;
  std::string text = absl::StrCat(Percent(progress.steps_done(), progress.steps_total()),
                                  "%, step ", StepsText(progress));
  if (progress.steps_per_epoch() != 0) {
    absl::StrAppend(&text, ", ", progress.steps_per_epoch(), " per epoch");
  }
  facts->emplace_back("progress", text);
  if (progress.steps_done() == 0) return;
  facts->emplace_back("loss", absl::StrCat(HumanLoss(progress.loss()), LossUnit(job.spec())));
  facts->emplace_back("speed",
                      absl::StrCat(HumanRate(progress.samples_per_second()), " samples/s, ",
                                   HumanCount(progress.samples()), " samples so far"));
}

void AddSpec(const v1::Job& job, Facts* facts) {
  const v1::JobSpec& spec = job.spec();
  facts->emplace_back("model", ModelText(job));
  facts->emplace_back("optimizer",
                      absl::StrCat(SetMember(spec.optimizer(), "kind"), ", learning rate ",
                                   spec.optimizer().learning_rate()));
  facts->emplace_back("batch", BatchText(spec.batch()));
  if (spec.has_epochs()) facts->emplace_back("duration", absl::StrCat(spec.epochs(), " epochs"));
  if (spec.has_steps()) facts->emplace_back("duration", absl::StrCat(spec.steps(), " steps"));
  facts->emplace_back("seed", absl::StrCat(spec.seed()));
  if (spec.priority() != 0) facts->emplace_back("priority", absl::StrCat(spec.priority()));
}

// How the model is spread; while that is not known, how it is to be.
void AddStrategy(const v1::Job& job, Facts* facts) {
  if (job.strategy() == v1::STRATEGY_UNSPECIFIED) {
    if (job.spec().strategy() != v1::STRATEGY_UNSPECIFIED) {
      facts->emplace_back("strategy", StrategyName(job.spec().strategy()));
    }
    return;
  }
  std::string text = StrategyName(job.strategy());
  const bool pipeline = job.strategy() != v1::DATA_PARALLEL;
  if (pipeline) absl::StrAppend(&text, ", schedule ", ScheduleName(job.schedule()));
  facts->emplace_back("strategy", text);
  if (!job.plan_reason().empty()) facts->emplace_back("why", OneLine(job.plan_reason()));
  if (pipeline && job.has_utilization()) {
    facts->emplace_back(
        "bubble",
        absl::StrFormat("%.1f%% of step %d, which took %s", 100 * job.utilization().bubble(),
                        job.utilization().step(), HumanSeconds(job.utilization().span_seconds())));
  }
}

std::string Indented(absl::string_view title, const std::string& table) {
  std::string text = absl::StrCat("\n", title, "\n");
  size_t begin = 0;
  for (size_t end = table.find('\n'); end != std::string::npos; end = table.find('\n', begin)) {
    absl::StrAppend(&text, "  ", table.substr(begin, end - begin), "\n");
    begin = end + 1;
  }
  return text;
}

std::string HistoryTable(const v1::Job& job, absl::TimeZone zone) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::StateChange& change : job.history()) {
    rows.push_back({absl::FormatTime("%Y-%m-%d %H:%M:%S", ToTime(change.time()), zone),
                    StateName(change.state()), OneLine(change.reason())});
  }
  return FormatTable({{"TIME"}, {"STATE"}, {"REASON"}}, rows);
}

std::string EvaluationTable(const v1::Job& job) {
  std::vector<std::vector<std::string>> rows;
  // What is right or wrong is a token, where samples are sequences.
  const uint64_t terms = std::max<uint64_t>(1, job.layout().terms_per_sample());
  for (const v1::Evaluation& evaluation : job.evaluation()) {
    const bool counts = HasAccuracy(job.spec());
    rows.push_back(
        {absl::StrCat(evaluation.step()),
         counts ? absl::StrFormat("%.4f", evaluation.accuracy()) : "-",
         HumanLoss(evaluation.loss()),
         counts ? absl::StrCat(evaluation.correct(), "/", evaluation.samples() * terms) : "-"});
  }
  return FormatTable({{"STEP", true}, {"ACCURACY", true}, {"LOSS", true}, {"CORRECT", true}}, rows);
}

}  // namespace

std::string JobTitle(const v1::Job& job) {
  return job.spec().name().empty() ? absl::StrCat(job.id()) : OneLine(job.spec().name());
}

std::string FormatJobList(const v1::ListJobsResponse& jobs, absl::Time now) {
  if (jobs.job_size() == 0) return "No jobs. Submit one: sangam submit FILE\n";
  std::vector<std::vector<std::string>> rows;
  for (const v1::Job& job : jobs.job()) {
    const v1::Progress& progress = job.progress();
    const bool stepped = progress.steps_done() > 0;
    const std::string age =
        job.history_size() == 0 ? "-" : HumanDuration(now - ToTime(job.history(0).time()));
    rows.push_back({absl::StrCat(job.id()), OneLine(job.spec().name()), StateName(job.state()),
                    progress.steps_total() == 0
                        ? "-"
                        : absl::StrCat(Percent(progress.steps_done(), progress.steps_total()), "%"),
                    StepsText(progress), stepped ? HumanLoss(progress.loss()) : "-",
                    AccuracyText(job), stepped ? HumanRate(progress.samples_per_second()) : "-",
                    age});
  }
  std::string text = FormatTable({{"JOB", true},
                                  {"NAME"},
                                  {"STATE"},
                                  {"DONE", true},
                                  {"STEPS", true},
                                  {"LOSS", true},
                                  {"ACCURACY", true},
                                  {"SAMPLES/S", true},
                                  {"AGE", true}},
                                 rows);
  if (jobs.more()) absl::StrAppend(&text, "Older jobs: --limit=0 shows all.\n");
  return text;
}

std::string FormatJob(const v1::Job& job, absl::Time now, absl::TimeZone zone) {
  Facts facts;
  facts.emplace_back("job", absl::StrCat(job.id()));
  facts.emplace_back("name", OneLine(job.spec().name()));
  facts.emplace_back("state", absl::StrCat(StateName(job.state()), ", for ", Since(job, now)));
  if (!job.reason().empty()) facts.emplace_back("reason", OneLine(job.reason()));
  AddProgress(job, &facts);
  AddSpec(job, &facts);
  AddStrategy(job, &facts);
  if (job.worker_size() > 0) facts.emplace_back("workers", absl::StrJoin(job.worker(), ", "));
  std::vector<std::string> servers;
  for (int i = 0; i < job.server_size(); ++i) {
    const bool address = i < job.server_address_size();
    servers.push_back(address ? absl::StrCat(job.server(i), " (", job.server_address(i), ")")
                              : job.server(i));
  }
  if (!servers.empty()) facts.emplace_back("servers", absl::StrJoin(servers, ", "));
  if (job.generation() != 0) facts.emplace_back("generation", absl::StrCat(job.generation()));
  // While it trains they are there, but not to be exported.
  if (job.weights_available() || HasEnded(job.state())) {
    facts.emplace_back("weights", job.weights_available() ? "held by the servers" : "not held");
  }
  if (job.server_memory_bytes() != 0) {
    facts.emplace_back("memory",
                       absl::StrCat(HumanBytes(job.server_memory_bytes()), " on the servers"));
  }

  std::string text;
  for (const auto& [key, value] : facts) {
    // Reasons are sentences; other facts are for programs that read lines, too.
    absl::StrAppend(&text, key == "why" ? HangingText(key, value, 12, 100)
                                        : absl::StrFormat("%-11s %s\n", key, value));
  }
  if (job.stage_size() > 0) absl::StrAppend(&text, Indented("stages", FormatStages(job)));
  absl::StrAppend(&text, Indented("history", HistoryTable(job, zone)));
  if (job.evaluation_size() > 0) {
    absl::StrAppend(&text, Indented("evaluations", EvaluationTable(job)));
  }
  return text;
}

namespace {

// What workers compute on; empty when it is CPUs alone.
std::string FormatDevices(const v1::Cluster& cluster) {
  const auto text = [](const std::string& fact) { return fact.empty() ? "-" : OneLine(fact); };
  std::vector<std::vector<std::string>> rows;
  for (const v1::DaemonStatus& daemon : cluster.daemon()) {
    const v1::DeviceFacts& device = daemon.device();
    if (device.name().empty()) continue;
    rows.push_back({OneLine(daemon.name()), OneLine(device.name()),
                    device.memory_bytes() == 0 ? "-" : HumanBytes(device.memory_bytes()),
                    text(device.compute_capability()), text(device.driver()),
                    text(device.runtime())});
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      "\n",
      FormatTable({{"WORKER"}, {"DEVICE"}, {"MEMORY", true}, {"COMPUTE"}, {"DRIVER"}, {"RUNTIME"}},
                  rows));
}

}  // namespace

std::string FormatCluster(const v1::Cluster& cluster) {
  if (cluster.daemon_size() == 0) {
    return "No daemons. Start some: sangam-worker --coordinator=HOST:PORT --data_root=DIR\n";
  }
  std::vector<std::vector<std::string>> rows;
  std::string faults;
  for (const v1::DaemonStatus& daemon : cluster.daemon()) {
    const bool broken = daemon.alive() && !daemon.fault().empty();
    if (broken) {
      absl::StrAppend(&faults, daemon.role(), " ", OneLine(daemon.name()),
                      " gets no jobs until it is started again: ", OneLine(daemon.fault()), "\n");
    }
    rows.push_back(
        {daemon.role(), OneLine(daemon.name()),
         broken                      ? "broken"
         : !daemon.alive()           ? "lost"
         : daemon.draining().empty() ? "alive"
                                     : "DRAINING",
         HumanDuration(absl::Milliseconds(daemon.silent_ms())),
         daemon.address().empty() ? "-" : daemon.address(), absl::StrCat(daemon.threads()),
         daemon.flops_per_second() > 0 ? HumanRate(daemon.flops_per_second() / 1e9) : "-",
         daemon.memory_bytes() == 0 ? "-" : HumanBytes(daemon.memory_bytes()),
         daemon.backend().empty() ? "-" : daemon.backend(),
         daemon.job_size() == 0 ? "-" : absl::StrJoin(daemon.job(), ",")});
  }
  const std::string daemons = FormatTable({{"ROLE"},
                                           {"NAME"},
                                           {"STATE"},
                                           {"SILENT", true},
                                           {"ADDRESS"},
                                           {"THREADS", true},
                                           {"GFLOP/S", true},
                                           {"MEMORY", true},
                                           {"BACKEND"},
                                           {"JOBS"}},
                                          rows);
  return absl::StrCat(daemons, FormatDevices(cluster), faults);
}

}  // namespace sangam
