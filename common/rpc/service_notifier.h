#ifndef SANGAM_COMMON_RPC_SERVICE_NOTIFIER_H_
#define SANGAM_COMMON_RPC_SERVICE_NOTIFIER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sangam {

// Tells the service manager that started this process how it is: datagrams to the socket that the
// environment names, as sd_notify(3) describes them for units of Type=notify and notify-reload.
// Without such a socket nothing happens; a manager that does not listen is no error. Not
// thread-safe.
class ServiceNotifier {
 public:
  // Looks at NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
  explicit ServiceNotifier(const std::vector<std::string>& environment);
  ~ServiceNotifier();
  ServiceNotifier(const ServiceNotifier&) = delete;
  ServiceNotifier& operator=(const ServiceNotifier&) = delete;

  // The start, or a reload, is over. `status`: a line for people.
  void Ready(absl::string_view status);
  // The configuration is read again; Ready follows.
  void Reloading();
  // It ends in order.
  void Stopping(absl::string_view status);
  // To be called more often than watchdog_period(): the process can go on.
  void Alive();

  // Half of what the manager waits for a sign of life; infinite: it does not.
  absl::Duration watchdog_period() const { return watchdog_period_; }

 private:
  void Send(const std::string& message);

  std::string address_;  // of the socket; the first byte is NUL for an abstract one
  int socket_ = -1;
  absl::Duration watchdog_period_ = absl::InfiniteDuration();
  absl::Duration last_alive_ = -absl::InfiniteDuration();  // of the steady clock
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_SERVICE_NOTIFIER_H_
