#include "server/core/registration.h"

#include <cmath>
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/version.h"
#include "common/errors/error_details.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

constexpr size_t kMaxName = 128;
constexpr size_t kMaxAddress = 512;

bool IsName(absl::string_view name) {
  for (const char c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.') {
      return false;
    }
  }
  return !name.empty() && name.size() <= kMaxName;
}

}  // namespace

absl::Status CheckRegistration(const v1::RegisterRequest& request) {
  const v1::DaemonIdentity& daemon = request.daemon();
  // Before anything else: another version may mean other fields.
  if (request.protocol_version() != kProtocolVersion) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          "protocol_version: the daemon speaks ", request.protocol_version(),
                          ", the coordinator ", kProtocolVersion, "; upgrade the older of both")),
                      "VERSION_SKEW",
                      {{"found", absl::StrCat(request.protocol_version())},
                       {"expected", absl::StrCat(kProtocolVersion)}});
  }
  if (daemon.role() != v1::SERVER && daemon.role() != v1::WORKER) {
    return absl::InvalidArgumentError(
        absl::StrCat("daemon.role: found ", daemon.role(), ", expected SERVER or WORKER"));
  }
  if (!IsName(daemon.name())) {
    return absl::InvalidArgumentError(
        absl::StrCat("daemon.name: found \"", absl::CHexEscape(daemon.name().substr(0, kMaxName)),
                     "\", expected 1 to ", kMaxName, " letters, digits, '_', '-' and '.'"));
  }
  if (daemon.incarnation() == 0) {
    return absl::InvalidArgumentError("daemon.incarnation: found 0, expected at least 1");
  }
  if (request.address().empty() || request.address().size() > kMaxAddress) {
    return absl::InvalidArgumentError(absl::StrCat("address: found ", request.address().size(),
                                                   " bytes, expected \"host:port\" of at most ",
                                                   kMaxAddress));
  }
  if (request.backend().size() > kMaxName) {
    return absl::InvalidArgumentError(absl::StrCat("backend: found ", request.backend().size(),
                                                   " bytes, expected at most ", kMaxName));
  }
  const v1::DeviceFacts& device = request.device();
  for (const std::string* text :
       {&device.name(), &device.compute_capability(), &device.driver(), &device.runtime()}) {
    if (text->size() <= kMaxName) continue;
    return absl::InvalidArgumentError(absl::StrCat("device: found a text of ", text->size(),
                                                   " bytes, expected at most ", kMaxName));
  }
  if (!std::isfinite(request.flops_per_second()) || request.flops_per_second() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("flops_per_second: found ",
                                                   request.flops_per_second(),
                                                   ", expected a finite number of at least 0"));
  }
  return absl::OkStatus();
}

std::string UnitOf(const v1::RegisterRequest& worker) {
  const std::string& device = worker.device().name();
  return device.empty() ? worker.backend() : absl::StrCat(worker.backend(), " ", device);
}

}  // namespace sangam
