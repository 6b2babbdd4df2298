#include "server/core/scheduler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sangam {
namespace {

constexpr size_t kNamesShown = 8;

// The daemons that hold least come first, then by name.
std::vector<std::string> InOrderOfChoice(std::vector<CandidateDaemon> daemons) {
  std::sort(daemons.begin(), daemons.end(), [](const CandidateDaemon& a, const CandidateDaemon& b) {
    return a.jobs_held != b.jobs_held ? a.jobs_held < b.jobs_held : a.name < b.name;
  });
  std::vector<std::string> names;
  names.reserve(daemons.size());
  for (CandidateDaemon& daemon : daemons) names.push_back(std::move(daemon.name));
  return names;
}

// "1 of 2 workers (have: w-1)"; empty when enough are there.
std::string Missing(const char* role, uint32_t wanted, const std::vector<std::string>& present) {
  if (present.size() >= wanted) return "";
  std::string have = "none";
  if (!present.empty()) {
    const size_t shown = std::min(present.size(), kNamesShown);
    have = absl::StrJoin(present.begin(), present.begin() + shown, ", ");
    if (shown < present.size()) absl::StrAppend(&have, ", ...");
  }
  return absl::StrCat(wanted - present.size(), " of ", wanted, " ", role, wanted == 1 ? "" : "s",
                      " (have: ", have, ")");
}

// Why the oldest job cannot start; empty when it can.
std::string Obstacle(const ClusterSnapshot& snapshot, const QueuedJob& job,
                     const std::vector<std::string>& workers,
                     const std::vector<std::string>& servers) {
  if (snapshot.running.has_value()) {
    return absl::StrCat("waiting for ", *snapshot.running, " to end");
  }
  std::vector<std::string> missing;
  for (std::string text :
       {Missing("worker", job.workers, workers), Missing("server", job.servers, servers)}) {
    if (!text.empty()) missing.push_back(std::move(text));
  }
  return missing.empty() ? "" : absl::StrCat("waiting for ", absl::StrJoin(missing, " and "));
}

}  // namespace

Decision Decide(const ClusterSnapshot& snapshot) {
  Decision decision;
  if (snapshot.queued.empty()) return decision;
  const QueuedJob& oldest = snapshot.queued.front();
  std::vector<std::string> workers = InOrderOfChoice(snapshot.workers);
  std::vector<std::string> servers = InOrderOfChoice(snapshot.servers);
  std::string obstacle = Obstacle(snapshot, oldest, workers, servers);
  if (obstacle.empty()) {
    workers.resize(oldest.workers);
    servers.resize(oldest.servers);
    decision.start = StartJob{oldest.id, std::move(workers), std::move(servers)};
    return decision;
  }
  decision.waiting.push_back({oldest.id, std::move(obstacle)});
  for (size_t i = 1; i < snapshot.queued.size(); ++i) {
    decision.waiting.push_back(
        {snapshot.queued[i].id,
         absl::StrCat("waiting behind job ", oldest.id, " (", oldest.name, ")")});
  }
  return decision;
}

}  // namespace sangam
