#include "server/core/membership.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/errors/error_details.h"
#include "proto/cluster_service.pb.h"
#include "server/core/daemon_key.h"

namespace sangam {
namespace {

constexpr char kProcessEnds[] = "its process is about to end";
constexpr char kCordoned[] = "a user asked for it (sangam cluster undrain takes it back)";

// "5.0 s", for ages.
std::string Age(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

// "(lease 5 s)".
std::string LeaseText(absl::Duration lease) {
  return absl::StrFormat("(lease %g s)", absl::ToDoubleSeconds(lease));
}

absl::Status Replaced(const DaemonKey& key, uint64_t known, uint64_t found) {
  return WithReason(
      absl::AbortedError(absl::StrCat(
          ToString(key), ": a process with incarnation ", known,
          " has this name now; found the older incarnation ", found,
          " (a process that starts later than another one must have a larger incarnation: is this "
          "machine's clock right?)")),
      "REPLACED");
}

}  // namespace

absl::StatusOr<Membership::Registration> Membership::Register(
    const v1::RegisterRequest& registration, absl::Duration now) {
  const DaemonKey key = KeyOf(registration.daemon());
  const uint64_t incarnation = registration.daemon().incarnation();
  const auto found = daemons_.find(key);
  bool renewed = false;
  std::string fault;
  std::string draining;
  bool cordoned = false;
  if (found != daemons_.end()) {
    const Daemon& known = found->second;
    const uint64_t known_incarnation = known.registration.daemon().incarnation();
    renewed = known.alive && known_incarnation == incarnation;
    if (known_incarnation == incarnation) fault = known.fault;
    cordoned = known.cordoned;
    if (cordoned) draining = kCordoned;
    if (known_incarnation == incarnation) draining = known.draining;
    if (incarnation < known_incarnation && !known.left) {
      return Replaced(key, known_incarnation, incarnation);
    }
    if (known.alive && !renewed) {
      return WithReason(
          absl::AlreadyExistsError(absl::StrCat(
              ToString(key), ": another process has this name and is alive, last sign of life ",
              Age(now - known.last_sign), " ago ", LeaseText(options_.lease),
              "; choose another name, or wait if that process was killed")),
          "NAME_IN_USE");
    }
  }
  if (!renewed && num_alive_ >= options_.max_daemons) {
    return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                          ToString(key), ": ", num_alive_, " daemons are registered, the limit is ",
                          options_.max_daemons)),
                      "TOO_MANY_DAEMONS", {{"limit", absl::StrCat(options_.max_daemons)}});
  }
  if (!renewed) ++num_alive_;
  if (found != daemons_.end()) EndWait(&found->second);
  daemons_[key] = Daemon{registration,        now,     true, false, false, std::move(fault),
                         std::move(draining), cordoned};
  next_expiry_ = std::min(next_expiry_, now + options_.lease);
  ForgetLost(now);
  return renewed ? Registration::kRenewed : Registration::kNew;
}

void Membership::Restore(const v1::RegisterRequest& registration, bool alive, bool left,
                         absl::Duration now, std::string fault, bool cordoned) {
  Daemon& daemon = daemons_[KeyOf(registration.daemon())];
  daemon = Daemon{registration,
                  now,
                  alive,
                  left,
                  alive,
                  std::move(fault),
                  cordoned ? kCordoned : "",
                  cordoned,
                  now + options_.lease + options_.reattach};
  if (!alive) return;
  ++num_alive_;
  ++num_awaited_;
  next_expiry_ = std::min(next_expiry_, ExpiryOf(daemon));
}

void Membership::EndWait(Daemon* daemon) {
  if (!daemon->awaited) return;
  daemon->awaited = false;
  --num_awaited_;
}

std::vector<DaemonKey> Membership::TakeForgotten() { return std::exchange(forgotten_, {}); }

