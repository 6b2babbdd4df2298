#include "common/rpc/bind_rule.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/rpc/host_port.h"

namespace sangam {

absl::Status CheckBind(absl::string_view host, bool encrypted, bool insecure_allow_remote) {
  if (encrypted || insecure_allow_remote || IsLoopback(host)) return absl::OkStatus();
  return OfConfiguration(absl::FailedPreconditionError(absl::StrCat(
      "\"", host,
      "\" can be reached from other machines, and without TLS whoever reaches the port "
      "may do everything. Give --tls_cert, --tls_key and --tls_ca (\"sangam certs init\" makes "
      "them), "
      "or listen on 127.0.0.1, or, on a network that nobody else can reach, say "
      "--insecure_allow_remote")));
}

OpenDoorWarning::OpenDoorWarning(std::string address, Options options)
    : address_(std::move(address)), options_(std::move(options)), thread_([this] { Run(); }) {}

OpenDoorWarning::~OpenDoorWarning() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    stop_now_.SignalAll();
  }
  thread_.join();
}

void OpenDoorWarning::Run() {
  MutexLock lock(&mutex_);
  while (!stopped_) {
    LogWarning("open to everybody", "address=%s reason=%s fix=%s", LogValue(address_),
               LogValue(options_.reason), LogValue(options_.fix));
    // Woken early for no reason: at worst a line more.
    stop_now_.WaitFor(&mutex_, options_.interval);
  }
}

}  // namespace sangam
