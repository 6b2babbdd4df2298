#ifndef SANGAM_SERVER_CORE_MEMBERSHIP_H_
#define SANGAM_SERVER_CORE_MEMBERSHIP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/cluster_service.pb.h"
#include "server/core/daemon_key.h"

namespace sangam {

// Which daemons are there. A daemon holds a lease, which every call of it renews; without a sign of
// life for the length of the lease it is lost.
//
// Whose name it is: a name belongs to the process that registered it as long as its lease runs, so
// that a second process started with the same name by mistake disturbs nobody. A process that is
// started again after it was killed gets its name back when the lease of the one before has run out
// (NodeAgent waits for that), at once when that one has left. From then on the one before is
// fenced: whatever it still says is refused with Aborted.
//
// Pure and not thread-safe. `now` is the time on a steady clock and must not go back.
class Membership {
 public:
  struct Options {
    absl::Duration lease = absl::Seconds(5);
    // Living daemons; more are refused.
    size_t max_daemons = 4096;
    // Lost ones are remembered, to be shown and fenced, this long and this many.
    absl::Duration remember = absl::Minutes(10);
    size_t max_lost = 256;
    // How much longer than a lease a restored daemon may be silent: it may have to find out first
    // that the coordinator is back, and tries with pauses that grow to some seconds. It has several
    // connections, which find out one after the other, so the time begins anew when it is first
    // heard of.
    absl::Duration reattach = absl::Seconds(6);
  };

  struct Daemon {
    v1::RegisterRequest registration;
    absl::Duration last_sign;
    bool alive = true;
    bool left = false;     // said goodbye; false for a lost one
    bool awaited = false;  // restored, and not heard of since
    // Why this process can do no more work, though it is there; empty: it can.
    std::string fault = {};
    // Why it is to get no new jobs and to give back those that it has; empty: it is not.
    std::string draining = {};
    bool cordoned = false;  // that is because a user asked for it
    // Of one that was restored: not lost before.
    absl::Duration keep_until = -absl::InfiniteDuration();
  };

  enum class Registration {
    kNew,      // the daemon is new, or was lost and holds nothing any more
    kRenewed,  // the same process again, within its lease
  };

  // A daemon that is no longer there, for the reason of the jobs that it leaves behind.
  struct Gone {
    DaemonKey key;
    uint64_t incarnation = 0;
    std::string why;  // "no sign of life for 5.0 s (lease 5 s)"
  };

  explicit Membership(Options options) : options_(options) {}

  // REQUIRES: role and name are set; ExpireLeases(now) was called.
  // Errors: AlreadyExists      another process with this role and name is alive
  //         Aborted            a process with a larger incarnation had the name before
  //         ResourceExhausted  too many daemons
  absl::StatusOr<Registration> Register(const v1::RegisterRequest& registration,
                                        absl::Duration now);

  // A daemon that an earlier coordinator knew. A living one is there as before, and has a lease and
  // `reattach` to give a sign of life.
  void Restore(const v1::RegisterRequest& registration, bool alive, bool left, absl::Duration now,
               std::string fault = {}, bool cordoned = false);
  // Living daemons that were restored and not heard of since.
  size_t num_awaited() const { return num_awaited_; }

  // Whether the daemon is there.
  // Errors: NotFound  not registered, or the lease has run out
  //         Aborted   a process with a larger incarnation has the name
  absl::Status Check(const v1::DaemonIdentity& daemon) const;

  // A sign of life. Errors as Check.
  absl::Status Renew(const v1::DaemonIdentity& daemon, absl::Duration now);

  // The daemon can do no more work, until a new process takes its place. False: it is not there, or
  // that is no news.
  bool SetFault(const v1::DaemonIdentity& daemon, std::string why);

  // The daemon's process is about to end, for good. False: it is not there, or that is no news.
  bool SetDraining(const v1::DaemonIdentity& daemon);

  // A user wants the daemon to drain, whichever process has its name, or not any more. False: that
  // is no news. Errors: NotFound  no daemon of this name is known
  absl::StatusOr<bool> SetCordoned(const DaemonKey& key, bool cordoned);

  // The daemon says goodbye. False: it was not there.
  bool Leave(const v1::DaemonIdentity& daemon);

  // The daemons whose lease has run out since the last call.
  std::vector<Gone> ExpireLeases(absl::Duration now);

  // Every lease begins anew. For when the coordinator itself stood still: daemons could not reach
  // it.
  void RenewAll(absl::Duration now);

  // Lost daemons that are not remembered any more, since the last call.
  std::vector<DaemonKey> TakeForgotten();

  // Lost ones included.
  const std::map<DaemonKey, Daemon>& daemons() const { return daemons_; }
  const Options& options() const { return options_; }

 private:
  bool Expired(const Daemon& daemon, absl::Duration now) const { return now >= ExpiryOf(daemon); }
  absl::Duration ExpiryOf(const Daemon& daemon) const {
    return std::max(daemon.last_sign + options_.lease, daemon.keep_until);
  }
  // The daemon was heard of, or is gone.
  void EndWait(Daemon* daemon);
  void ForgetLost(absl::Duration now);

  Options options_;
  std::map<DaemonKey, Daemon> daemons_;
  size_t num_alive_ = 0;
  size_t num_awaited_ = 0;
  std::vector<DaemonKey> forgotten_;
  // No lease ends before this, so that most calls need not look at every daemon.
  absl::Duration next_expiry_ = absl::ZeroDuration();
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_MEMBERSHIP_H_
