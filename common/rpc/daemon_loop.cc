#include "common/rpc/daemon_loop.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/rpc/daemon_process.h"
#include "common/rpc/service_notifier.h"

namespace sangam {
namespace {

// How long the loop sleeps when nothing happens.
constexpr absl::Duration kPeriod = absl::Milliseconds(500);
constexpr absl::Duration kDrainPeriod = absl::Milliseconds(20);

void LogState(const DaemonParts& parts) {
  for (const absl::string_view line : absl::StrSplit(parts.describe(), '\n', absl::SkipEmpty())) {
    Log(LogLevel::kInfo, "state", line);
  }
}

// What came besides the end.
void Answer(const DaemonParts& parts, ShutdownSignal* signal, ServiceNotifier* notifier) {
  if (signal->TakeReload()) {
    notifier->Reloading();
    parts.reload();
    notifier->Ready(parts.serving);
  }
  if (signal->TakeDescribe()) LogState(parts);
  parts.alive();
  notifier->Alive();
}

absl::Status Drain(const DaemonParts& parts, ShutdownSignal* signal, ServiceNotifier* notifier) {
  const absl::Duration start = Clock::Real().Steady();
  LogInfo("draining", "reason=%s timeout=%s", signal->name(),
          absl::FormatDuration(parts.drain_timeout));
  notifier->Stopping("draining");
  std::atomic<bool> done{false};
  std::thread drain([&parts, &done] {
    parts.drain(parts.drain_timeout);
    done.store(true);
  });
  while (!done.load()) {
    signal->WaitForMore(kDrainPeriod);
    if (signal->TakeReload()) parts.reload();
    if (signal->TakeDescribe()) LogState(parts);
    parts.alive();
    notifier->Alive();
  }
  drain.join();
  LogInfo("drained", "seconds=%.1f", absl::ToDoubleSeconds(Clock::Real().Steady() - start));
  return parts.stopped();
}

}  // namespace

ExitCode DaemonEnd::exit_code() const {
  if (!status.ok()) return DaemonExitCodeFor(status);
  return static_cast<ExitCode>(128 + signal);
}

DaemonEnd RunDaemonLoop(const DaemonParts& parts, ShutdownSignal* signal,
                        ServiceNotifier* notifier) {
  DaemonEnd end;
  notifier->Ready(parts.serving);
  const absl::Duration period = std::min(kPeriod, notifier->watchdog_period());
  while (end.status.ok() && !signal->WaitFor(period)) {
    Answer(parts, signal, notifier);
    end.status = parts.stopped();
  }
  if (end.status.ok()) {
    end.status = Drain(parts, signal, notifier);
  } else {
    notifier->Stopping(end.status.message());
  }
  if (end.status.ok()) end.signal = signal->number();
  end.reason = end.status.ok() ? signal->name() : std::string(end.status.message());
  return end;
}

}  // namespace sangam
