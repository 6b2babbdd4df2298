#include "server/core/scheduler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

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

std::string Counted(uint64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

// What workers of a job have in common. Sorts in the order in which jobs prefer them.
struct Kind {
  bool native = false;
  std::string backend;
  std::string device;

  bool operator<(const Kind& other) const {
    const auto rank = [](const Kind& kind) {
      return std::make_tuple(!kind.native, kind.backend == "cpu", std::cref(kind.backend),
                             std::cref(kind.device));
    };
    return rank(*this) < rank(other);
  }
};

Kind KindOf(const CandidateDaemon& worker, v1::Precision precision) {
  const auto& native = worker.native;
  return {
      precision != v1::FP32 && std::find(native.begin(), native.end(), precision) != native.end(),
      worker.backend, worker.device};
}

// "cuda (NVIDIA H200)", "cpu (AVX512, native BF16)".
std::string NameOf(const Kind& kind, v1::Precision precision) {
  std::vector<std::string> facts;
  if (!kind.device.empty()) facts.push_back(kind.device);
  if (kind.native) facts.push_back(absl::StrCat("native ", v1::Precision_Name(precision)));
  return absl::StrCat(kind.backend,
                      facts.empty() ? "" : absl::StrCat(" (", absl::StrJoin(facts, ", "), ")"));
}

using Kinds = std::map<Kind, std::vector<CandidateDaemon>>;

// In the order of `workers` within each.
Kinds KindsOf(const std::vector<CandidateDaemon>& workers, v1::Precision precision) {
  Kinds kinds;
  for (const CandidateDaemon& worker : workers) kinds[KindOf(worker, precision)].push_back(worker);
  return kinds;
}

bool Suits(const QueuedJob& job, const CandidateDaemon& worker) {
  if (!job.kind.empty()) return IsSameKind(WorkerKind(worker, job.precision), job.kind);
  return job.backend.empty() || worker.backend == job.backend;
}

// The workers that can share the job, by kind.
Kinds GroupsFor(const QueuedJob& job, const std::vector<CandidateDaemon>& workers) {
  std::vector<CandidateDaemon> suitable;
  for (const CandidateDaemon& worker : workers) {
    if (Suits(job, worker)) suitable.push_back(worker);
  }
  return KindsOf(suitable, job.precision);
}

// Of the kind that has most.
size_t LargestGroup(const QueuedJob& job, const std::vector<CandidateDaemon>& workers) {
  size_t largest = 0;
  for (const auto& [kind, group] : GroupsFor(job, workers)) {
    largest = std::max(largest, group.size());
  }
  return largest;
}

// "2 workers", "1 cuda worker", "2 workers of one kind"; of a job that starts again, where there
// are workers of other kinds, "2 workers of kind cpu".
std::string Wanted(const QueuedJob& job, const std::vector<CandidateDaemon>& workers) {
  const bool others = std::any_of(workers.begin(), workers.end(),
                                  [&job](const auto& worker) { return !Suits(job, worker); });
  if (!job.kind.empty() && others) {
    return absl::StrCat(Counted(job.workers, "worker"), " of kind ", job.kind);
  }
  const std::string noun = job.backend.empty() ? "worker" : absl::StrCat(job.backend, " worker");
  const bool choice = job.workers > 1 && GroupsFor(job, workers).size() > 1;
  return absl::StrCat(Counted(job.workers, noun), choice ? " of one kind" : "");
}

// Whether it is for their kinds that workers which are there cannot share the job.
bool KindsMatter(const QueuedJob& job, const std::vector<CandidateDaemon>& workers) {
  return LargestGroup(job, workers) < workers.size();
}

// "1 x cuda (NVIDIA H200), 1 x cpu".
std::string CountedKinds(const QueuedJob& job, const std::vector<CandidateDaemon>& workers) {
  std::vector<std::string> texts;
  for (const auto& [kind, group] : KindsOf(workers, job.precision)) {
    texts.push_back(absl::StrCat(group.size(), " x ", NameOf(kind, job.precision)));
  }
  return Some(texts);
}

// "1 of 2 workers (have: w-1)"; empty when enough are there.
std::string MissingWorkers(const QueuedJob& job, const std::vector<CandidateDaemon>& workers) {
  const size_t most = LargestGroup(job, workers);
  if (most >= job.workers) return "";
  return absl::StrCat(
      job.workers - most, " of ", Wanted(job, workers),
      " (have: ", KindsMatter(job, workers) ? CountedKinds(job, workers) : Some(NamesOf(workers)),
      ")");
}

std::string MissingServers(const QueuedJob& job, const std::vector<CandidateDaemon>& servers) {
  if (servers.size() >= job.servers) return "";
  return absl::StrCat(job.servers - servers.size(), " of ", Counted(job.servers, "server"),
                      " (have: ", Some(NamesOf(servers)), ")");
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
    for (std::string text :
         {MissingWorkers(job, snapshot_.workers), MissingServers(job, snapshot_.servers)}) {
      if (!text.empty()) missing.push_back(std::move(text));
    }
    if (!missing.empty()) return absl::StrCat("waiting for ", absl::StrJoin(missing, " and "));
    if (std::string limit = OverLimit(job); !limit.empty()) return limit;
    std::string obstacle = Occupied(job);
    if (!job.held_back.empty()) obstacle = absl::StrCat("waiting ", job.held_back);
    if (obstacle.empty()) obstacle = Choose(job);
    if (!obstacle.empty()) ahead_.push_back(&job);
    return obstacle;
  }

  // REQUIRES: Obstacle was empty, and was not called again.
  StartJob Start(const QueuedJob& job) const { return {job.id, chosen_, ServersFor(job)}; }

 private:
  uint64_t Used(const std::string& server) const {
    const auto found = used_.find(server);
    return found == used_.end() ? 0 : found->second;
  }

  // Which jobs of the owner must end before he may have another one; empty when none must.
  std::string OverLimit(const QueuedJob& job) const {
    const uint64_t limit = snapshot_.max_running_of_one;
    if (limit == 0 || job.owner.empty()) return "";
    std::vector<std::string> own;
    for (const RunningJob& running : snapshot_.running) {
      if (running.owner == job.owner) own.push_back(NameOf(running));
    }
    if (own.size() < limit) return "";
    return absl::StrCat("waiting for the end of a job of \"", job.owner, "\": ", own.size(),
                        " of them run (", Some(own), "), the limit is ", limit);
  }

  // Free workers of the first kind that has enough of them without taking what a job in front waits
  // for; when there is none, which job that is.
  // REQUIRES: Occupied was empty.
  std::string Choose(const QueuedJob& job) {
    std::string obstacle;
    for (const auto& [kind, group] : GroupsFor(job, free_workers_)) {
      if (group.size() < job.workers) continue;
      chosen_.clear();
      for (uint32_t w = 0; w < job.workers; ++w) chosen_.push_back(group[w].name);
      const QueuedJob* ahead = FirstWithoutRoom(job);
      if (ahead == nullptr) return "";
      if (obstacle.empty()) obstacle = absl::StrCat("waiting behind ", NameOf(*ahead));
    }
    return obstacle;
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
    if (const size_t most = MostFree(job); most < job.workers) {
      std::vector<std::string> jobs;
      for (const RunningJob& running : snapshot_.running) {
        if (!running.workers.empty()) jobs.push_back(NameOf(running));
      }
      return absl::StrCat("waiting for ", job.workers - most, " of ",
                          Wanted(job, snapshot_.workers), ", busy with ", Some(jobs));
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

  // Free workers, of the kind that has most of them among those with enough in all.
  size_t MostFree(const QueuedJob& job) const {
    Kinds free = GroupsFor(job, free_workers_);
    size_t most = 0;
    for (const auto& [kind, group] : GroupsFor(job, snapshot_.workers)) {
      if (group.size() >= job.workers) most = std::max(most, free[kind].size());
    }
    return most;
  }

  // The first job in front that the job on `chosen_` would keep waiting.
  const QueuedJob* FirstWithoutRoom(const QueuedJob& job) const {
    const auto found = std::find_if(ahead_.begin(), ahead_.end(), [&](const QueuedJob* ahead) {
      return !LeavesRoom(job, *ahead);
    });
    return found == ahead_.end() ? nullptr : *found;
  }

  // Whether `ahead` would find its daemons when all jobs in front of it have ended and `job` on
  // `chosen_` and those that run behind it have not.
  bool LeavesRoom(const QueuedJob& job, const QueuedJob& ahead) const {
    std::set<std::string> workers(chosen_.begin(), chosen_.end());
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
  std::vector<std::string> chosen_;            // of the last job that has no obstacle
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
  const auto text = [](const std::string& wanted, const std::string& present) {
    return absl::StrCat("needs ", wanted, ", cluster has ", present);
  };
  const auto counted = [](const std::vector<CandidateDaemon>& present) {
    return absl::StrCat(present.size(),
                        present.empty() ? "" : absl::StrCat(" (", Some(NamesOf(present)), ")"));
  };
  if (LargestGroup(job, workers) < job.workers) {
    lacking.push_back(text(Wanted(job, workers), KindsMatter(job, workers)
                                                     ? CountedKinds(job, workers)
                                                     : counted(workers)));
  }
  if (servers.size() < job.servers) {
    lacking.push_back(text(Counted(job.servers, "server"), counted(servers)));
  }
  return lacking;
}

std::string WorkerKind(const CandidateDaemon& worker, v1::Precision precision) {
  return NameOf(KindOf(worker, precision), precision);
}

bool IsSameKind(absl::string_view found, absl::string_view wanted) {
  if (found == wanted) return true;
  constexpr absl::string_view kCpu = "cpu";
  constexpr absl::string_view kNative = "native ";
  const auto is_cpu = [](absl::string_view kind) {
    return kind == kCpu || absl::StartsWith(kind, "cpu (");
  };
  const bool unknown = wanted == kCpu || absl::StartsWith(wanted, absl::StrCat("cpu (", kNative));
  return unknown && is_cpu(found) &&
         absl::StrContains(found, kNative) == absl::StrContains(wanted, kNative);
}

std::vector<std::string> LikelyWorkers(const QueuedJob& job,
                                       const std::vector<CandidateDaemon>& workers) {
  const size_t wanted = std::min<size_t>(job.workers, LargestGroup(job, workers));
  std::vector<std::string> likely;
  for (const auto& [kind, group] : GroupsFor(job, workers)) {
    if (group.size() < wanted || !likely.empty()) continue;
    for (size_t w = 0; w < wanted; ++w) likely.push_back(group[w].name);
  }
  return likely;
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