absl::Status Membership::Check(const v1::DaemonIdentity& daemon) const {
  const DaemonKey key = KeyOf(daemon);
  const auto found = daemons_.find(key);
  if (found != daemons_.end()) {
    const uint64_t known = found->second.registration.daemon().incarnation();
    if (daemon.incarnation() < known) return Replaced(key, known, daemon.incarnation());
    if (daemon.incarnation() == known && found->second.alive) return absl::OkStatus();
  }
  return WithReason(
      absl::NotFoundError(absl::StrCat(
          ToString(key), ": not registered, or its lease has run out; register again")),
      "LEASE_EXPIRED");
}

absl::Status Membership::Renew(const v1::DaemonIdentity& daemon, absl::Duration now) {
  RETURN_IF_ERROR(Check(daemon));
  Daemon& known = daemons_.find(KeyOf(daemon))->second;
  if (known.awaited) {
    EndWait(&known);
    known.keep_until = now + options_.lease + options_.reattach;
  }
  known.last_sign = now;
  return absl::OkStatus();
}

bool Membership::SetFault(const v1::DaemonIdentity& daemon, std::string why) {
  if (!Check(daemon).ok()) return false;
  Daemon& known = daemons_.find(KeyOf(daemon))->second;
  if (!known.fault.empty()) return false;
  known.fault = std::move(why);
  return true;
}

bool Membership::SetDraining(const v1::DaemonIdentity& daemon) {
  if (!Check(daemon).ok()) return false;
  Daemon& known = daemons_.find(KeyOf(daemon))->second;
  if (known.draining == kProcessEnds) return false;
  known.draining = kProcessEnds;
  return true;
}

absl::StatusOr<bool> Membership::SetCordoned(const DaemonKey& key, bool cordoned) {
  const auto found = daemons_.find(key);
  if (found == daemons_.end()) {
    return absl::NotFoundError(absl::StrCat(ToString(key), ": no such daemon is known"));
  }
  Daemon& known = found->second;
  if (known.cordoned == cordoned) return false;
  known.cordoned = cordoned;
  if (known.draining != kProcessEnds) known.draining = cordoned ? kCordoned : "";
  return true;
}

bool Membership::Leave(const v1::DaemonIdentity& daemon) {
  const auto found = daemons_.find(KeyOf(daemon));
  if (found == daemons_.end() || !found->second.alive ||
      found->second.registration.daemon().incarnation() != daemon.incarnation()) {
    return false;
  }
  EndWait(&found->second);
  found->second.alive = false;
  found->second.left = true;
  --num_alive_;
  return true;
}

std::vector<Membership::Gone> Membership::ExpireLeases(absl::Duration now) {
  std::vector<Gone> gone;
  if (now < next_expiry_) return gone;
  absl::Duration next = absl::InfiniteDuration();
  for (auto& [key, daemon] : daemons_) {
    if (!daemon.alive) continue;
    if (!Expired(daemon, now)) {
      next = std::min(next, ExpiryOf(daemon));
      continue;
    }
    const std::string since =
        daemon.awaited ? "since the coordinator was started again" : LeaseText(options_.lease);
    EndWait(&daemon);
    daemon.alive = false;
    --num_alive_;
    gone.push_back({key, daemon.registration.daemon().incarnation(),
                    absl::StrCat("no sign of life for ", Age(now - daemon.last_sign), " ", since)});
  }
  next_expiry_ = next;
  ForgetLost(now);
  return gone;
}

void Membership::RenewAll(absl::Duration now) {
  for (auto& [key, daemon] : daemons_) {
    if (daemon.alive) daemon.last_sign = now;
  }
}

void Membership::ForgetLost(absl::Duration now) {
  std::vector<std::pair<absl::Duration, DaemonKey>> lost;
  for (const auto& [key, daemon] : daemons_) {
    if (!daemon.alive) lost.emplace_back(daemon.last_sign, key);
  }
  std::sort(lost.begin(), lost.end());
  const size_t too_many = lost.size() > options_.max_lost ? lost.size() - options_.max_lost : 0;
  for (size_t i = 0; i < lost.size(); ++i) {
    if (i >= too_many && now - lost[i].first < options_.remember) continue;
    daemons_.erase(lost[i].second);
    forgotten_.push_back(lost[i].second);
  }
}

}  // namespace sangam
