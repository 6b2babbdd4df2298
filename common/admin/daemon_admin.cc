#include "common/admin/daemon_admin.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/admin/admin_flags.h"
#include "common/admin/admin_server.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/metrics/call_counts.h"
#include "common/metrics/metric_page.h"
#include "common/metrics/process_metrics.h"
#include "common/rpc/bind_rule.h"
#include "common/rpc/host_port.h"
#include "common/rpc/process_credentials.h"
#include "nlohmann/json.hpp"

namespace sangam {
namespace {

using nlohmann::json;

// Seldom: for probes and Prometheus an open port is how it should be.
constexpr absl::Duration kWarnInterval = absl::Hours(1);

// When the certificate ends; false: there is none.
bool CertificateExpiry(absl::Time* expires) {
  *expires = CurrentProcessCredentials()->expires();
  return *expires != absl::InfiniteFuture();
}

}  // namespace

DaemonAdmin::DaemonAdmin(Facts facts) : facts_(std::move(facts)), started_(Clock::Real().Wall()) {}

DaemonAdmin::~DaemonAdmin() = default;

absl::Status DaemonAdmin::Serve(const AdminFlags& flags) {
  if (flags.admin_listen.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const HostPort listen, ParseHostPort(flags.admin_listen), "--admin_listen");
  const std::shared_ptr<ProcessCredentials> credentials = CurrentProcessCredentials();
  RETURN_IF_ERROR(CheckBind(listen.host.empty() ? "0.0.0.0" : listen.host, credentials->encrypted(),
                            credentials->insecure_allow_remote()),
                  "--admin_listen");
  AdminServer::Options options;
  options.listen = flags.admin_listen;
  AdminPages pages;
  pages.not_live = [this] { return watchdog_.Stuck(); };
  pages.not_ready = [this] { return readiness_.state().reason; };
  pages.metrics = [this] { return MetricsText(); };
  pages.status = [this] { return StatusText(); };
  ASSIGN_OR_RETURN(server_, AdminServer::Start(options, std::move(pages)));
  if (IsLoopback(listen.host)) return absl::OkStatus();
  OpenDoorWarning::Options warning;
  warning.reason =
      "the admin port has neither TLS nor credentials and shows the jobs of all owners";
  warning.fix = "a firewall or NetworkPolicy around it, or --admin_listen=127.0.0.1:PORT";
  warning.interval = kWarnInterval;
  warning_ = std::make_unique<OpenDoorWarning>(address(), std::move(warning));
  return absl::OkStatus();
}

std::string DaemonAdmin::address() const {
  return server_ == nullptr ? "" : ToString(server_->address());
}

void DaemonAdmin::SetSource(const AdminSource* source) {
  MutexLock lock(&mutex_);
  source_ = source;
}

std::string DaemonAdmin::MetricsText() const {
  MetricPage page;
  AddProcessMetrics(facts_.role, &page);
  page.Gauge("sangam_ready", "1: takes work", readiness_.state().ready() ? 1 : 0);
  AddCallMetrics(ProcessCalls(), &page);
  absl::Time expires;
  if (CertificateExpiry(&expires)) {
    page.Gauge("sangam_certificate_expiry_timestamp_seconds",
               "When the certificate of this process ends, since 1970",
               absl::ToDoubleSeconds(expires - absl::UnixEpoch()));
  }
  MutexLock lock(&mutex_);
  if (source_ != nullptr) source_->AddMetrics(&page);
  return page.Text();
}

std::string DaemonAdmin::StatusText() const {
  const absl::Time now = Clock::Real().Wall();
  const std::string not_ready = readiness_.state().reason;
  json status = {{"version", kVersion},
                 {"protocol", kProtocolVersion},
                 {"role", facts_.role},
                 {"name", facts_.name},
                 // As text: numbers of this size are not exact everywhere.
                 {"incarnation", std::to_string(facts_.incarnation)},
                 {"started", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", started_, absl::UTCTimeZone())},
                 {"uptime_seconds", absl::ToDoubleSeconds(now - started_)},
                 {"ready", not_ready.empty()},
                 {"log_level", std::string(LogLevelName(CurrentLogLevel()))},
                 {"flags", json::object()}};
  if (!not_ready.empty()) status["not_ready_reason"] = not_ready;
  for (const auto& [name, value] : facts_.flags) status["flags"][name] = value;
  const ProcessFacts process = ReadProcessFacts();
  if (process.resident_bytes.has_value()) {
    status["resident_bytes"] = static_cast<uint64_t>(*process.resident_bytes);
  }
  absl::Time expires;
  if (CertificateExpiry(&expires)) {
    status["certificate_expires"] =
        absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", expires, absl::UTCTimeZone());
  }
  {
    MutexLock lock(&mutex_);
    if (source_ != nullptr) source_->AddStatus(&status);
  }
  // What is no UTF-8 must not end the process.
  return status.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace sangam
