#include "server/core/scheduler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sangam {
namespace {

constexpr size_t kNamesShown = 8;

template <typename A, typename B>
bool StandsBefore(const A& a, const B& b) {
  return a.priority != b.priority ? a.priority > b.priority : a.id < b.id;
}

template <typename Job>
std::string NameOf(const Job& job) {
  return absl::StrCat("job ", job.id, " (", job.name, ")");
}

// The daemons that hold least come first, then by name.
std::vector<CandidateDaemon> InOrderOfChoice(std::vector<CandidateDaemon> daemons) {
  std::sort(daemons.begin(), daemons.end(), [](const CandidateDaemon& a, const CandidateDaemon& b) {
    return a.jobs_held != b.jobs_held ? a.jobs_held < b.jobs_held : a.name < b.name;
  });
  return daemons;
}

std::string Some(const std::vector<std::string>& texts) {
  if (texts.empty()) return "none";
  const size_t shown = std::min(texts.size(), kNamesShown);
  return absl::StrCat(absl::StrJoin(texts.begin(), texts.begin() + shown, ", "),
                      shown < texts.size() ? ", ..." : "");
}

std::vector<std::string> NamesOf(const std::vector<CandidateDaemon>& daemons) {
  std::vector<std::string> names;
  for (const CandidateDaemon& daemon : daemons) names.push_back(daemon.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string Counted(uint64_t count, const char* noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

// "1 of 2 workers (have: w-1)"; empty when enough are there.
std::string Missing(const char* role, uint32_t wanted,
                    const std::vector<CandidateDaemon>& present) {
  if (present.size() >= wanted) return "";
  return absl::StrCat(wanted - present.size(), " of ", Counted(wanted, role),
                      " (have: ", Some(NamesOf(present)), ")");
}

bool NeedsOneKind(const QueuedJob& job) { return job.bf16 && job.workers > 1; }

// "2 workers", "2 workers of one kind".
std::string WantedWorkers(const QueuedJob& job) {
  return absl::StrCat(Counted(job.workers, "worker"), NeedsOneKind(job) ? " of one kind" : "");
}

// The workers that can share the job: all, or those of each kind, the faster one first.
std::vector<std::vector<CandidateDaemon>> Groups(const QueuedJob& job,
                                                 const std::vector<CandidateDaemon>& workers) {
  if (!NeedsOneKind(job)) return {workers};
  std::vector<std::vector<CandidateDaemon>> groups(2);
  for (const CandidateDaemon& worker : workers)
    groups[worker.native_bf16 ? 0 : 1].push_back(worker);
  return groups;
}

// Of the group that has most.
size_t LargestGroup(const QueuedJob& job, const std::vector<CandidateDaemon>& workers) {
  size_t largest = 0;
  for (const auto& group : Groups(job, workers)) largest = std::max(largest, group.size());
  return largest;
}

// Why workers that are enough in number are not; empty when they are.
std::string Mixture(const QueuedJob& job, const std::vector<CandidateDaemon>& workers) {
  if (LargestGroup(job, workers) >= job.workers) return "";
  const auto groups = Groups(job, workers);
  return absl::StrCat(NamesOf(groups[0]).front(), " multiplies BF16 by itself, ",
                      NamesOf(groups[1]).front(), " does not, and their sums differ");
}

bool Fits(const CandidateDaemon& server, uint64_t used, uint64_t bytes) {
  return server.memory_bytes == 0 ||
         (used <= server.memory_bytes && bytes <= server.memory_bytes - used);
}

class Line {
 public:
  explicit Line(const ClusterSnapshot& snapshot)
      : snapshot_(snapshot), servers_(InOrderOfChoice(snapshot.servers)) {
    for (const RunningJob& job : snapshot.running) {
      for (const std::string& worker : job.workers) busy_.insert(worker);
      for (const auto& [server, bytes] : job.server_bytes) used_[server] += bytes;
    }
    for (CandidateDaemon& worker : InOrderOfChoice(snapshot.workers)) {
      if (busy_.count(worker.name) == 0) free_workers_.push_back(std::move(worker));
    }
  }

  // Why the job cannot start now; empty when it can. To be called in line.
  std::string Obstacle(const QueuedJob& job) {
    std::vector<std::string> missing;
    for (std::string text : {Missing("worker", job.workers, snapshot_.workers),
                             Missing("server", job.servers, snapshot_.servers)}) {
      if (!text.empty()) missing.push_back(std::move(text));
    }
    if (!missing.empty()) return absl::StrCat("waiting for ", absl::StrJoin(missing, " and "));
    if (const std::string mixture = Mixture(job, snapshot_.workers); !mixture.empty()) {
      return absl::StrCat("waiting for ", job.workers - LargestGroup(job, snapshot_.workers),
                          " of ", WantedWorkers(job), ": ", mixture);
    }
    std::string obstacle = Occupied(job);
    for (const QueuedJob* ahead : ahead_) {
      if (!obstacle.empty()) break;
      if (!LeavesRoom(job, *ahead)) obstacle = absl::StrCat("waiting behind ", NameOf(*ahead));
    }
    if (!obstacle.empty()) ahead_.push_back(&job);
    return obstacle;
  }

  // REQUIRES: Obstacle was empty.
  StartJob Start(const QueuedJob& job) const { return {job.id, WorkersFor(job), ServersFor(job)}; }

 private:
  uint64_t Used(const std::string& server) const {
    const auto found = used_.find(server);
    return found == used_.end() ? 0 : found->second;
  }

  // Free ones that can share the job, as many as it asks for or none.
  std::vector<std::string> WorkersFor(const QueuedJob& job) const {
    std::vector<std::string> chosen;
    for (const std::vector<CandidateDaemon>& group : Groups(job, free_workers_)) {
      if (group.size() < job.workers) continue;
      for (uint32_t w = 0; w < job.workers; ++w) chosen.push_back(group[w].name);
      break;
    }
    return chosen;
  }

  // Those that have the memory now, as many as it asks for or all when they are fewer.
  std::vector<std::string> ServersFor(const QueuedJob& job) const {
    std::vector<std::string> chosen;
    for (const CandidateDaemon& server : servers_) {
      if (chosen.size() == job.servers) break;
      if (Fits(server, Used(server.name), job.server_bytes)) chosen.push_back(server.name);
    }
    return chosen;
  }

  // What running jobs have of that which the job needs.
  std::string Occupied(const QueuedJob& job) const {
    if (const size_t most = LargestGroup(job, free_workers_); most < job.workers) {
      std::vector<std::string> jobs;
      for (const RunningJob& running : snapshot_.running) jobs.push_back(NameOf(running));
      return absl::StrCat("waiting for ", job.workers - most, " of ", WantedWorkers(job),
                          ", busy with ", Some(jobs));
    }
    const size_t found = ServersFor(job).size();
    if (found >= job.servers) return "";
    std::vector<std::string> full;
    for (const CandidateDaemon& server : servers_) {
      const uint64_t used = Used(server.name);
      if (Fits(server, used, job.server_bytes)) continue;
      full.push_back(absl::StrCat(server.name, " has ",
                                  server.memory_bytes - std::min(used, server.memory_bytes), " of ",
                                  server.memory_bytes, " left"));
    }
    return absl::StrCat("waiting for memory of ", job.servers - found, " of ",
                        Counted(job.servers, "server"), ": needs ", job.server_bytes,
                        " bytes on each; ", Some(full), ", the rest is of running jobs");
  }

  // Whether `ahead` would find its daemons when all jobs in front of it have ended and `job` and
  // those that run behind it have not.
  bool LeavesRoom(const QueuedJob& job, const QueuedJob& ahead) const {
    const std::vector<std::string> chosen = WorkersFor(job);
    std::set<std::string> workers(chosen.begin(), chosen.end());
    std::map<std::string, uint64_t> bytes;
    for (const std::string& server : ServersFor(job)) bytes[server] = job.server_bytes;
    for (const RunningJob& running : snapshot_.running) {
      if (StandsBefore(running, ahead)) continue;
      workers.insert(running.workers.begin(), running.workers.end());
      for (const auto& [server, taken] : running.server_bytes) bytes[server] += taken;
    }
    std::vector<CandidateDaemon> left;
    for (const CandidateDaemon& worker : snapshot_.workers) {
      if (workers.count(worker.name) == 0) left.push_back(worker);
    }
    if (LargestGroup(ahead, left) < ahead.workers) return false;
    uint64_t servers = 0;
    for (const CandidateDaemon& server : servers_) {
      const auto taken = bytes.find(server.name);
      servers += Fits(server, taken == bytes.end() ? 0 : taken->second, ahead.server_bytes) ? 1 : 0;
    }
    return servers >= ahead.servers;
  }

  const ClusterSnapshot& snapshot_;
  const std::vector<CandidateDaemon> servers_;  // in order of choice
  std::set<std::string> busy_;
  std::map<std::string, uint64_t> used_;       // bytes of running jobs, by server
  std::vector<CandidateDaemon> free_workers_;  // in order of choice
  // Jobs in front that wait for other jobs alone.
  std::vector<const QueuedJob*> ahead_;
};

}  // namespace

Decision Decide(const ClusterSnapshot& snapshot) {
  std::vector<const QueuedJob*> jobs;
  for (const QueuedJob& job : snapshot.queued) jobs.push_back(&job);
  std::sort(jobs.begin(), jobs.end(),
            [](const QueuedJob* a, const QueuedJob* b) { return StandsBefore(*a, *b); });
  Line line(snapshot);
  Decision decision;
  for (const QueuedJob* job : jobs) {
    if (std::string lacking = LackingMemory(*job, snapshot.servers); !lacking.empty()) {
      decision.impossible = WaitingJob{job->id, std::move(lacking)};
      decision.waiting.clear();
      return decision;
    }
    std::string obstacle = line.Obstacle(*job);
    if (obstacle.empty()) {
      decision.start = line.Start(*job);
      decision.waiting.clear();
      return decision;
    }
    decision.waiting.push_back({job->id, std::move(obstacle)});
  }
  return decision;
}

std::vector<std::string> LackingDaemons(const QueuedJob& job,
                                        const std::vector<CandidateDaemon>& workers,
                                        const std::vector<CandidateDaemon>& servers) {
  std::vector<std::string> lacking;
  const auto check = [&lacking](const char* role, uint32_t wanted,
                                const std::vector<CandidateDaemon>& present) {
    if (present.size() >= wanted) return;
    lacking.push_back(
        absl::StrCat("needs ", Counted(wanted, role), ", cluster has ", present.size(),
                     present.empty() ? "" : absl::StrCat(" (", Some(NamesOf(present)), ")")));
  };
  check("worker", job.workers, workers);
  if (lacking.empty()) {
    if (const std::string mixture = Mixture(job, workers); !mixture.empty()) {
      lacking.push_back(absl::StrCat("needs ", WantedWorkers(job), ", cluster has ",
                                     LargestGroup(job, workers), ": ", mixture));
    }
  }
  check("server", job.servers, servers);
  return lacking;
}

std::string LackingMemory(const QueuedJob& job, const std::vector<CandidateDaemon>& servers) {
  const CandidateDaemon* small = nullptr;
  size_t fit = 0;
  for (const CandidateDaemon& server : servers) {
    if (Fits(server, 0, job.server_bytes)) {
      ++fit;
    } else if (small == nullptr) {
      small = &server;
    }
  }
  if (fit >= job.servers || small == nullptr || servers.size() < job.servers) return "";
  return absl::StrCat("server ", small->name, " would hold ", job.server_bytes,
                      " bytes of weights and optimizer state, its limit is ", small->memory_bytes,
                      "; ask for more servers (resources.servers) or raise --memory_limit");
}

}  // namespace sangam
