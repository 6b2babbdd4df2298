#ifndef SANGAM_COMMON_ADMIN_DAEMON_ADMIN_H_
#define SANGAM_COMMON_ADMIN_DAEMON_ADMIN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/admin/admin_flags.h"
#include "common/admin/admin_server.h"
#include "common/base/mutex.h"
#include "common/base/readiness.h"
#include "common/base/watchdog.h"
#include "common/metrics/metric_page.h"
#include "common/rpc/bind_rule.h"
#include "nlohmann/json.hpp"

namespace sangam {

// What a daemon adds to the pages that all daemons have. Called on any thread.
class AdminSource {
 public:
  virtual ~AdminSource() = default;
  virtual void AddMetrics(MetricPage* page) const = 0;
  // Members of the object.
  virtual void AddStatus(nlohmann::json* status) const = 0;
};

// How people and machines look at a daemon: its admin server, with what the daemon keeps for it.
// Made first in a daemon's main and gone last, so that probes have an answer also while it starts
// and ends. Thread-safe.
class DaemonAdmin {
 public:
  struct Facts {
    std::string role;  // "coordinator", "server", "worker"
    std::string name;
    uint64_t incarnation = 0;
    std::vector<std::pair<std::string, std::string>> flags;  // in effect; no secrets
  };

  explicit DaemonAdmin(Facts facts);
  // Without a source; the admin server ends.
  ~DaemonAdmin();
  DaemonAdmin(const DaemonAdmin&) = delete;
  DaemonAdmin& operator=(const DaemonAdmin&) = delete;

  // Starts the admin server where the flags say, if they do. It knows neither TLS nor credentials,
  // whatever the process has: beyond this machine the log says so again and again.
  // Errors: FailedPrecondition  as CheckBind, or it cannot listen there
  //         InvalidArgument     malformed address
  absl::Status Serve(const AdminFlags& flags);

  // Where it listens, "host:port"; empty: nowhere.
  std::string address() const;

  // nullptr: none any more; when this returns the one before is called no more.
  void SetSource(const AdminSource* source);

  // Not ready until main says so.
  Readiness* readiness() { return &readiness_; }
  Watchdog* watchdog() { return &watchdog_; }

  std::string MetricsText() const;
  std::string StatusText() const;

 private:
  const Facts facts_;
  const absl::Time started_;
  Readiness readiness_;
  Watchdog watchdog_;
  mutable Mutex mutex_;
  const AdminSource* source_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::unique_ptr<OpenDoorWarning> warning_;  // when other machines can reach it
  std::unique_ptr<AdminServer> server_;       // last: its threads use the above
};

// The source as long as this lives.
class ShowSource {
 public:
  ShowSource(DaemonAdmin* admin, const AdminSource* source) : admin_(*admin) {
    admin_.SetSource(source);
  }
  ~ShowSource() { admin_.SetSource(nullptr); }
  ShowSource(const ShowSource&) = delete;
  ShowSource& operator=(const ShowSource&) = delete;

 private:
  DaemonAdmin& admin_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_ADMIN_DAEMON_ADMIN_H_
