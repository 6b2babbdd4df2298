#ifndef SANGAM_SERVER_CORE_CHECKPOINT_POLICY_H_
#define SANGAM_SERVER_CORE_CHECKPOINT_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"

namespace sangam {

// When the servers of one running job copy its state, and when all of them have.
//
// Nobody stops for it: the servers are told the steps ahead of time, and each copies when it gets
// there. A server that hears of a step too late says nothing; such a step is given up and a later
// one takes its place, further ahead. By steps: exactly the multiples of every_steps, as many of
// them as can be written down in time. By time: a step in the near future. And always the last step
// of a job that has done all: its pages stay there, so that no server can hear of it too late.
//
// A job that is to be stopped (Stop) also copies a step, one that no worker has passed, and its
// workers begin no later one. As soon as one of them stands, no page goes past the step; when all
// have heard of it too late, another one takes its place. Also for a job that asks for no
// checkpoints: of that one nothing else is ever wanted.
//
// A copy takes memory from when the page goes on (ParameterPage::Snapshot), and servers have room
// for SnapshotsAtOnce of them, for none where the job asks for no checkpoints. Where there is no
// room for the copy that a stop needs, servers are asked for it once the job stands: then no page
// goes on, and it takes none.
//
// Pure and not thread-safe. `now` is the time on a steady clock.
class CheckpointPolicy {
 public:
  // Steps that are wanted at once; servers hold no more copies.
  static constexpr size_t kMaxWanted = 2;
  // How long after its step a report may come.
  static constexpr absl::Duration kPatience = absl::Seconds(2);
  static constexpr absl::Duration kSettling = absl::Milliseconds(500);
  // The same for the last step, from when all servers of the job are back: each must first hear
  // that nothing is wanted of it, to copy and report anew what the coordinator before has wanted.
  static constexpr absl::Duration kLastSettling = absl::Seconds(3);
  // How long no step is seen to end after the one before a stop until the job counts as standing: a
  // job with such long steps has heard of the stop before it began the next one.
  static constexpr absl::Duration kStanding = absl::Milliseconds(300);
  // How long after Finish the reports of the last step may come.
  static constexpr absl::Duration kLastPatience = absl::Seconds(15);

  struct Run {
    std::set<uint32_t> servers;  // that hold pages, by their index in the plan
    uint64_t first_step = 0;
    uint64_t steps_total = 0;
    // The job trains already, a coordinator before this one has begun it, and had done this many
    // steps when that one last heard of it. Where it is now shows only when its reports come, first
    // those that nobody heard meanwhile, so nothing is asked for until kSettling after the first.
    std::optional<uint64_t> under_way = std::nullopt;
    // Whether the job asks for checkpoints; when not, `spec` is not looked at.
    bool asked = true;
  };

  // All servers have copied a step's state and hold it.
  struct Ready {
    uint64_t step = 0;
    uint64_t updates = 0;
  };

  CheckpointPolicy(const v1::CheckpointSpec& spec, Run run, absl::Duration now);

  // What to ask of the servers now, ascending. A step stays until it is written down, fails or is
  // given up.
  std::vector<uint64_t> Wanted() const;

  // The job has completed `steps_done` steps; to be called also when only time has passed.
  void Advance(uint64_t steps_done, absl::Duration now);

  // The job is to stop soon (true), or to go on (false).
  void SetStopping(bool stopping, absl::Duration now);
  // The step that workers are not to begin, once it is chosen. Its copy is among what is wanted
  // from then on, or from when the job stands, until OnEnd; a job that is so near its end that it
  // comes first never has one. It may come to be another one, also a nearer one, until all servers
  // have copied it.
  std::optional<uint64_t> stop_step() const { return stop_step_; }
  // Whether all servers have copied it, and hold it until OnEnd.
  bool holds_stop() const;

  // All steps are done; what is wanted besides is the last step, once there is room for it, unless
  // it `is_written` already. Advance is to be called as before. Without effect the second time.
  void Finish(bool is_written, absl::Duration now);
  // Of a job under way: not all servers that hold pages are back yet.
  void AwaitServers(absl::Duration now);
  // After Finish: nothing more is to come.
  bool is_over() const { return finished_.has_value() && !wants_last_ && pending_.empty(); }
  // Whether not all servers have copied the last step in time.
  bool missed_last() const { return missed_last_; }

  // Of a step that is not wanted (any more): nothing.
  // Errors: InvalidArgument  a server that holds no pages, or updates that differ from another's
  absl::Status OnSnapshot(uint32_t server, const v1::SnapshotReport& report);

  // What can be written down now; then it is on its way until OnEnd. One at a time.
  std::optional<Ready> TakeReady();
  // It has been written down, or could not be; also of one that is found written.
  void OnEnd(uint64_t step, absl::Duration now);

 private:
  struct Pending {
    std::set<uint32_t> reported;
    uint64_t updates = 0;
    bool timed = false;  // wanted because of the time
    bool writing = false;
    std::optional<absl::Duration> passed;  // when the job was seen to be past it
  };

  bool Complete(const Pending& pending) const { return pending.reported == run_.servers; }
  // The step to stop before, if it were chosen now.
  uint64_t NextStop(absl::Duration now) const;
  // Whether it shows where the job is.
  bool Settled(absl::Duration now);
  void GiveUpMissed(absl::Duration now);
  void WantMultiples(uint64_t from);
  void WantTimed(uint64_t from, absl::Duration now);
  void WantLast(absl::Duration now);
  void WantStop(absl::Duration now);
  // Asks for the copy of the stop, when there is memory for it or it takes none.
  void AskForStop(absl::Duration now);
  void ForgetStop();
  // Steps that are done in the time that a request takes to be delivered.
  double StepsUnderWay(absl::Duration now) const;
  // Steps between now and the first one that can still be asked for.
  uint64_t Margin(absl::Duration now) const;

  const v1::CheckpointSpec spec_;
  const Run run_;
  const size_t copies_;  // that servers have room for
  const absl::Duration began_;
  const uint64_t steps_at_begin_;
  // Of a job under way: from when and where on its steps came as they were done.
  std::optional<absl::Duration> live_since_;
  uint64_t live_from_ = 0;
  uint64_t steps_done_;
  std::optional<absl::Duration> progressed_;  // when the first news of a job under way came
  uint64_t next_multiple_ = 0;
  uint64_t missed_factor_ = 1;
  absl::Duration last_;                     // when the last checkpoint ended
  std::optional<absl::Duration> finished_;  // when Finish was called
  bool stopping_ = false;
  std::optional<uint64_t> stop_step_;
  bool stop_asked_ = false;                // its copy has been wanted
  std::optional<absl::Duration> reached_;  // when all steps before it were seen to be done
  bool wants_last_ = false;                // it is to be asked for
  bool missed_last_ = false;
  std::map<uint64_t, Pending> pending_;  // by step
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_CHECKPOINT_POLICY_H_
