#ifndef SANGAM_COMMON_RPC_BIND_RULE_H_
#define SANGAM_COMMON_RPC_BIND_RULE_H_

#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace sangam {

// Whether a process may listen on `host`: without credentials only this machine may reach it,
// unless that was allowed in so many words. Errors: FailedPrecondition  it may not; says how to
// mend it; marked by OfConfiguration
absl::Status CheckBind(absl::string_view host, bool encrypted, bool insecure_allow_remote);

// Says in the log, now and then again and again, that an address asks nobody who they are.
class OpenDoorWarning {
 public:
  struct Options {
    std::string reason = "insecure_allow_remote";
    std::string fix = "--tls_cert, --tls_key, --tls_ca";
    absl::Duration interval = absl::Minutes(1);
  };

  OpenDoorWarning(std::string address, Options options);
  ~OpenDoorWarning();
  OpenDoorWarning(const OpenDoorWarning&) = delete;
  OpenDoorWarning& operator=(const OpenDoorWarning&) = delete;

 private:
  void Run();

  const std::string address_;
  const Options options_;
  Mutex mutex_;
  CondVar stop_now_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_BIND_RULE_H_
